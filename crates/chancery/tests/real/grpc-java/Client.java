import static java.nio.charset.StandardCharsets.UTF_8;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Calls targets over and over. */
final class Client {
  private static final long PATIENCE_SECONDS = 2;
  private static final long PAUSE_MILLISECONDS = 50;

  private Client() {}

  static void run(String[] targets) throws InterruptedException {
    Map<String, Channel> channels = new LinkedHashMap<>();
    for (String target : targets) {
      channels.put(
          target, Grpc.newChannelBuilder(target, InsecureChannelCredentials.create()).build());
    }
    while (true) {
      channels.forEach((target, channel) -> System.out.println(target + ": " + call(channel)));
      Thread.sleep(PAUSE_MILLISECONDS);
    }
  }

  private static String call(Channel channel) {
    CallOptions options =
        CallOptions.DEFAULT.withDeadlineAfter(PATIENCE_SECONDS, TimeUnit.SECONDS);
    try {
      byte[] body = "java".getBytes(UTF_8);
      return new String(
          ClientCalls.blockingUnaryCall(channel, Hello.SAY_HELLO, options, body), UTF_8);
    } catch (StatusRuntimeException fault) {
      Status status = fault.getStatus();
      String details = String.valueOf(status.getDescription()).replace('\n', ' ');
      return "error " + status.getCode() + " " + details;
    }
  }
}
