// Package definitions keeps the custom kinds as the CustomResourceDefinitions say: the table of what is served, the status of
// the definitions, and the end of their objects. Every apiserver does all of it; what it writes is compared and swapped, and
// follows from what is stored alone, so that it does not matter which of them is first.
package definitions

import (
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/custom"
	"howdah.dev/services/apiserver/internal/kind/definition"
	"howdah.dev/services/apiserver/internal/registry"
)

type crd = apiextensionsv1.CustomResourceDefinition

// Follower makes the table's custom kinds what the definitions in the cache say. It implements cache.Definitions.
type Follower struct {
	table  *registry.Table
	custom custom.Config
	fixed  []registry.CustomKind // served as long as the server runs, of definitions that the API does not have
	wake   chan struct{}

	mu    sync.Mutex
	known map[string]*known // by key
}

// known is what is remembered of a definition. Schemas are not: they are read from the stored bytes when they are needed.
type known struct {
	summary
	shape shape
	kind  registry.CustomKind
	item  *codec.Item
}

// summary is what decisions about a definition's status rest on.
type summary struct {
	name, group string
	created     int64 // revision
	wanted      apiextensionsv1.CustomResourceDefinitionNames
	accepted    apiextensionsv1.CustomResourceDefinitionNames
	conditions  []apiextensionsv1.CustomResourceDefinitionCondition
	// violations says what keeps the schema from being structural.
	violations string
	// distrusts says that no authority can be read by which its conversion webhook is believed.
	distrusts bool
	approval  *apiextensionsv1.CustomResourceDefinitionCondition
	deleting  bool
	held      bool // by the finalizer that waits for the objects
}

// shape is what a kind is made from: while it stays, so does the kind.
type shape struct {
	uid                      types.UID
	generation               int64
	established, terminating bool
	accepted                 apiextensionsv1.CustomResourceDefinitionNames
}

// NewFollower returns a follower that knows of no definition but the fixed ones, which the API does not show.
func NewFollower(table *registry.Table, cfg custom.Config, fixed ...*crd) *Follower {
	f := &Follower{table: table, custom: cfg, wake: make(chan struct{}, 1), known: map[string]*known{}}
	for _, d := range fixed {
		kind := custom.New(cfg, d, true, false, func() (*crd, error) { return d, nil })
		kind.Own = true
		f.fixed = append(f.fixed, kind)
	}
	return f
}

// Prefix implements cache.Definitions.
func (f *Follower) Prefix() string {
	return "/" + apiextensionsv1.GroupName + "/customresourcedefinitions/"
}

// Reset implements cache.Definitions.
func (f *Follower) Reset(items []*codec.Item) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := map[string]*known{}
	for _, item := range items {
		if k := f.understand(item); k != nil {
			next[item.Key] = k
		}
	}
	f.known = next
	f.publish(true)
}

// Apply implements cache.Definitions.
func (f *Follower) Apply(key string, item *codec.Item) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.known[key]
	if item == nil {
		delete(f.known, key)
		f.publish(before != nil)
		return
	}
	k := f.understand(item)
	if k == nil {
		return // as before
	}
	f.known[key] = k
	f.publish(before == nil || before.kind.Home != k.kind.Home || before.shape.terminating != k.shape.terminating)
}

// builtIn reports whether the objects of a kind are those of one that is always served: its definition defines nothing.
func (f *Follower) builtIn(kind *registry.Kind) bool {
	served := f.table.KindOf(kind.Prefix("") + "x")
	return served != nil && served.Custom == nil
}

// publish tells the table, where the kinds changed, and wakes whoever keeps the status.
func (f *Follower) publish(changed bool) {
	if changed {
		kinds := slices.Clone(f.fixed)
		for _, key := range slices.Sorted(maps.Keys(f.known)) {
			kinds = append(kinds, f.known[key].kind)
		}
		f.table.SetCustom(kinds)
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// understand reads a definition; nil where it cannot be read.
func (f *Follower) understand(item *codec.Item) *known {
	source := func() (*crd, error) { return decode(item) }
	d, err := outline(item)
	if err == nil && d.Spec.PreserveUnknownFields {
		d, err = source() // whose schemas are looked at
	}
	if err != nil {
		slog.Error("read a custom resource definition", "name", item.Name, "err", err)
		return nil
	}
	k := &known{summary: summarize(d), item: item, shape: shape{
		uid: d.UID, generation: d.Generation, accepted: *d.Status.AcceptedNames.DeepCopy(),
		established: definition.Is(d, apiextensionsv1.Established), terminating: definition.Is(d, apiextensionsv1.Terminating),
	}}
	k.created = item.CreateRevision
	if old := f.known[item.Key]; old != nil && stays(old, k) {
		if k.kind = old.kind; k.shape.terminating {
			k.kind.Terminate()
		}
		return k
	}
	k.kind = custom.New(f.custom, d, k.shape.established, k.shape.terminating, source)
	return k
}

// stays reports whether a definition defines the same kind as before. Its deletion changes nothing of the kind: the watches last, and
// tell how the objects go.
func stays(old, now *known) bool {
	was := old.shape
	if now.deleting && !old.deleting {
		was.generation = now.shape.generation
	}
	if now.deleting {
		was.terminating = now.shape.terminating
	}
	return reflect.DeepEqual(was, now.shape)
}

// decode reads a definition from its stored bytes, without leaving it in the cache: decoded, it may be a hundred times as large.
func decode(item *codec.Item) (*crd, error) {
	obj, err := codec.Decode(item.Kind, item.Value())
	if err != nil {
		return nil, err
	}
	d, ok := obj.(*crd)
	if !ok {
		return nil, fmt.Errorf("%T is no definition", obj)
	}
	return d, nil
}

// outline reads a definition without its schemas, which are most of it.
func outline(item *codec.Item) (*crd, error) {
	const spec, versions, schema = 2, 7, 4 // as in the protobuf of apiextensions.k8s.io/v1
	obj, err := codec.DecodeWithout(item.Kind, item.Value(), spec, versions, schema)
	if err != nil {
		return nil, err
	}
	d, ok := obj.(*crd)
	if !ok {
		return nil, fmt.Errorf("%T is no definition", obj)
	}
	return d, nil
}

// state returns what is known of all definitions, in the order of their creation.
func (f *Follower) state() []*known {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.Collect(maps.Values(f.known))
	slices.SortFunc(all, func(a, b *known) int {
		if a.created != b.created {
			return int(a.created - b.created)
		}
		return strings.Compare(a.name, b.name)
	})
	return all
}
