// go-control-plane under test: its snapshot cache or its linear cache, used as its documentation
// and its example server say, with one group for all nodes; or, with `--own`, with a snapshot for
// each of N nodes, which has a resource of its own besides those that all nodes see.
//
// Usage: go-control-plane --listen ADDR --types eds --resources K --bytes B
// --cache snapshot|linear [--own N]
//
// It prints `ready xds=ADDR control=ADDR` and obeys `change` and `quit` on the second address, as
// every server of this benchmark does. Its log is silent and it sets no callbacks. Of grpc-go's
// options only the number of streams is set, as the example has it; buffers and windows are the
// defaults.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"

	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	listenerservice "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	routeservice "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
)

const maxStreams = 1000000

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "where clients connect")
	kinds := flag.String("types", "eds", "resource types; the first one changes")
	resources := flag.Int("resources", 100, "how many resources of each type")
	bytes := flag.Int("bytes", 1100, "about how many bytes each has")
	own := flag.Int("own", 0, "how many nodes have a snapshot with a resource of their own")
	kind := flag.String("cache", "snapshot", "snapshot or linear")
	flag.String("protocol", "delta", "not used: both variants are served")
	flag.Parse()

	content := content{
		kinds: strings.Split(*kinds, ","), resources: *resources, bytes: *bytes, own: *own,
	}
	published, err := newCache(*kind, content)
	check(err)
	xds, err := net.Listen("tcp", *listen)
	check(err)
	control, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go func() { check(newServer(published.cache()).Serve(xds)) }()
	fmt.Printf("ready xds=%s control=%s\n", xds.Addr(), control.Addr())
	obey(control, published)
}

func newServer(cache cache.Cache) *grpc.Server {
	xds := server.NewServer(context.Background(), cache, nil)
	served := grpc.NewServer(grpc.MaxConcurrentStreams(maxStreams))
	discovery.RegisterAggregatedDiscoveryServiceServer(served, xds)
	endpointservice.RegisterEndpointDiscoveryServiceServer(served, xds)
	clusterservice.RegisterClusterDiscoveryServiceServer(served, xds)
	routeservice.RegisterRouteDiscoveryServiceServer(served, xds)
	listenerservice.RegisterListenerDiscoveryServiceServer(served, xds)
	return served
}

func obey(control net.Listener, published published) {
	for {
		conn, err := control.Accept()
		check(err)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			switch strings.TrimSpace(lines.Text()) {
			case "change":
				check(published.change())
				fmt.Fprintln(conn, "ok")
			case "quit":
				return
			default:
				fmt.Fprintln(conn, "unknown command; there are `change` and `quit`")
			}
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "go-control-plane:", err)
		os.Exit(1)
	}
}
