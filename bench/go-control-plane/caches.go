package main

// The two caches, each with the call its documentation names for a change.

import (
	"context"
	"fmt"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
)

type content struct {
	kinds            []string
	resources, bytes int
	// The number of nodes with a resource of their own.
	own int
}

type published interface {
	cache() cache.Cache
	change() error
}

func newCache(kind string, content content) (published, error) {
	switch kind {
	case "snapshot":
		if content.own > 0 {
			return newOwners(content)
		}
		return newSnapshots(content)
	case "linear":
		return newLinear(content), nil
	default:
		return nil, fmt.Errorf("unknown cache `%s`; there are snapshot and linear", kind)
	}
}

// One snapshot for all nodes.
type group struct{}

const groupName = "bench"

func (group) ID(*core.Node) string { return groupName }

// A change is a snapshot with a new version and all resources, of which one is another object.
type snapshots struct {
	content   content
	served    cache.SnapshotCache
	resources map[resource.Type][]types.Resource
	changes   *changes
}

func newSnapshots(content content) (*snapshots, error) {
	s := &snapshots{
		content:   content,
		served:    cache.NewSnapshotCache(false, group{}, nil),
		resources: everything(content),
		changes:   newChanges(content.resources),
	}
	return s, s.publish(0)
}

func everything(content content) map[resource.Type][]types.Resource {
	resources := make(map[resource.Type][]types.Resource)
	for _, kind := range content.kinds {
		for index := 0; index < content.resources; index++ {
			typeURL := typeURLs[kind]
			resources[typeURL] = append(resources[typeURL], body(kind, index, 0, content.bytes))
		}
	}
	return resources
}

func (s *snapshots) cache() cache.Cache { return s.served }

func (s *snapshots) change() error {
	kind := s.content.kinds[0]
	index, generation := s.changes.next()
	s.resources[typeURLs[kind]][index] = body(kind, index, generation, s.content.bytes)
	return s.publish(generation)
}

func (s *snapshots) publish(version int) error {
	snapshot, err := cache.NewSnapshot(strconv.Itoa(version), s.resources)
	if err != nil {
		return err
	}
	return s.served.SetSnapshot(context.Background(), groupName, snapshot)
}

// One snapshot for each node: what all nodes see, and one resource of its own. A change of what all
// see is a new snapshot for each.
type owners struct {
	content   content
	served    cache.SnapshotCache
	resources map[resource.Type][]types.Resource
	own       []types.Resource
	changes   *changes
}

func newOwners(content content) (*owners, error) {
	o := &owners{
		content:   content,
		served:    cache.NewSnapshotCache(false, cache.IDHash{}, nil),
		resources: everything(content),
		changes:   newChanges(content.resources),
	}
	for number := 0; number < content.own; number++ {
		o.own = append(o.own, body(content.kinds[0], content.resources+number, 0, content.bytes))
	}
	return o, o.publish(0)
}

func (o *owners) cache() cache.Cache { return o.served }

func (o *owners) change() error {
	kind := o.content.kinds[0]
	index, generation := o.changes.next()
	o.resources[typeURLs[kind]][index] = body(kind, index, generation, o.content.bytes)
	return o.publish(generation)
}

func (o *owners) publish(version int) error {
	first := typeURLs[o.content.kinds[0]]
	for number, own := range o.own {
		resources := make(map[resource.Type][]types.Resource, len(o.resources))
		for typeURL, all := range o.resources {
			resources[typeURL] = all
		}
		all := o.resources[first]
		resources[first] = append(all[:len(all):len(all)], own)
		snapshot, err := cache.NewSnapshot(strconv.Itoa(version), resources)
		if err != nil {
			return err
		}
		node := fmt.Sprintf("bench-%d", number)
		if err := o.served.SetSnapshot(context.Background(), node, snapshot); err != nil {
			return err
		}
	}
	return nil
}

// One linear cache for each type, behind a mux; a change is one call of UpdateResource.
type linear struct {
	content content
	served  *cache.MuxCache
	first   *cache.LinearCache
	changes *changes
}

func newLinear(content content) *linear {
	// A type without a cache would end the stream that asks for it.
	caches := make(map[string]cache.Cache)
	for _, typeURL := range typeURLs {
		caches[typeURL] = cache.NewLinearCache(typeURL)
	}
	l := &linear{content: content, changes: newChanges(content.resources)}
	for _, kind := range content.kinds {
		resources := make(map[string]types.Resource, content.resources)
		for index := 0; index < content.resources; index++ {
			resources[name(index)] = body(kind, index, 0, content.bytes)
		}
		filled := cache.NewLinearCache(typeURLs[kind], cache.WithInitialResources(resources))
		if l.first == nil {
			l.first = filled
		}
		caches[typeURLs[kind]] = filled
	}
	l.served = &cache.MuxCache{
		Classify:      func(request *cache.Request) string { return request.GetTypeUrl() },
		ClassifyDelta: func(request *cache.DeltaRequest) string { return request.GetTypeUrl() },
		Caches:        caches,
	}
	return l
}

func (l *linear) cache() cache.Cache { return l.served }

func (l *linear) change() error {
	index, generation := l.changes.next()
	return l.first.UpdateResource(name(index), body(l.content.kinds[0], index, generation, l.content.bytes))
}
