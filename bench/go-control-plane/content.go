package main

// The resources: the same names, bodies and order of changes as in bench/servers/src/content.rs.

import (
	"fmt"
	"strings"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	router "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

var typeURLs = map[string]resource.Type{
	"cds": resource.ClusterType,
	"eds": resource.EndpointType,
	"lds": resource.ListenerType,
	"rds": resource.RouteType,
}

const (
	oneEndpoint     = 28
	aroundEndpoints = 20
	firstPort       = 16384
)

func name(index int) string {
	return fmt.Sprintf("bench-%06d", index)
}

// A resource of about so many bytes; another generation has another content of the same size.
func body(kind string, index, generation, bytes int) types.Resource {
	if kind == "eds" {
		return endpoints(index, generation, bytes)
	}
	text := fmt.Sprintf("%010d", generation)
	room := bytes - proto.Size(withText(kind, name(index), text))
	if room < 0 {
		room = 0
	}
	return withText(kind, name(index), text+strings.Repeat("x", room))
}

func endpoints(index, generation, bytes int) types.Resource {
	count := (bytes - aroundEndpoints) / oneEndpoint
	if count < 1 {
		count = 1
	}
	locality := &endpoint.LocalityLbEndpoints{}
	for number := 0; number < count; number++ {
		changed := 0
		if number == 0 {
			changed = generation
		}
		locality.LbEndpoints = append(locality.LbEndpoints, lbEndpoint(index+number, changed))
	}
	return &endpoint.ClusterLoadAssignment{
		ClusterName: name(index),
		Endpoints:   []*endpoint.LocalityLbEndpoints{locality},
	}
}

func lbEndpoint(number, generation int) *endpoint.LbEndpoint {
	part := func(value int) int { return 100 + value%100 }
	socket := &core.SocketAddress{
		Address: fmt.Sprintf("10.%d.%d.%d", part(number/10000), part(number/100), part(number)),
		PortSpecifier: &core.SocketAddress_PortValue{
			PortValue: uint32(firstPort + generation%(65536-firstPort)),
		},
	}
	address := &core.Address{Address: &core.Address_SocketAddress{SocketAddress: socket}}
	return &endpoint.LbEndpoint{HostIdentifier: &endpoint.LbEndpoint_Endpoint{
		Endpoint: &endpoint.Endpoint{Address: address},
	}}
}

func withText(kind, name, text string) types.Resource {
	switch kind {
	case "cds":
		return &cluster.Cluster{
			Name:                 name,
			ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
			EdsClusterConfig:     &cluster.Cluster_EdsClusterConfig{EdsConfig: overADS()},
			AltStatName:          text,
		}
	case "lds":
		return apiListener(name, text)
	default:
		return routes(name, text)
	}
}

func apiListener(name, text string) types.Resource {
	manager := &hcm.HttpConnectionManager{
		StatPrefix: "bench",
		RouteSpecifier: &hcm.HttpConnectionManager_Rds{
			Rds: &hcm.Rds{ConfigSource: overADS(), RouteConfigName: name},
		},
		HttpFilters: []*hcm.HttpFilter{{
			Name:       "router",
			ConfigType: &hcm.HttpFilter_TypedConfig{TypedConfig: packed(&router.Router{})},
		}},
	}
	return &listener.Listener{
		Name:        name,
		ApiListener: &listener.ApiListener{ApiListener: packed(manager)},
		StatPrefix:  text,
	}
}

func routes(name, text string) types.Resource {
	action := &route.Route_Route{Route: &route.RouteAction{
		ClusterSpecifier: &route.RouteAction_Cluster{Cluster: name},
	}}
	matched := &route.RouteMatch{PathSpecifier: &route.RouteMatch_Prefix{Prefix: "/"}}
	return &route.RouteConfiguration{
		Name: name,
		VirtualHosts: []*route.VirtualHost{{
			Name:    text,
			Domains: []string{"*"},
			Routes:  []*route.Route{{Match: matched, Action: action}},
		}},
	}
}

func overADS() *core.ConfigSource {
	return &core.ConfigSource{
		ResourceApiVersion:    core.ApiVersion_V3,
		ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
	}
}

func packed(message proto.Message) *anypb.Any {
	body, err := anypb.New(message)
	if err != nil {
		panic(err)
	}
	return body
}

// Which resource changes next, and into what; each is reached before one comes again.
type changes struct {
	resources, stride, at, generation int
}

func newChanges(resources int) *changes {
	stride := 7919
	for divisor(stride, resources) != 1 {
		stride++
	}
	return &changes{resources: resources, stride: stride}
}

func (c *changes) next() (index, generation int) {
	c.at = (c.at + c.stride) % c.resources
	c.generation++
	return c.at, c.generation
}

func divisor(one, other int) int {
	if other == 0 {
		return one
	}
	return divisor(other, one%other)
}
