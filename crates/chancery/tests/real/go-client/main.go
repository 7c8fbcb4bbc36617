// Fetches clusters or endpoints over SotW ADS with the go-control-plane project's own client, which
// cannot name them, and acknowledges every answer. Prints one line per answer: `answer N: NAME,NAME`
// or `rejected N`.
//
// Usage: go-client ADDRESS NODE_ID cds|eds ANSWERS [nack]
//
// With `nack` the second answer is refused and the third one accepted again.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	sotw "github.com/envoyproxy/go-control-plane/pkg/client/sotw/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

var types = map[string]string{
	"cds": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
	"eds": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
}

func main() {
	if len(os.Args) < 5 || types[os.Args[3]] == "" {
		fail("usage: go-client ADDRESS NODE_ID cds|eds ANSWERS [nack]", nil)
	}
	answers, err := strconv.Atoi(os.Args[4])
	if err != nil {
		fail("ANSWERS", err)
	}
	run(os.Args[1], os.Args[2], types[os.Args[3]], answers, len(os.Args) > 5)
}

func run(address, node, typeURL string, answers int, nack bool) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fail("dial", err)
	}
	defer conn.Close()
	client := sotw.NewADSClient(ctx, &core.Node{Id: node, Cluster: "go"}, typeURL)
	if err := client.InitConnect(conn); err != nil {
		fail("connect", err)
	}
	for number := 1; number <= answers; number++ {
		answer, err := client.Fetch()
		if err != nil {
			fail("fetch", err)
		}
		if nack && number == 2 {
			fmt.Printf("rejected %d\n", number)
			err = client.Nack("refused by the test")
		} else {
			fmt.Printf("answer %d: %s\n", number, names(answer))
			err = client.Ack()
		}
		if err != nil {
			fail("acknowledge", err)
		}
	}
}

func names(answer *sotw.Response) string {
	var found []string
	for _, body := range answer.Resources {
		message, err := body.UnmarshalNew()
		if err != nil {
			fail("decode", err)
		}
		switch parsed := message.(type) {
		case *cluster.Cluster:
			found = append(found, parsed.GetName())
		case *endpoint.ClusterLoadAssignment:
			found = append(found, parsed.GetClusterName())
		}
	}
	sort.Strings(found)
	return strings.Join(found, ",")
}

func fail(what string, err error) {
	fmt.Fprintln(os.Stderr, what, err)
	os.Exit(1)
}
