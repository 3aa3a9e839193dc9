// Package pack fits endpoints into EndpointSlices with as few writes as it can.
package pack

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/endpointslice/util"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
)

// Group is the endpoints that share a family and ports.
type Group struct {
	Family    discoveryv1.AddressType
	Ports     []discoveryv1.EndpointPort
	Endpoints []discoveryv1.Endpoint
}

// Owner is whom the slices belong to, and what each of them bears.
type Owner struct {
	Namespace   string
	Prefix      string // of the slices' names, all of their generateName
	Reference   metav1.OwnerReference
	Labels      map[string]string
	Annotations map[string]string // set on slices that are written anyway
	Without     []string          // annotations that these lose
	Mirrors     bool              // that slices have other annotations is a reason to write them, with these and no others
	Limit       int               // most endpoints a slice

	// Taken says whether a slice has the name: two owners may share all that names keep of theirs. nil knows of none.
	Taken func(name string) bool
}

// Plan is what to write. Names of created slices follow from what is in the
// cache, so that a create from a stale cache fails instead of doubling.
type Plan struct {
	Create, Update, Delete []*discoveryv1.EndpointSlice
	Tally                  Tally
}

// Tally counts what a plan does, and what there is after it.
type Tally struct {
	Added, Updated, Removed int // endpoints
	Endpoints, Slices       int
	Wanted                  int // slices that would do
}

// Empty says whether there is nothing to write.
func (p Plan) Empty() bool { return len(p.Create)+len(p.Update)+len(p.Delete) == 0 }

// Sort parts an owner's slices from strays, which go: a restored backup's slices, or those of a namesake that is gone, lead to pods of another time.
func Sort(existing []*discoveryv1.EndpointSlice, owner metav1.Object) (own, strays []*discoveryv1.EndpointSlice) {
	for _, slice := range existing {
		switch {
		case metav1.IsControlledBy(slice, owner):
			own = append(own, slice)
		case slice.DeletionTimestamp == nil:
			strays = append(strays, slice)
		}
	}
	return own, strays
}

// Slices plans the slices of groups, keyed by Key, from those that exist.
func Slices(o Owner, groups map[string]*Group, existing []*discoveryv1.EndpointSlice) Plan {
	w := writer{owner: o, names: map[string]bool{}}
	left := map[string][]*discoveryv1.EndpointSlice{}
	for _, slice := range existing {
		w.names[slice.Name] = true
		if slice.DeletionTimestamp != nil {
			continue
		}
		w.plan.Tally.Slices++
		key := Key(slice.AddressType, slice.Ports)
		if _, ok := groups[key]; !ok {
			w.plan.Tally.Removed += len(slice.Endpoints)
			w.plan.Delete = append(w.plan.Delete, slice)
			continue
		}
		left[key] = append(left[key], slice)
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		util.NewPortMapKey(groups[key].Ports) // which sorts them as Kubernetes does, by their hash
		slices.SortFunc(groups[key].Endpoints, func(a, b discoveryv1.Endpoint) int { return identityOf(&a).compare(identityOf(&b)) })
		slices.SortFunc(left[key], func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
		w.pack(key, groups[key], left[key])
		n := len(groups[key].Endpoints)
		w.plan.Tally.Endpoints += n
		w.plan.Tally.Wanted += max(1, (n+o.Limit-1)/o.Limit)
	}
	w.plan.Tally.Slices += len(w.plan.Create) - len(w.plan.Delete)
	w.plan.recycle()
	return w.plan
}

// recycle has slices that would go become those that would be created, as in Kubernetes: a watcher
// sees a service's slice change, never a service without one.
func (p *Plan) recycle() {
	var gone []*discoveryv1.EndpointSlice
	for _, was := range p.Delete {
		i := slices.IndexFunc(p.Create, func(next *discoveryv1.EndpointSlice) bool { return next.AddressType == was.AddressType })
		if i < 0 {
			gone = append(gone, was)
			continue
		}
		p.Update = append(p.Update, become(was, p.Create[i]))
		p.Create = slices.Delete(p.Create, i, i+1)
	}
	p.Delete = gone
}

// become returns a slice that exists, with all that another was to have.
func become(was, next *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	slice := was.DeepCopy()
	slice.GenerateName, slice.Labels, slice.Annotations = next.GenerateName, next.Labels, next.Annotations
	slice.Ports, slice.Endpoints = next.Ports, next.Endpoints
	return slice
}

// Key tells groups apart, whatever the order of their ports.
func Key(family discoveryv1.AddressType, ports []discoveryv1.EndpointPort) string {
	keys := make([]string, len(ports))
	for i, p := range ports {
		keys[i] = "|" + value(p.Name) + "/" + strconv.Itoa(int(value(p.Port))) + "/" + string(value(p.Protocol)) + "/" + value(p.AppProtocol)
	}
	slices.Sort(keys)
	return string(family) + strings.Join(keys, "")
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// identity tells endpoints apart: the same pod at the same address is the same endpoint.
type identity struct {
	addresses string
	uid       types.UID
}

func identityOf(e *discoveryv1.Endpoint) (id identity) {
	if len(e.Addresses) == 1 { // almost all: nothing is copied
		id.addresses = e.Addresses[0]
	} else {
		id.addresses = strings.Join(e.Addresses, " ")
	}
	if e.TargetRef != nil {
		id.uid = e.TargetRef.UID
	}
	return id
}

func (id identity) compare(other identity) int {
	return cmp.Or(cmp.Compare(id.addresses, other.addresses), cmp.Compare(id.uid, other.uid))
}

// writer is a plan in the making.
type writer struct {
	owner Owner
	names map[string]bool // taken
	plan  Plan
}

// draft is a slice that exists, and what it will hold.
type draft struct {
	was     *discoveryv1.EndpointSlice
	now     []discoveryv1.Endpoint
	changed bool
}

// pack fits a group's endpoints into the slices that exist: endpoints stay
// where they are, new ones fill slices that change anyway, then the fullest
// slice that has room for all of the rest, then new slices.
func (w *writer) pack(key string, g *Group, existing []*discoveryv1.EndpointSlice) {
	drafts, rest := w.keep(g, existing)
	w.plan.Tally.Added += len(rest)
	fill := func(d *draft) {
		if n := min(len(rest), w.owner.Limit-len(d.now)); n > 0 {
			d.now, rest, d.changed = append(d.now, rest[:n]...), rest[n:], true
		}
	}
	for _, d := range drafts {
		if d.changed {
			fill(d)
		}
	}
	for len(rest) >= w.owner.Limit {
		w.create(key, g, rest[:w.owner.Limit])
		rest = rest[w.owner.Limit:]
	}
	if len(rest) > 0 {
		var best *draft
		for _, d := range drafts {
			if w.owner.Limit-len(d.now) >= len(rest) && (best == nil || len(d.now) > len(best.now)) {
				best = d
			}
		}
		if best != nil {
			fill(best)
		}
	}
	if len(rest) > 0 || len(g.Endpoints) == 0 && len(drafts) == 0 {
		w.create(key, g, rest)
	}
	w.finish(drafts, len(g.Endpoints) > 0)
}

// keep sorts a group's endpoints into those that are in a slice already,
// brought up to date there, and the rest.
func (w *writer) keep(g *Group, existing []*discoveryv1.EndpointSlice) (drafts []*draft, rest []discoveryv1.Endpoint) {
	wanted := make(map[identity]*discoveryv1.Endpoint, len(g.Endpoints))
	for i := range g.Endpoints {
		wanted[identityOf(&g.Endpoints[i])] = &g.Endpoints[i]
	}
	for _, slice := range existing {
		d := &draft{was: slice}
		for i := range slice.Endpoints {
			id := identityOf(&slice.Endpoints[i])
			e, ok := wanted[id]
			if !ok {
				d.changed = true
				w.plan.Tally.Removed++
				continue
			}
			delete(wanted, id)
			if !same(&slice.Endpoints[i], e) {
				d.changed = true
				w.plan.Tally.Updated++
			}
			d.now = append(d.now, *e)
		}
		drafts = append(drafts, d)
	}
	for i := range g.Endpoints {
		if _, ok := wanted[identityOf(&g.Endpoints[i])]; ok {
			rest = append(rest, g.Endpoints[i])
		}
	}
	return drafts, rest
}

// finish plans the writes of drafts. Empty slices go, but for one where the
// group has no endpoints at all.
func (w *writer) finish(drafts []*draft, some bool) {
	kept := 0
	for _, d := range drafts {
		if len(d.now) == 0 && (some || kept > 0) {
			w.plan.Delete = append(w.plan.Delete, d.was)
			continue
		}
		kept++
		if !d.changed && maps.Equal(d.was.Labels, w.owner.Labels) && (!w.owner.Mirrors || maps.Equal(d.was.Annotations, w.owner.Annotations)) {
			continue
		}
		updated := d.was.DeepCopy()
		updated.Labels, updated.Endpoints = w.owner.Labels, d.now
		if w.owner.Mirrors {
			updated.GenerateName = "" // Kubernetes writes such a slice anew, by its name
		}
		w.annotate(updated)
		w.plan.Update = append(w.plan.Update, updated)
	}
}

// same compares what clients see of an endpoint. Field by field, since a Service has thousands, each compared whenever one has changed.
func same(a, b *discoveryv1.Endpoint) bool {
	return slices.Equal(a.Addresses, b.Addresses) &&
		ptr.Equal(a.Conditions.Ready, b.Conditions.Ready) && ptr.Equal(a.Conditions.Serving, b.Conditions.Serving) &&
		ptr.Equal(a.Conditions.Terminating, b.Conditions.Terminating) &&
		ptr.Equal(a.Hostname, b.Hostname) && ptr.Equal(a.TargetRef, b.TargetRef) && maps.Equal(a.DeprecatedTopology, b.DeprecatedTopology) &&
		ptr.Equal(a.NodeName, b.NodeName) && ptr.Equal(a.Zone, b.Zone) &&
		(a.Hints == nil && b.Hints == nil || apiequality.Semantic.DeepEqual(a.Hints, b.Hints))
}

func (w *writer) create(key string, g *Group, endpoints []discoveryv1.Endpoint) {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.owner.Namespace, Name: w.name(key), GenerateName: w.owner.Prefix, Labels: w.owner.Labels,
			OwnerReferences: []metav1.OwnerReference{w.owner.Reference},
		},
		AddressType: g.Family,
		Ports:       append([]discoveryv1.EndpointPort{}, g.Ports...),
		Endpoints:   append([]discoveryv1.Endpoint{}, endpoints...),
	}
	w.annotate(slice)
	w.plan.Create = append(w.plan.Create, slice)
}

func (w *writer) annotate(slice *discoveryv1.EndpointSlice) {
	if slice.Annotations == nil || w.owner.Mirrors {
		slice.Annotations = map[string]string{}
	}
	for _, key := range w.owner.Without {
		delete(slice.Annotations, key)
	}
	maps.Copy(slice.Annotations, w.owner.Annotations)
}

// name returns the first free name for a slice of the group.
func (w *writer) name(key string) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	prefix := object.NamePrefix(w.owner.Prefix)
	for i := uint32(0); ; i++ {
		h := fnv.New64a()
		_, _ = h.Write([]byte(string(w.owner.Reference.UID) + key))
		_, _ = h.Write(binary.LittleEndian.AppendUint32(nil, i))
		sum := h.Sum64()
		suffix := make([]byte, 5)
		for j := range suffix {
			suffix[j] = letters[sum%uint64(len(letters))]
			sum /= uint64(len(letters))
		}
		name := prefix + string(suffix)
		if w.names[name] || w.owner.Taken != nil && w.owner.Taken(name) {
			continue
		}
		w.names[name] = true
		return name
	}
}
