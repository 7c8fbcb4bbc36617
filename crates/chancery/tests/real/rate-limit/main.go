// The xDS client of Envoy's rate limit service, without the service.
//
// Usage: rate-limit ADDRESS NODE_ID
//
// It prints each configuration that it is given and takes, `limits: FULL_KEY: unit=UNIT
// requests_per_unit=N ...; ...`, and `rejected: WHY` for one that it does not.
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/envoyproxy/ratelimit/src/provider"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	gostats "github.com/lyft/gostats"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: rate-limit ADDRESS NODE_ID")
		os.Exit(1)
	}
	follow(os.Args[1], os.Args[2])
}

func follow(address, node string) {
	chosen := settings.NewSettings()
	chosen.ConfigGrpcXdsServerUrl = address
	chosen.ConfigGrpcXdsNodeId = node
	counters := stats.NewStatManager(gostats.NewStore(gostats.NewNullSink(), false), chosen)
	client := provider.NewXdsGrpcSotwProvider(chosen, counters)
	for event := range client.ConfigUpdateEvent() {
		config, fault := event.GetConfig()
		if fault != nil {
			fmt.Printf("rejected: %v\n", fault)
			continue
		}
		limits := strings.Split(strings.TrimSpace(config.Dump()), "\n")
		sort.Strings(limits)
		fmt.Printf("limits: %s\n", strings.Join(limits, "; "))
	}
}
