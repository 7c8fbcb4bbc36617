import io.grpc.MethodDescriptor;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * A client and a server of hello with gRPC for Java and its xDS.
 *
 * <pre>
 *   java Hello client TARGET...
 *   java Hello server PORT NAME [xds]
 * </pre>
 *
 * The client calls its targets over and over and prints one line for each call, {@code TARGET:
 * REPLY} or {@code TARGET: error CODE DETAILS}. The server greets with its name. With {@code xds}
 * it serves while the management server gives it a listener, and prints the modes it goes through.
 * The bootstrap comes from GRPC_XDS_BOOTSTRAP. Bodies are raw bytes, so that no message has to be
 * generated.
 */
final class Hello {
  static final MethodDescriptor<byte[], byte[]> SAY_HELLO =
      MethodDescriptor.<byte[], byte[]>newBuilder()
          .setType(MethodDescriptor.MethodType.UNARY)
          .setFullMethodName("hello.Greeter/SayHello")
          .setRequestMarshaller(new Raw())
          .setResponseMarshaller(new Raw())
          .build();

  private Hello() {}

  public static void main(String[] words) throws Exception {
    Logger.getLogger("").setLevel(Level.WARNING);
    if (words.length < 2) {
      throw new IllegalArgumentException("client TARGET... | server PORT NAME [xds]");
    }
    String[] rest = Arrays.copyOfRange(words, 1, words.length);
    switch (words[0]) {
      case "client" -> Client.run(rest);
      case "server" -> Server.run(rest);
      default -> throw new IllegalArgumentException("client or server");
    }
  }

  /** Takes bodies for the bytes that they are. */
  private static final class Raw implements MethodDescriptor.Marshaller<byte[]> {
    @Override
    public InputStream stream(byte[] body) {
      return new ByteArrayInputStream(body);
    }

    @Override
    public byte[] parse(InputStream stream) {
      try {
        return stream.readAllBytes();
      } catch (IOException fault) {
        throw new UncheckedIOException(fault);
      }
    }
  }
}
