package main

// What is served: resources as they stand on a line, and the two caches, each with the call its
// documentation names for a change.

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// All resources by type and name. Every type is in it, also those of which there are none.
type state map[resource.Type]map[string]types.Resource

func newState() state {
	return state{
		resource.ClusterType:  {},
		resource.EndpointType: {},
		resource.ListenerType: {},
		resource.RouteType:    {},
	}
}

func parse(line []byte) (state, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(line, &items); err != nil {
		return nil, err
	}
	all := newState()
	for _, item := range items {
		packed := &anypb.Any{}
		if err := protojson.Unmarshal(item, packed); err != nil {
			return nil, err
		}
		body, err := packed.UnmarshalNew()
		if err != nil {
			return nil, err
		}
		ofType, known := all[packed.GetTypeUrl()]
		if !known {
			return nil, fmt.Errorf("type `%s` is not served", packed.GetTypeUrl())
		}
		ofType[cache.GetResourceName(body)] = body
	}
	return all, nil
}

type published interface {
	cache() cache.Cache
	publish(version int, all state) error
}

func newPublished(kind string) (published, error) {
	switch kind {
	case "snapshot":
		return &snapshots{served: cache.NewSnapshotCache(false, everybody{}, nil)}, nil
	case "linear":
		return newLinear(), nil
	default:
		return nil, fmt.Errorf("unknown cache `%s`; there are snapshot and linear", kind)
	}
}

// One group, of all nodes.
type everybody struct{}

const groupName = "everybody"

func (everybody) ID(*core.Node) string { return groupName }

type snapshots struct {
	served cache.SnapshotCache
}

func (s *snapshots) cache() cache.Cache { return s.served }

func (s *snapshots) publish(version int, all state) error {
	lists := make(map[resource.Type][]types.Resource)
	for typeURL, named := range all {
		lists[typeURL] = []types.Resource{}
		for _, body := range named {
			lists[typeURL] = append(lists[typeURL], body)
		}
	}
	snapshot, err := cache.NewSnapshot(strconv.Itoa(version), lists)
	if err != nil {
		return err
	}
	return s.served.SetSnapshot(context.Background(), groupName, snapshot)
}

// One linear cache for each type, behind a mux.
type linear struct {
	caches map[resource.Type]*cache.LinearCache
	served *cache.MuxCache
}

func newLinear() *linear {
	caches := make(map[resource.Type]*cache.LinearCache)
	muxed := make(map[string]cache.Cache)
	for typeURL := range newState() {
		caches[typeURL] = cache.NewLinearCache(typeURL)
		muxed[typeURL] = caches[typeURL]
	}
	return &linear{caches: caches, served: &cache.MuxCache{
		Classify:      func(request *cache.Request) string { return request.GetTypeUrl() },
		ClassifyDelta: func(request *cache.DeltaRequest) string { return request.GetTypeUrl() },
		Caches:        muxed,
	}}
}

func (l *linear) cache() cache.Cache { return l.served }

// What is another resource than before is updated, and what is not there any more deleted.
func (l *linear) publish(_ int, all state) error {
	for typeURL, after := range all {
		before := l.caches[typeURL].GetResources()
		changed := make(map[string]types.Resource)
		for name, body := range after {
			if old, known := before[name]; !known || !proto.Equal(old, body) {
				changed[name] = body
			}
		}
		var gone []string
		for name := range before {
			if _, kept := after[name]; !kept {
				gone = append(gone, name)
			}
		}
		if len(changed)+len(gone) == 0 {
			continue
		}
		if err := l.caches[typeURL].UpdateResources(changed, gone); err != nil {
			return err
		}
	}
	return nil
}
