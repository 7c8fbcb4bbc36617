// Clients and servers of hello, and of the interop cases of gRPC, with gRPC for Go and its xDS.
//
// Usage: grpc-go client TARGET...
//
//	grpc-go calls [--xds-credentials]
//
//	grpc-go load TARGET CALLS CONCURRENCY
//
//	grpc-go paced TARGET CONNECTIONS
//
//	grpc-go server PORT NAME [xds | load=UTILIZATION]
//
//	grpc-go interop-client TARGET CASE...
//
//	grpc-go interop-server PORT [xds]
//
// "calls" makes the calls that it is told on its input, "load" measures many, and "paced" the rest of the work of a
// channel that makes few. The client calls its targets over and over
// and prints one line for each call, `TARGET: REPLY` or `TARGET: error CODE DETAILS`. The server
// greets with its name. With `xds` it serves while the management server gives it a listener, and
// prints the modes it goes through. With `load` it
// reports its load to clients. The interop client prints `passed: CASE` for each case, and the
// interop server has the test service. The bootstrap comes from GRPC_XDS_BOOTSTRAP. Bodies are raw
// bytes, so that no message has to be generated.
package main

import (
	"fmt"
	"os"

	_ "google.golang.org/grpc/xds"
)

func main() {
	if len(os.Args) >= 2 && os.Args[1] == "calls" {
		runCalls(len(os.Args) > 2 && os.Args[2] == "--xds-credentials")
		return
	}
	if len(os.Args) < 3 {
		fail("usage: grpc-go calls | load TARGET CALLS CONCURRENCY | paced TARGET CONNECTIONS | client TARGET... | server PORT NAME [xds | load=UTILIZATION]" +
			" | interop-client TARGET CASE... | interop-server PORT [xds]")
	}
	words := os.Args[2:]
	switch os.Args[1] {
	case "load":
		runLoad(words)
	case "paced":
		runPaced(words)
	case "client":
		runClient(words)
	case "server":
		runServer(words)
	case "interop-client":
		runInteropClient(words)
	case "interop-server":
		runInteropServer(words)
	default:
		fail("client or server")
	}
}

// raw is a codec of bodies that are bytes already.
type raw struct{}

func (raw) Name() string { return "raw" }

func (raw) Marshal(body any) ([]byte, error) {
	bytes, ok := body.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("%T is not bytes", body)
	}
	return *bytes, nil
}

func (raw) Unmarshal(data []byte, body any) error {
	bytes, ok := body.(*[]byte)
	if !ok {
		return fmt.Errorf("%T is not bytes", body)
	}
	*bytes = append([]byte(nil), data...)
	return nil
}

func fail(what any) {
	fmt.Fprintln(os.Stderr, "grpc-go:", what)
	os.Exit(1)
}
