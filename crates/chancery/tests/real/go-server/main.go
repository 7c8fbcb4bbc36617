// A management server on go-control-plane: its snapshot cache or its linear cache, over gRPC and
// through its HTTP gateway, with one content for all nodes.
//
// Usage: go-server --listen ADDR --rest ADDR --cache snapshot|linear
//
// Each line on stdin is all there is from now on: a JSON array of resources, each with its
// `@type`. It is answered with `published N` once the call that publishes it has returned, the
// first one when the server serves. `rejected: MESSAGE` is said of each rejection. The program
// ends with its stdin.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"

	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	listenerservice "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	routeservice "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "where gRPC is served")
	rest := flag.String("rest", "127.0.0.1:0", "where REST is served")
	kind := flag.String("cache", "snapshot", "snapshot or linear")
	flag.Parse()

	published, err := newPublished(*kind)
	check(err)
	xds := server.NewServer(context.Background(), published.cache(), callbacks())
	streams, err := net.Listen("tcp", *listen)
	check(err)
	polls, err := net.Listen("tcp", *rest)
	check(err)
	go func() { check(register(xds).Serve(streams)) }()
	go func() { check(http.Serve(polls, gateway(xds))) }()
	obey(published)
}

func register(xds server.Server) *grpc.Server {
	served := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(served, xds)
	endpointservice.RegisterEndpointDiscoveryServiceServer(served, xds)
	clusterservice.RegisterClusterDiscoveryServiceServer(served, xds)
	routeservice.RegisterRouteDiscoveryServiceServer(served, xds)
	listenerservice.RegisterListenerDiscoveryServiceServer(served, xds)
	return served
}

// The gateway of the library says what to answer, and this answers.
func gateway(xds server.Server) http.Handler {
	gateway := server.HTTPGateway{Server: xds}
	return http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		body, code, err := gateway.ServeHTTP(request)
		if err != nil {
			http.Error(answer, err.Error(), code)
			return
		}
		answer.Header().Set("Content-Type", "application/json")
		answer.WriteHeader(code)
		if len(body) > 0 {
			// If it fails, nobody is there to be told.
			_, _ = answer.Write(body)
		}
	})
}

func callbacks() server.Callbacks {
	return server.CallbackFuncs{
		StreamRequestFunc: func(_ int64, request *discovery.DiscoveryRequest) error {
			return heard(request.GetErrorDetail() != nil, request.GetErrorDetail().GetMessage())
		},
		StreamDeltaRequestFunc: func(_ int64, request *discovery.DeltaDiscoveryRequest) error {
			return heard(request.GetErrorDetail() != nil, request.GetErrorDetail().GetMessage())
		},
		FetchRequestFunc: func(_ context.Context, request *discovery.DiscoveryRequest) error {
			return heard(request.GetErrorDetail() != nil, request.GetErrorDetail().GetMessage())
		},
	}
}

func heard(rejected bool, message string) error {
	if rejected {
		fmt.Printf("rejected: %s\n", message)
	}
	return nil
}

func obey(published published) {
	version := 0
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		resources, err := parse(lines.Bytes())
		check(err)
		version++
		check(published.publish(version, resources))
		fmt.Printf("published %d\n", version)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "go-server:", err)
		os.Exit(1)
	}
}
