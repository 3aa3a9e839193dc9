package registry

import (
	"fmt"
	"sort"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Table holds every kind that is served: those it was made of, and the custom ones that come and go.
type Table struct {
	fixed   []*Kind
	served  func(*Resource) bool
	current atomic.Pointer[rows]
}

// rows are what the table holds at a time. They do not change once made.
type rows struct {
	kinds []*Kind
	// known and byKind have every version, resources and ordered those that are served.
	known      map[schema.GroupVersionResource]*Resource
	byKind     map[schema.GroupVersionKind]*Resource
	resources  map[schema.GroupVersionResource]*Resource
	prefixes   map[string]*Kind
	ordered    []*Resource
	generation int64
}

// CustomKind is a custom kind with its versions.
type CustomKind struct {
	// Home reads objects in the cache; it names their keys.
	Home *Kind
	// Versions are the served ones, each a kind of its own with the keys of Home.
	Versions []*Kind
	// Terminate notes that the definition is being deleted: from now on, Terminating of all versions is true.
	Terminate func()
	// Own says that the kind is this server's, not a user's: it is served beside built-in kinds.
	Own bool
}

// Resource is one served version of a kind.
type Resource struct {
	Kind *Kind
	// Version is nil for the storage version.
	Version *Version
	GVR     schema.GroupVersionResource
	GVK     schema.GroupVersionKind
	// ListKind is the kind of a list, as in "PodList".
	ListKind string
	// Index numbers the versions of a kind, 0 being the storage version.
	Index int
}

// NewTable checks the kinds and returns their table, which serves every version. Two kinds may share a resource name only in
// different groups.
func NewTable(kinds []*Kind) (*Table, error) {
	return NewTableServing(kinds, func(*Resource) bool { return true })
}

// NewTableServing is NewTable for those versions of the kinds that served picks.
func NewTableServing(kinds []*Kind, served func(*Resource) bool) (*Table, error) {
	r, err := newRows(kinds, served)
	if err != nil {
		return nil, err
	}
	r.sort()
	t := &Table{fixed: kinds, served: served}
	t.current.Store(r)
	return t, nil
}

// SetCustom replaces the custom kinds by those given. One that collides with a kind that is there is left out, and users' are not served in group versions of
// built-in kinds. Only one goroutine may call it.
func (t *Table) SetCustom(custom []CustomKind) {
	r, err := newRows(t.fixed, t.served)
	if err != nil { // NewTable has checked them
		panic(err)
	}
	builtIn := map[schema.GroupVersion]bool{}
	for gvr := range r.resources {
		builtIn[gvr.GroupVersion()] = true
	}
	for _, c := range custom {
		if _, taken := r.prefixes[c.Home.Prefix("")]; taken {
			continue
		}
		r.prefixes[c.Home.Prefix("")] = c.Home
		r.kinds = append(r.kinds, c.Home)
		for _, k := range c.Versions {
			// A name that is taken is served by whom it belongs to.
			_ = r.add(&Resource{Kind: k, GVK: k.GVK}, c.Own || !builtIn[k.GVK.GroupVersion()])
		}
	}
	r.sort()
	r.generation = t.current.Load().generation + 1
	t.current.Store(r)
}

// Generation counts the changes of the table.
func (t *Table) Generation() int64 { return t.current.Load().generation }

func newRows(kinds []*Kind, served func(*Resource) bool) (*rows, error) {
	t := &rows{
		kinds:     append([]*Kind(nil), kinds...),
		known:     map[schema.GroupVersionResource]*Resource{},
		resources: map[schema.GroupVersionResource]*Resource{},
		byKind:    map[schema.GroupVersionKind]*Resource{},
		prefixes:  map[string]*Kind{},
	}
	for _, k := range kinds {
		if k.New == nil || k.NewList == nil || k.Resource == "" {
			return nil, fmt.Errorf("kind %s: New, NewList and Resource are needed", k.GVK)
		}
		if _, taken := t.prefixes[k.Prefix("")]; taken {
			return nil, fmt.Errorf("kind %s: %s is registered twice", k.GVK, k.Resource)
		}
		t.prefixes[k.Prefix("")] = k
		for _, r := range k.Versions() {
			if err := t.add(r, served(r)); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

func (t *rows) sort() {
	sort.SliceStable(t.ordered, func(i, j int) bool {
		a, b := t.ordered[i].GVR, t.ordered[j].GVR
		if a.Group != b.Group {
			return a.Group < b.Group
		}
		if a.Version != b.Version {
			return a.Version < b.Version
		}
		return a.Resource < b.Resource
	})
}

// Versions returns the kind in every version, the storage version first.
func (k *Kind) Versions() []*Resource {
	out := []*Resource{{Kind: k, GVK: k.GVK, GVR: k.GVK.GroupVersion().WithResource(k.Resource)}}
	for i := range k.Served {
		v := &k.Served[i]
		out = append(out, &Resource{Kind: k, Version: v, GVK: v.GVK, GVR: v.GVK.GroupVersion().WithResource(k.Resource), Index: i + 1})
	}
	return out
}

// VersionOf returns the version of the kind that an object of gvk is of, or nil. It need not be served.
func (k *Kind) VersionOf(gvk schema.GroupVersionKind) *Resource {
	for _, r := range k.Versions() {
		if r.GVK == gvk {
			return r
		}
	}
	return nil
}

func (t *rows) add(r *Resource, served bool) error {
	r.GVR = r.GVK.GroupVersion().WithResource(r.Kind.Resource)
	if r.ListKind = r.Kind.ListKind; r.ListKind == "" {
		r.ListKind = r.GVK.Kind + "List"
	}
	if _, taken := t.known[r.GVR]; taken {
		return fmt.Errorf("resource %s is registered twice", r.GVR)
	}
	t.known[r.GVR], t.byKind[r.GVK] = r, r
	if served {
		t.resources[r.GVR] = r
		t.ordered = append(t.ordered, r)
	}
	return nil
}

// Kinds returns every kind, in the order of registration; of a custom kind, its home.
func (t *Table) Kinds() []*Kind { return t.current.Load().kinds }

// Resources returns every served resource by group, version and name.
func (t *Table) Resources() []*Resource { return t.current.Load().ordered }

// Known returns the resource that a URL would name if every version were served, or nil.
func (t *Table) Known(gvr schema.GroupVersionResource) *Resource {
	return t.current.Load().known[gvr]
}

// Find returns the resource that a URL names, or nil.
func (t *Table) Find(gvr schema.GroupVersionResource) *Resource {
	return t.current.Load().resources[gvr]
}

// FindKind returns the resource of an object's apiVersion and kind, or nil. It need not be served: objects and their managed fields
// may name a version that was.
func (t *Table) FindKind(gvk schema.GroupVersionKind) *Resource { return t.current.Load().byKind[gvk] }

// KindOf returns the kind that a store key belongs to, or nil where the key is not an object's.
func (t *Table) KindOf(key string) *Kind {
	// "/group/resource/…": the prefix ends with the third slash.
	if len(key) == 0 || key[0] != '/' {
		return nil
	}
	first := strings.IndexByte(key[1:], '/')
	if first < 0 {
		return nil
	}
	second := strings.IndexByte(key[first+2:], '/')
	if second < 0 {
		return nil
	}
	return t.current.Load().prefixes[key[:first+2+second+1]]
}

// Prefix returns the store prefix of all objects of the kind, or of those in one namespace.
func (k *Kind) Prefix(namespace string) string {
	group := k.GVK.Group
	if group == "" {
		group = "core"
	}
	prefix := "/" + group + "/" + k.Resource + "/"
	if namespace == "" {
		return prefix
	}
	return prefix + namespace + "/"
}

// Key returns the store key of one object.
func (k *Kind) Key(namespace, name string) string {
	if !k.Namespaced {
		return k.Prefix("") + name
	}
	return k.Prefix(namespace) + name
}

// Split returns the namespace and name of a store key of the kind.
func (k *Kind) Split(key string) (namespace, name string) {
	rest := key[len(k.Prefix("")):]
	if !k.Namespaced {
		return "", rest
	}
	namespace, name, _ = strings.Cut(rest, "/")
	return namespace, name
}

// GroupResource names the kind's resource in errors.
func (k *Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.GVK.Group, Resource: k.Resource}
}

// GroupResource names the served resource in errors.
func (r *Resource) GroupResource() schema.GroupResource { return r.GVR.GroupResource() }

// New returns an empty object of this version.
func (r *Resource) New() Object {
	if r.Version != nil {
		return r.Version.New()
	}
	return r.Kind.New()
}

// NewList returns an empty list of this version.
func (r *Resource) NewList() runtime.Object {
	if r.Version != nil {
		return r.Version.NewList()
	}
	return r.Kind.NewList()
}

// Default fills unset fields of an object of this version.
func (r *Resource) Default(obj Object) {
	switch {
	case r.Version != nil && r.Version.Default != nil:
		r.Version.Default(obj)
	case r.Version == nil && r.Kind.Default != nil:
		r.Kind.Default(obj)
	}
}

// ToStored converts an object of this version to the storage version, and defaults it there.
func (r *Resource) ToStored(obj Object) (Object, error) {
	if r.Version == nil {
		return obj, nil
	}
	stored, err := r.Version.ToStored(obj)
	if err != nil {
		return nil, fmt.Errorf("convert %s to %s: %w", r.GVK, r.Kind.GVK, err)
	}
	if r.Kind.Default != nil && !r.Version.Defaulted {
		r.Kind.Default(stored)
	}
	return stored, nil
}

// FromStored converts an object of the storage version to this one.
func (r *Resource) FromStored(obj Object) (Object, error) {
	if r.Version == nil {
		return obj, nil
	}
	served, err := r.Version.FromStored(obj)
	if err != nil {
		return nil, fmt.Errorf("convert %s to %s: %w", r.Kind.GVK, r.GVK, err)
	}
	return served, nil
}
