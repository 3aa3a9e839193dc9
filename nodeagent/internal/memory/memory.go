// Package memory gives containers of pods of the quality of service Guaranteed memory and huge pages of NUMA nodes: the kubelet's memory manager. Memory is
// counted, not taken: a container runs on the nodes that were promised to it, and no more is promised of a node than it has.
package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/podspec"
	"howdah.dev/nodeagent/internal/hugepage"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/statefile"
	"howdah.dev/nodeagent/internal/topology"
)

// Policies.
const (
	None   = "None"
	Static = "Static"
)

// Reserved is what of each NUMA node is the system's, by resource.
type Reserved map[int]map[corev1.ResourceName]int64

// Block is memory of one kind that was promised to a container, from some nodes.
type Block struct {
	Nodes topology.Mask
	Kind  corev1.ResourceName
	Size  int64
}

// held is what a container has. Passing says that it ends before others of its pod begin.
type held struct {
	Blocks  []Block
	Passing bool
}

// Config of a Manager.
type Config struct {
	Machine  topology.Machine
	Reserved Reserved
	// State is the file that outlives the agent.
	State      string
	Registerer prometheus.Registerer
}

// Manager knows what was promised to whom.
type Manager struct {
	cfg     Config
	all     map[int]map[corev1.ResourceName]int64 // that may be promised
	metrics *metrics

	mu   sync.Mutex
	held map[types.UID]map[string]held
}

// state is the file.
type state struct {
	PolicyName string
	Entries    map[types.UID]map[string]held
}

// New returns a Manager that knows what the one before it has promised.
func New(cfg Config) (*Manager, error) {
	m := &Manager{cfg: cfg, all: allocatable(cfg.Machine, cfg.Reserved), metrics: newMetrics(cfg.Registerer), held: map[types.UID]map[string]held{}}
	for node, kinds := range m.all {
		for kind, size := range kinds {
			if size < 0 {
				return nil, fmt.Errorf("memory manager: NUMA node %d has less %s than is reserved", node, kind)
			}
		}
	}
	if m.total(cfg.Machine.Nodes(), corev1.ResourceMemory) == 0 {
		return nil, errors.New("memory manager: the machine does not tell what memory its NUMA nodes have")
	}
	s, err := read(cfg.State, Static)
	if err != nil {
		return nil, fmt.Errorf("memory manager: %w", err)
	}
	maps.Copy(m.held, s.Entries)
	for _, containers := range m.held {
		for name, h := range containers {
			for _, b := range h.Blocks {
				if !cfg.Machine.Nodes().Holds(b.Nodes) {
					return nil, fmt.Errorf("memory manager: container %s has memory of NUMA nodes %v, which are not all there; please drain this node and delete %s", name, b.Nodes.Nodes(), cfg.State)
				}
			}
		}
	}
	return m, m.save()
}

// allocatable is what of each node may be promised: what huge pages take up is no memory, and what is reserved is the system's.
func allocatable(machine topology.Machine, reserved Reserved) map[int]map[corev1.ResourceName]int64 {
	out := map[int]map[corev1.ResourceName]int64{}
	for id, node := range machine.Node {
		kinds := map[corev1.ResourceName]int64{corev1.ResourceMemory: node.Memory}
		for size, count := range node.Pages {
			kinds[corev1.ResourceMemory] -= size * count
			kinds[hugepage.Resource(size)] = size * count
		}
		for kind, size := range reserved[id] {
			kinds[kind] -= size
		}
		out[id] = kinds
	}
	return out
}

// read returns what the file says. A file of another policy is an error.
func read(path, policy string) (state, error) {
	var s state
	err := statefile.Read(path, &s)
	if errors.Is(err, fs.ErrNotExist) {
		return state{PolicyName: policy}, nil
	}
	if err != nil {
		return s, fmt.Errorf("%w, please drain this node and delete the memory manager checkpoint file %q", err, path)
	}
	if s.PolicyName != policy {
		return s, fmt.Errorf("configured policy %q differs from state checkpoint policy %q, please drain this node and delete the memory manager checkpoint file %q before restarting",
			policy, s.PolicyName, path)
	}
	return s, nil
}

// CheckNone refuses the policy None while the file tells of another.
func CheckNone(path string) error {
	_, err := read(path, None)
	return err
}

func (m *Manager) save() error { return statefile.Write(m.cfg.State, state{Static, m.held}) }

// wants is what a container is to have, by kind.
func wants(p *corev1.Pod, c *corev1.Container) map[corev1.ResourceName]int64 {
	if podspec.QOSClass(p) != corev1.PodQOSGuaranteed || p.Spec.Resources != nil {
		return nil
	}
	asks := maps.Clone(c.Resources.Limits)
	maps.Copy(asks, c.Resources.Requests)
	out := map[corev1.ResourceName]int64{}
	for kind, q := range asks {
		if (kind == corev1.ResourceMemory || strings.HasPrefix(string(kind), corev1.ResourceHugePagesPrefix)) && !q.IsZero() {
			out[kind] = q.Value()
		}
	}
	return out
}

// wantsAll is what a pod needs at a time.
func wantsAll(p *corev1.Pod) map[corev1.ResourceName]int64 {
	beside, peak := map[corev1.ResourceName]int64{}, map[corev1.ResourceName]int64{}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		for kind, size := range wants(p, c) {
			peak[kind] = max(peak[kind], beside[kind]+size)
			if pod.Sidecar(c) {
				beside[kind] += size
			}
		}
	}
	for i := range p.Spec.Containers {
		for kind, size := range wants(p, &p.Spec.Containers[i]) {
			beside[kind] += size
		}
	}
	for kind, size := range beside {
		peak[kind] = max(peak[kind], size)
	}
	return peak
}

// total is what some nodes have of a kind.
func (m *Manager) total(nodes topology.Mask, kind corev1.ResourceName) (sum int64) {
	for _, n := range nodes.Nodes() {
		sum += m.all[n][kind]
	}
	return sum
}

// fits reports whether some nodes have what is asked for beside all that was promised, to whom it is asked for (but not what that container has), too.
// Memory of several nodes is promised of all of them together, so none of them can be promised in another company at the same time.
func (m *Manager) fits(nodes topology.Mask, asks map[corev1.ResourceName]int64, uid types.UID, container string, passing bool) bool {
	used := map[corev1.ResourceName]int64{}
	for who, containers := range m.held {
		beside, peak := map[corev1.ResourceName]int64{}, map[corev1.ResourceName]int64{}
		count := func(blocks []Block, passing bool) bool {
			for _, b := range blocks {
				if b.Nodes&nodes == 0 {
					continue
				}
				if b.Nodes != nodes {
					return false
				}
				if passing {
					peak[b.Kind] = max(peak[b.Kind], b.Size)
				} else {
					beside[b.Kind] += b.Size
				}
			}
			return true
		}
		for name, h := range containers {
			if (who != uid || name != container) && !count(h.Blocks, h.Passing) {
				return false
			}
		}
		if who == uid {
			continue // with what it asks for, below
		}
		for kind := range m.kinds() {
			used[kind] += max(peak[kind], beside[kind])
		}
	}
	beside, peak := map[corev1.ResourceName]int64{}, map[corev1.ResourceName]int64{}
	for name, h := range m.held[uid] {
		if name == container {
			continue
		}
		for _, b := range h.Blocks {
			if b.Nodes == nodes && h.Passing {
				peak[b.Kind] = max(peak[b.Kind], b.Size)
			} else if b.Nodes == nodes {
				beside[b.Kind] += b.Size
			}
		}
	}
	for kind, size := range asks {
		if passing {
			peak[kind] = max(peak[kind], beside[kind]+size)
		} else {
			beside[kind] += size
		}
	}
	for kind := range asks {
		if used[kind]+max(peak[kind], beside[kind]) > m.total(nodes, kind) {
			return false
		}
	}
	return true
}

// kinds are those that the machine has.
func (m *Manager) kinds() map[corev1.ResourceName]bool {
	out := map[corev1.ResourceName]bool{}
	for _, kinds := range m.all {
		for kind := range kinds {
			out[kind] = true
		}
	}
	return out
}

// ways are the hints for what is asked for. The lock is held.
func (m *Manager) ways(asks map[corev1.ResourceName]int64, uid types.UID, container string, passing bool) []topology.Hint {
	return topology.Hinter(m.cfg.Machine.Nodes(), func(nodes topology.Mask) bool {
		for kind, size := range asks {
			if m.total(nodes, kind) < size {
				return false
			}
		}
		return true
	}, func(nodes topology.Mask) bool { return m.fits(nodes, asks, uid, container, passing) })
}

// Hints tells from which nodes a container could have its memory.
func (m *Manager) Hints(p *corev1.Pod, c *corev1.Container) topology.Hints {
	m.mu.Lock()
	defer m.mu.Unlock()
	asks := wants(p, c)
	if h, has := m.held[p.UID][c.Name]; has {
		return promised(asks, h.Blocks)
	}
	return each(asks, m.ways(asks, p.UID, c.Name, passing(p, c)))
}

// PodHints tells from which nodes a pod could have all of its memory.
func (m *Manager) PodHints(p *corev1.Pod) topology.Hints {
	m.mu.Lock()
	defer m.mu.Unlock()
	asks := wantsAll(p)
	for _, h := range m.held[p.UID] { // as the first time
		return promised(asks, h.Blocks)
	}
	return each(asks, m.ways(asks, p.UID, "", false))
}

func each(asks map[corev1.ResourceName]int64, ways []topology.Hint) topology.Hints {
	out := topology.Hints{}
	for kind := range asks {
		out[string(kind)] = ways
	}
	return out
}

// promised are the hints of who has what it asks for.
func promised(asks map[corev1.ResourceName]int64, blocks []Block) topology.Hints {
	out := topology.Hints{}
	for kind := range asks {
		out[string(kind)] = []topology.Hint{}
		for _, b := range blocks {
			if b.Kind == kind {
				out[string(kind)] = []topology.Hint{{Nodes: b.Nodes, Preferred: true}}
			}
		}
	}
	return out
}

// passing reports whether a container ends before the others of its pod begin.
func passing(p *corev1.Pod, c *corev1.Container) bool {
	return !pod.Sidecar(c) && slices.ContainsFunc(p.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name })
}

// Allocate promises a container what it is to have, from the hint's nodes, and from more of them where those have not enough.
func (m *Manager) Allocate(_ context.Context, p *corev1.Pod, c *corev1.Container, near topology.Hint) error {
	asks := wants(p, c)
	if len(asks) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, has := m.held[p.UID][c.Name]; has {
		return nil
	}
	m.metrics.requests.Inc()
	nodes, err := m.choose(asks, p.UID, c.Name, passing(p, c), near.Nodes)
	if err != nil {
		m.metrics.errors.Inc()
		return err
	}
	h := held{Passing: passing(p, c)}
	for _, kind := range slices.Sorted(maps.Keys(asks)) {
		h.Blocks = append(h.Blocks, Block{nodes, kind, asks[kind]})
	}
	if m.held[p.UID] == nil {
		m.held[p.UID] = map[string]held{}
	}
	m.held[p.UID][c.Name] = h
	return m.save()
}

// choose returns the nodes of a promise. The lock is held.
func (m *Manager) choose(asks map[corev1.ResourceName]int64, uid types.UID, container string, passing bool, at topology.Mask) (topology.Mask, error) {
	if at != 0 && m.fits(at, asks, uid, container, passing) {
		return at, nil
	}
	ways := slices.DeleteFunc(m.ways(asks, uid, container, passing), func(h topology.Hint) bool { return !h.Nodes.Holds(at) })
	if len(ways) == 0 && at == 0 {
		return 0, errors.New("[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available")
	}
	if len(ways) == 0 {
		return 0, errors.New("[memorymanager] failed to find NUMA nodes to extend the current topology hint")
	}
	return slices.MinFunc(ways, func(a, b topology.Hint) int {
		return cmp.Or(cmp.Compare(a.Nodes.Count(), b.Nodes.Count()), cmp.Compare(a.Nodes, b.Nodes))
	}).Nodes, nil
}

// Of returns what a container was promised.
func (m *Manager) Of(uid types.UID, container string) []Block {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.held[uid][container].Blocks)
}

// All returns what each node has for containers.
func (m *Manager) All() []Block {
	var out []Block
	for _, node := range slices.Sorted(maps.Keys(m.all)) {
		for _, kind := range slices.Sorted(maps.Keys(m.all[node])) {
			out = append(out, Block{topology.Of(node), kind, m.all[node][kind]})
		}
	}
	return out
}

// Nodes returns the nodes on which a container's memory is to be, as the runtime reads them; "" is all of them.
func (m *Manager) Nodes(uid types.UID, container string) string {
	var all topology.Mask
	for _, b := range m.Of(uid, container) {
		all |= b.Nodes
	}
	var out []string
	for _, n := range all.Nodes() {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out, ",")
}

// Release takes back what a pod was promised.
func (m *Manager) Release(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, has := m.held[uid]; !has {
		return
	}
	delete(m.held, uid)
	if err := m.save(); err != nil {
		slog.Error("keep whose memory is whose", "err", err)
	}
}

// Holders are the pods that were promised something.
func (m *Manager) Holders() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.held))
}

type metrics struct{ requests, errors prometheus.Counter }

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_memory_manager_pinning_requests_total", Help: "Containers that were to have memory of NUMA nodes."}),
		prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_memory_manager_pinning_errors_total", Help: "Containers that could not have memory of NUMA nodes."}),
	}
	registerer.MustRegister(m.requests, m.errors)
	return m
}
