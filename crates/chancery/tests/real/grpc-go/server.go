package main

import (
	"context"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	xdscreds "google.golang.org/grpc/credentials/xds"
	"google.golang.org/grpc/xds"
)

// registrar is what a plain server and an xDS-enabled one have in common.
type registrar interface {
	RegisterService(*grpc.ServiceDesc, any)
	Serve(net.Listener) error
}

func runServer(words []string) {
	if len(words) < 2 {
		fail("PORT NAME")
	}
	port, name := words[0], words[1]
	var server registrar
	if load, reports := strings.CutPrefix(words[len(words)-1], "load="); reports {
		server = newReportingServer(load)
	} else {
		server = newServer(len(words) > 2 && words[2] == "xds", grpc.ForceServerCodec(raw{}))
	}
	server.RegisterService(hello(name), nil)
	serveOn(server, port)
}

func serveOn(server registrar, port string) {
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		fail(err)
	}
	fmt.Println("started")
	fail(server.Serve(listener))
}

func newServer(xdsEnabled bool, chosen ...grpc.ServerOption) registrar {
	if !xdsEnabled {
		return grpc.NewServer(chosen...)
	}
	modes := xds.ServingModeCallback(func(_ net.Addr, change xds.ServingModeChangeArgs) {
		if change.Mode == connectivity.ServingModeServing {
			fmt.Println("mode: serving")
		} else {
			fmt.Printf("mode: not serving: %v\n", change.Err)
		}
	})
	options := xdscreds.ServerOptions{FallbackCreds: insecure.NewCredentials()}
	secure, err := xdscreds.NewServerCredentials(options)
	if err != nil {
		fail(err)
	}
	server, err := xds.NewGRPCServer(append(chosen, grpc.Creds(secure), modes)...)
	if err != nil {
		fail(err)
	}
	return server
}

// hello is the service that generated code would describe.
func hello(name string) *grpc.ServiceDesc {
	greet := func(_ context.Context, body any) (any, error) {
		reply := []byte(fmt.Sprintf("hello %s from %s", *body.(*[]byte), name))
		return &reply, nil
	}
	say := func(_ any, ctx context.Context, read func(any) error, through grpc.UnaryServerInterceptor) (any, error) {
		body := new([]byte)
		if err := read(body); err != nil {
			return nil, err
		}
		if through == nil {
			return greet(ctx, body)
		}
		return through(ctx, body, &grpc.UnaryServerInfo{FullMethod: "/hello.Greeter/SayHello"}, greet)
	}
	methods := []grpc.MethodDesc{{MethodName: "SayHello", Handler: say}}
	return &grpc.ServiceDesc{ServiceName: "hello.Greeter", Methods: methods}
}
