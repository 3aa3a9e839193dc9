package cluster

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/scheduler/internal/affinity"
	"howdah.dev/services/scheduler/internal/device"
	"howdah.dev/services/scheduler/internal/kin"
	"howdah.dev/services/scheduler/internal/storage"
)

// Snapshot is the nodes at one moment, by name. It never changes.
type Snapshot struct {
	Nodes []*Node
	// Nominees are the pods that a node is kept for, by its name.
	Nominees map[string][]Nominee
	// Storage is the claims and volumes of pods.
	Storage storage.View
	// Devices is what pods claim of devices, and what there is of them.
	Devices device.View
	// Namespaces are what terms of pod affinity select namespaces by.
	Namespaces affinity.Namespaces
	// Kin is which pods belong together.
	Kin kin.View
}

// Nominee is a pod that waits for a node on which others make room for it.
type Nominee struct {
	Pod    *corev1.Pod
	Demand Demand
}

// Node returns a node by name, nil where there is none.
func (s Snapshot) Node(name string) *Node {
	i, ok := s.Index(name)
	if !ok {
		return nil
	}
	return s.Nodes[i]
}

// Index returns where among Nodes the named one is; false where there is none.
func (s Snapshot) Index(name string) (int, bool) {
	return slices.BinarySearchFunc(s.Nodes, name, func(n *Node, name string) int { return strings.Compare(n.Name, name) })
}

// Replacing returns the snapshot with n in place of the node of its name.
func (s Snapshot) Replacing(n *Node) Snapshot {
	s.Nodes = slices.Clone(s.Nodes)
	if i, ok := s.Index(n.Name); ok {
		s.Nodes[i] = n
	}
	return s
}

// Cache follows nodes and bound pods. Pods that the scheduler has placed but
// that the API does not show bound yet are assumed: they count already.
type Cache struct {
	// Storage is the part of it that follows claims and volumes.
	Storage *storage.Cache
	// Devices is the part of it that follows claims of devices, and the devices.
	Devices *device.Cache

	mu         sync.Mutex
	namespaces affinity.Namespaces
	kin        kin.View
	nodes      map[string]*Node
	sorted     []*Node // those that have an object, by name
	where      map[types.UID]placed
	assumed    map[types.UID]bool
	// nominees are kept while a pod is assumed: the assumption may be taken back.
	nominees map[types.UID]nomination
}

type nomination struct {
	node string
	Nominee
}

// placed is where a pod counts, and for how much.
type placed struct {
	node   string
	demand Demand
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{Storage: storage.NewCache(), Devices: device.NewCache(), nodes: map[string]*Node{}, where: map[types.UID]placed{}, assumed: map[types.UID]bool{}, nominees: map[types.UID]nomination{}}
}

// SetNode adds or replaces a node.
func (c *Cache) SetNode(object *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(c.node(object.Name).withObject(object))
}

// SetNamespace sets the labels of a namespace.
func (c *Cache) SetNamespace(name string, set labels.Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.namespaces.Set(name, set)
}

// DeleteNamespace forgets a namespace.
func (c *Cache) DeleteNamespace(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.namespaces.Delete(name)
}

// Namespaces returns the labels of namespaces.
func (c *Cache) Namespaces() affinity.Namespaces {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.namespaces.Clone()
}

// Kin returns which pods belong together.
func (c *Cache) Kin() kin.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kin.Clone()
}

// ChangeKin changes who selects pods.
func (c *Cache) ChangeKin(change func(v *kin.View)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.kin)
}

// DeleteNode removes a node; pods that still name it are kept in mind, in
// case it comes back.
func (c *Cache) DeleteNode(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(c.node(name).withObject(nil))
}

// SetPod adds or replaces a bound pod, and confirms an assumed one. A pod
// that has ended takes nothing. It reports whether a pod that was there takes less than it did.
func (c *Cache) SetPod(pod *corev1.Pod) (less bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.assumed, pod.UID)
	delete(c.nominees, pod.UID)
	was, there := c.where[pod.UID]
	c.remove(pod.UID)
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return there
	}
	demand := DemandOf(pod)
	c.add(pod, demand)
	return there && demand.Requests.below(was.demand.Requests)
}

// DeletePod removes a pod.
func (c *Cache) DeletePod(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.assumed, uid)
	delete(c.nominees, uid)
	c.remove(uid)
}

// Nominate keeps a node for a pod, and no other; "" keeps none.
func (c *Cache) Nominate(pod *corev1.Pod, node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if node == "" {
		delete(c.nominees, pod.UID)
		return
	}
	c.nominees[pod.UID] = nomination{node, Nominee{pod, DemandOf(pod)}}
}

// Nomination is the node that is kept for a pod, "" where none is.
func (c *Cache) Nomination(uid types.UID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nominees[uid].node
}

// Assume counts a pod, which demands demand, on the node that spec.nodeName
// names, before the API shows it there. It does nothing where the API already
// does.
func (c *Cache) Assume(pod *corev1.Pod, demand Demand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.where[pod.UID]; known {
		return
	}
	c.assumed[pod.UID] = true
	c.add(pod, demand)
}

// Forget takes back an assumption that did not come true.
func (c *Cache) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.assumed[uid] {
		delete(c.assumed, uid)
		c.remove(uid)
	}
}

// Placed reports whether the pod is bound or assumed.
func (c *Cache) Placed(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.where[uid]
	return ok
}

// Place is the node on which a pod counts, bound or assumed; "" where it counts on none.
func (c *Cache) Place(uid types.UID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.where[uid].node
}

// Snapshot returns the nodes of now, sorted by name.
func (c *Cache) Snapshot() Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Snapshot{Nodes: slices.Clone(c.sorted), Storage: c.Storage.View(), Devices: c.Devices.View(), Namespaces: c.namespaces.Clone(), Kin: c.kin.Clone()}
	for uid, n := range c.nominees {
		if _, placed := c.where[uid]; placed {
			continue
		}
		if s.Nominees == nil {
			s.Nominees = map[string][]Nominee{}
		}
		s.Nominees[n.node] = append(s.Nominees[n.node], n.Nominee)
	}
	return s
}

// Counts returns the nodes, the pods on them, and how many of those are assumed.
func (c *Cache) Counts() (nodes, pods, assumed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.nodes), len(c.where), len(c.assumed)
}

func (c *Cache) node(name string) *Node {
	if n, ok := c.nodes[name]; ok {
		return n
	}
	return newNode(name)
}

func (c *Cache) put(n *Node) {
	i, there := slices.BinarySearchFunc(c.sorted, n.Name, func(n *Node, name string) int { return strings.Compare(n.Name, name) })
	switch {
	case n.Object != nil && there:
		c.sorted[i] = n
	case n.Object != nil:
		c.sorted = slices.Insert(c.sorted, i, n)
	case there:
		c.sorted = slices.Delete(c.sorted, i, i+1)
	}
	if n.Object == nil && len(n.Pods) == 0 {
		delete(c.nodes, n.Name)
		return
	}
	c.nodes[n.Name] = n
}

func (c *Cache) add(pod *corev1.Pod, demand Demand) {
	c.where[pod.UID] = placed{pod.Spec.NodeName, demand}
	c.put(c.node(pod.Spec.NodeName).With(pod, demand))
}

func (c *Cache) remove(uid types.UID) {
	p, ok := c.where[uid]
	if !ok {
		return
	}
	delete(c.where, uid)
	c.put(c.node(p.node).Without(uid, p.demand))
}
