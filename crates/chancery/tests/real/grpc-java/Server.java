import static java.nio.charset.StandardCharsets.UTF_8;

import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.ServerBuilder;
import io.grpc.ServerServiceDefinition;
import io.grpc.stub.ServerCalls;
import io.grpc.xds.XdsServerBuilder;
import io.grpc.xds.XdsServerCredentials;
import java.io.IOException;

/** Greets with its name. */
final class Server {
  private Server() {}

  static void run(String[] words) throws InterruptedException, IOException {
    int port = Integer.parseInt(words[0]);
    boolean xds = words.length > 2 && words[2].equals("xds");
    ServerBuilder<?> builder =
        xds
            ? xdsEnabled(port)
            : Grpc.newServerBuilderForPort(port, InsecureServerCredentials.create());
    io.grpc.Server server = builder.addService(greeter(words[1])).build();
    System.out.println("started");
    server.start().awaitTermination();
  }

  private static ServerBuilder<?> xdsEnabled(int port) {
    var credentials = XdsServerCredentials.create(InsecureServerCredentials.create());
    return XdsServerBuilder.forPort(port, credentials).xdsServingStatusListener(new Modes());
  }

  private static ServerServiceDefinition greeter(String name) {
    return ServerServiceDefinition.builder("hello.Greeter")
        .addMethod(
            Hello.SAY_HELLO,
            ServerCalls.asyncUnaryCall(
                (body, replies) -> {
                  String reply = "hello " + new String(body, UTF_8) + " from " + name;
                  replies.onNext(reply.getBytes(UTF_8));
                  replies.onCompleted();
                }))
        .build();
  }

  /** Prints the modes that an xDS-enabled server goes through. */
  private static final class Modes implements XdsServerBuilder.XdsServingStatusListener {
    @Override
    public void onServing() {
      System.out.println("mode: serving");
    }

    @Override
    public void onNotServing(Throwable fault) {
      System.out.println("mode: not serving: " + fault.getMessage());
    }
  }
}
