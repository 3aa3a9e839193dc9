// Package cpu gives containers CPUs on which nobody else runs: the kubelet's CPU manager. Of a pod of the quality of service Guaranteed a container that
// asks for whole CPUs gets them for as long as it is there; all others share what is left.
package cpu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"howdah.dev/kit/podspec"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/topology"
)

// Policies.
const (
	None   = "none"
	Static = "static"
)

// Options are those of the policy static.
type Options struct {
	// FullCores gives whole cores only.
	FullCores bool
	// Spread takes what no NUMA node has alone from several in equal parts.
	Spread bool
	// StrictReserved keeps the reserved CPUs from those that share, too.
	StrictReserved bool
}

// ParseOptions reads what is set as name=value.
func ParseOptions(set map[string]string) (Options, error) {
	var o Options
	for _, name := range slices.Sorted(maps.Keys(set)) {
		field, ok := map[string]*bool{
			"full-pcpus-only": &o.FullCores, "distribute-cpus-across-numa": &o.Spread, "strict-cpu-reservation": &o.StrictReserved,
		}[name]
		if !ok {
			return o, fmt.Errorf("unsupported cpumanager option: %q (%s)", name, set[name])
		}
		var err error
		if *field, err = strconv.ParseBool(set[name]); err != nil {
			return o, fmt.Errorf("bad value for option %q: %w", name, err)
		}
	}
	return o, nil
}

// Config of a Manager.
type Config struct {
	Machine topology.Machine
	// Reserved are the CPUs of the system; nobody gets them for himself.
	Reserved cpuset.CPUSet
	Options  Options
	// State is the file that outlives the agent.
	State      string
	Registerer prometheus.Registerer
	// Aligned, which may be nil, hears of containers that have to have whole cores.
	Aligned *topology.Aligned
	// Changed is called when there are others than before in the shared pool.
	Changed func()
}

// Manager knows whose CPUs are whose.
type Manager struct {
	cfg     Config
	metrics *metrics

	mu   sync.Mutex
	held map[types.UID]map[string]cpuset.CPUSet
}

// New returns a Manager that knows what the one before it has given away.
func New(cfg Config) (*Manager, error) {
	all := cfg.Machine.All()
	if !cfg.Reserved.IsSubsetOf(all) {
		return nil, fmt.Errorf("CPU manager: the reserved CPUs %s are not among those of the machine, %s", cfg.Reserved, all)
	}
	if cfg.Reserved.IsEmpty() {
		return nil, errors.New("CPU manager: the static policy needs reserved CPUs: without any, nothing might be left to share")
	}
	held, err := readState(cfg.State, Static)
	if err != nil {
		return nil, fmt.Errorf("CPU manager: %w", err)
	}
	m := &Manager{cfg: cfg, metrics: newMetrics(cfg.Registerer), held: held}
	if given := m.given(); !given.IsSubsetOf(all.Difference(cfg.Reserved)) {
		return nil, fmt.Errorf("CPU manager: CPUs of containers, %s, are not among those that may be theirs, %s; please drain this node and delete %s",
			given, all.Difference(cfg.Reserved), cfg.State)
	}
	m.measure()
	return m, m.save()
}

// given are the CPUs that are somebody's. The lock is held, or nobody else knows the manager.
func (m *Manager) given() cpuset.CPUSet {
	out := cpuset.New()
	for _, containers := range m.held {
		for _, set := range containers {
			out = out.Union(set)
		}
	}
	return out
}

// free are the CPUs that may become somebody's. The lock is held.
func (m *Manager) free() cpuset.CPUSet {
	return m.cfg.Machine.All().Difference(m.cfg.Reserved).Difference(m.given())
}

// Allocatable are the CPUs that containers may have for themselves.
func (m *Manager) Allocatable() cpuset.CPUSet { return m.cfg.Machine.All().Difference(m.cfg.Reserved) }

// Wants is how many CPUs a container is to have for itself.
func Wants(p *corev1.Pod, c *corev1.Container) int {
	if podspec.QOSClass(p) != corev1.PodQOSGuaranteed || p.Spec.Resources != nil {
		return 0
	}
	q := c.Resources.Requests[corev1.ResourceCPU]
	if q.IsZero() {
		q = c.Resources.Limits[corev1.ResourceCPU]
	}
	if q.Value()*1000 != q.MilliValue() {
		return 0
	}
	return int(q.Value())
}

// wantsAll is how many a pod needs at a time.
func wantsAll(p *corev1.Pod) int {
	beside, peak := 0, 0
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		peak = max(peak, beside+Wants(p, c))
		if pod.Sidecar(c) {
			beside += Wants(p, c)
		}
	}
	for i := range p.Spec.Containers {
		beside += Wants(p, &p.Spec.Containers[i])
	}
	return max(peak, beside)
}

// Own returns the CPUs that a container has for itself.
func (m *Manager) Own(uid types.UID, container string) (cpuset.CPUSet, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	set, ok := m.held[uid][container]
	return set, ok
}

// Holds reports whether a container of a pod has CPUs for itself.
func (m *Manager) Holds(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.held[uid]) > 0
}

// Of returns the CPUs on which a container runs: its own, or the shared ones.
func (m *Manager) Of(uid types.UID, container string) cpuset.CPUSet {
	m.mu.Lock()
	defer m.mu.Unlock()
	if set, ok := m.held[uid][container]; ok {
		return set
	}
	return m.shared()
}

func (m *Manager) shared() cpuset.CPUSet {
	out := m.cfg.Machine.All().Difference(m.given())
	if m.cfg.Options.StrictReserved {
		out = out.Difference(m.cfg.Reserved)
	}
	return out
}

// alignmentError says that a container cannot have whole cores.
type alignmentError struct{ text string }

func (e alignmentError) Error() string { return "SMT Alignment Error: " + e.text }

// Reason implements assign.Refusal.
func (alignmentError) Reason() string { return "SMTAlignmentError" }

// Allocate gives a container the CPUs that it is to have for itself, from the hint's nodes as far as they have any.
func (m *Manager) Allocate(_ context.Context, p *corev1.Pod, c *corev1.Container, near topology.Hint) error {
	n := Wants(p, c)
	if n == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, has := m.held[p.UID][c.Name]; has {
		return nil
	}
	m.metrics.requests.Inc()
	set, err := m.choose(n, m.reusable(p, c), near.Nodes)
	if m.cfg.Options.FullCores {
		m.cfg.Aligned.Count(topology.ScopeContainer, topology.PhysicalCPU, err == nil)
	}
	if err != nil {
		m.metrics.errors.Inc()
		return err
	}
	if m.held[p.UID] == nil {
		m.held[p.UID] = map[string]cpuset.CPUSet{}
	}
	m.held[p.UID][c.Name] = set
	m.measure()
	m.changed()
	return m.save()
}

// choose takes CPUs for one container. The lock is held.
func (m *Manager) choose(n int, reusable cpuset.CPUSet, at topology.Mask) (cpuset.CPUSet, error) {
	machine, free, group := m.cfg.Machine, m.free().Union(reusable), 1
	if m.cfg.Options.FullCores {
		group = machine.Threads()
		if n%group != 0 {
			return cpuset.CPUSet{}, alignmentError{fmt.Sprintf("requested %d cpus not multiple cpus per core = %d", n, group)}
		}
		broken := map[int]bool{} // cores of which somebody has a part
		for _, c := range machine.CPUs {
			broken[c.Core] = broken[c.Core] || !free.Contains(c.ID)
		}
		free = machine.Which(func(c topology.CPU) bool { return !broken[c.Core] })
		if free.Size() < n {
			return cpuset.CPUSet{}, alignmentError{fmt.Sprintf("not enough free physical CPUs: available physical CPUs = %d, requested CPUs = %d, CPUs per core = %d", free.Size(), n, group)}
		}
	}
	pick := take
	if m.cfg.Options.Spread {
		pick = func(machine topology.Machine, free cpuset.CPUSet, n int) (cpuset.CPUSet, error) {
			return spread(machine, free, n, group)
		}
	}
	got := cpuset.New()
	if at != 0 {
		here := free.Intersection(machine.On(at))
		var err error
		if got, err = pick(machine, here, min(n, here.Size())); err != nil {
			return got, err
		}
	}
	more, err := pick(machine, free.Difference(got), n-got.Size())
	return got.Union(more), err
}

// reusable are the CPUs of the pod's earlier init containers that nobody who runs beside or after them has. The lock is held.
func (m *Manager) reusable(p *corev1.Pod, c *corev1.Container) cpuset.CPUSet {
	free := cpuset.New()
	for i := range p.Spec.InitContainers {
		before := &p.Spec.InitContainers[i]
		if before.Name == c.Name {
			return free
		}
		if has := m.held[p.UID][before.Name]; pod.Sidecar(before) {
			free = free.Difference(has)
		} else {
			free = free.Union(has)
		}
	}
	for i := range p.Spec.Containers {
		if before := &p.Spec.Containers[i]; before.Name != c.Name {
			free = free.Difference(m.held[p.UID][before.Name])
		}
	}
	return free
}

// Hints tells from which nodes a container could have its CPUs.
func (m *Manager) Hints(p *corev1.Pod, c *corev1.Container) topology.Hints {
	m.mu.Lock()
	defer m.mu.Unlock()
	has, ok := m.held[p.UID][c.Name]
	return m.hints(Wants(p, c), has, ok, m.reusable(p, c))
}

// PodHints tells from which nodes a pod could have all of its CPUs.
func (m *Manager) PodHints(p *corev1.Pod) topology.Hints {
	m.mu.Lock()
	defer m.mu.Unlock()
	has, ok := cpuset.New(), false
	for _, set := range m.held[p.UID] {
		has, ok = has.Union(set), true
	}
	return m.hints(wantsAll(p), has, ok, cpuset.New())
}

// hints are those of n CPUs for who has some already, or may have some again. The lock is held.
func (m *Manager) hints(n int, has cpuset.CPUSet, given bool, reusable cpuset.CPUSet) topology.Hints {
	if n == 0 {
		return nil
	}
	name := string(corev1.ResourceCPU)
	if given && has.Size() != n {
		return topology.Hints{name: {}}
	}
	may := m.free()
	if given {
		may, reusable = has, cpuset.New()
	}
	may = may.Union(reusable)
	return topology.Hints{name: topology.Hinter(m.cfg.Machine.Nodes(), func(set topology.Mask) bool {
		return m.cfg.Machine.On(set).Size() >= n
	}, func(set topology.Mask) bool {
		on := m.cfg.Machine.On(set)
		return reusable.IsSubsetOf(on) && may.Intersection(on).Size() >= n
	})}
}

// Release takes back what a pod has.
func (m *Manager) Release(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, has := m.held[uid]; !has {
		return
	}
	delete(m.held, uid)
	m.measure()
	m.changed()
	if err := m.save(); err != nil {
		slog.Error("keep whose CPUs are whose", "err", err)
	}
}

// Holders are the pods that have CPUs.
func (m *Manager) Holders() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.held))
}

func (m *Manager) changed() {
	if m.cfg.Changed != nil {
		m.cfg.Changed()
	}
}
