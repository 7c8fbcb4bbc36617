// Fetches clusters over SotW ADS with the go-control-plane project's own client and acknowledges
// every answer. Prints one line per answer: `answer N: NAME,NAME` or `rejected N`.
//
// Usage: go-client ADDRESS NODE_ID ANSWERS [nack]
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
	sotw "github.com/envoyproxy/go-control-plane/pkg/client/sotw/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const clusters = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

func main() {
	if len(os.Args) < 4 {
		fail("usage: go-client ADDRESS NODE_ID ANSWERS [nack]", nil)
	}
	answers, err := strconv.Atoi(os.Args[3])
	if err != nil {
		fail("ANSWERS", err)
	}
	run(os.Args[1], os.Args[2], answers, len(os.Args) > 4)
}

func run(address, node string, answers int, nack bool) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fail("dial", err)
	}
	defer conn.Close()
	client := sotw.NewADSClient(ctx, &core.Node{Id: node, Cluster: "go"}, clusters)
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
		parsed := &cluster.Cluster{}
		if err := body.UnmarshalTo(parsed); err != nil {
			fail("decode", err)
		}
		found = append(found, parsed.GetName())
	}
	sort.Strings(found)
	return strings.Join(found, ",")
}

func fail(what string, err error) {
	fmt.Fprintln(os.Stderr, what, err)
	os.Exit(1)
}
