// Package garbage deletes objects whose owners are gone, and carries out
// foreground and orphaning deletions.
package garbage

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/controllers/internal/discovery"
)

// maxGone bounds how many ended objects are remembered; what is forgotten is
// asked of the API instead.
const maxGone = 20000

// node is one object of the cluster, reduced to its metadata.
type node struct {
	resource discovery.Resource
	meta     *metav1.PartialObjectMetadata
}

// foreground says whether the object waits for its dependents to go first.
func (n *node) foreground() bool {
	return n.meta.DeletionTimestamp != nil && slices.Contains(n.meta.Finalizers, metav1.FinalizerDeleteDependents)
}

// orphaning says whether the object waits for its dependents to be let go.
func (n *node) orphaning() bool {
	return n.meta.DeletionTimestamp != nil && slices.Contains(n.meta.Finalizers, metav1.FinalizerOrphanDependents)
}

func (n *node) identity() identity {
	return identity{n.resource.GVK.GroupKind(), n.meta.Namespace, n.meta.Name}
}

// is says whether the object is the one that a dependent in the namespace refers to.
func (n *node) is(ref metav1.OwnerReference, namespace string) bool {
	return n.identity().is(ref, namespace)
}

// identity is what a reference says of an owner beside its uid, and where it is.
type identity struct {
	kind            schema.GroupKind
	namespace, name string
}

// is says whether the object is the one that a dependent in the namespace
// refers to: the uid alone could be claimed across namespaces, and by what is in none.
func (i identity) is(ref metav1.OwnerReference, namespace string) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && i.kind.Kind == ref.Kind && sameGroup(i.kind.Group, gv.Group) && i.name == ref.Name &&
		(i.namespace == "" || i.namespace == namespace)
}

// sameGroup knows that workloads have moved from extensions to apps.
func sameGroup(a, b string) bool {
	return a == b || a == "apps" && b == "extensions" || a == "extensions" && b == "apps"
}

// graph knows who owns whom. It is safe for concurrent use.
type graph struct {
	mu         sync.Mutex
	nodes      map[types.UID]*node
	dependents map[types.UID]map[types.UID]struct{} // by owner, present or not
	gone       map[types.UID]identity               // ended objects, seen to end
	goneOrder  []types.UID
}

func newGraph() *graph {
	return &graph{
		nodes: map[types.UID]*node{}, dependents: map[types.UID]map[types.UID]struct{}{}, gone: map[types.UID]identity{},
	}
}

// put notes an object as it is now. It refuses, with false, what extension API servers tell of objects without a uid, or with
// that of an object of this API: they decide about their own objects only.
func (g *graph) put(res discovery.Resource, meta *metav1.PartialObjectMetadata) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	old, ok := g.nodes[meta.UID]
	if res.Remote && (meta.UID == "" || ok && old.resource.GroupResource() != res.GroupResource()) {
		return false
	}
	if ok {
		g.unlink(old)
	}
	n := &node{res, meta}
	g.nodes[meta.UID] = n
	for _, ref := range meta.OwnerReferences {
		set := g.dependents[ref.UID]
		if set == nil {
			set = map[types.UID]struct{}{}
			g.dependents[ref.UID] = set
		}
		set[meta.UID] = struct{}{}
	}
	return true
}

// remove notes that an object has ended; its uid never comes back. It refuses, with false, what put refuses.
func (g *graph) remove(res discovery.Resource, uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, ok := g.nodes[uid]
	if res.Remote && (!ok || n.resource.GroupResource() != res.GroupResource()) {
		return false
	}
	if !ok {
		return true
	}
	g.unlink(n)
	delete(g.nodes, uid)
	if _, ok := g.gone[uid]; ok {
		return true
	}
	g.gone[uid] = n.identity()
	g.goneOrder = append(g.goneOrder, uid)
	if len(g.goneOrder) > maxGone {
		delete(g.gone, g.goneOrder[0])
		g.goneOrder = g.goneOrder[1:]
	}
	return true
}

func (g *graph) unlink(n *node) {
	for _, ref := range n.meta.OwnerReferences {
		if set := g.dependents[ref.UID]; set != nil {
			delete(set, n.meta.UID)
			if len(set) == 0 {
				delete(g.dependents, ref.UID)
			}
		}
	}
}

// get returns an object, or nil.
func (g *graph) get(uid types.UID) *node {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nodes[uid]
}

// ended says whether the object that a dependent in the namespace refers to was seen to end.
func (g *graph) ended(ref metav1.OwnerReference, namespace string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	owner, ok := g.gone[ref.UID]
	return ok && owner.is(ref, namespace)
}

// dependentsOf returns the objects that refer to the owner, present or not.
func (g *graph) dependentsOf(owner types.UID) []*node {
	g.mu.Lock()
	defer g.mu.Unlock()
	nodes := make([]*node, 0, len(g.dependents[owner]))
	for uid := range g.dependents[owner] {
		nodes = append(nodes, g.nodes[uid])
	}
	return nodes
}

// dependentsOfKind returns those of them that are of one resource.
func (g *graph) dependentsOfKind(owner types.UID, res discovery.Resource) []*node {
	return slices.DeleteFunc(g.dependentsOf(owner), func(n *node) bool { return n.resource.GroupResource() != res.GroupResource() })
}

// ofKind returns the objects of one resource.
func (g *graph) ofKind(res discovery.Resource) []*node {
	g.mu.Lock()
	defer g.mu.Unlock()
	var nodes []*node
	for _, n := range g.nodes {
		if n.resource.GroupResource() == res.GroupResource() {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// all returns every object that has something to do with ownership.
func (g *graph) all() []*node {
	g.mu.Lock()
	defer g.mu.Unlock()
	var nodes []*node
	for _, n := range g.nodes {
		if len(n.meta.OwnerReferences) > 0 || n.foreground() || n.orphaning() {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
