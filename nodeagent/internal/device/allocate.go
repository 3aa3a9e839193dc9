package device

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/topology"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Allocate gives a container the devices that it asks for, preferably of the hint's nodes. What it has already stays. One pod is given to after the other.
func (m *Manager) Allocate(ctx context.Context, p *corev1.Pod, c *corev1.Container, near topology.Hint) error {
	wants := asked(p, c)
	for _, name := range slices.Sorted(maps.Keys(wants)) {
		if err := m.allocate(ctx, p, c, name, wants[name], near.Nodes); err != nil {
			return err
		}
	}
	return nil
}

// asked is how much a container asks for of each resource that drivers do not provide for it. Of those of plugins nobody asks for less than the limit.
func asked(p *corev1.Pod, c *corev1.Container) map[string]int {
	wants := map[string]int{}
	for name, q := range c.Resources.Limits {
		if !pod.FromDrivers(p, c.Name, name) {
			wants[string(name)] = int(q.Value())
		}
	}
	return wants
}

func (m *Manager) allocate(ctx context.Context, p *corev1.Pod, c *corev1.Container, resource string, want int, at topology.Mask) error {
	m.mu.Lock()
	ours := m.ours(resource)
	choice, plug, err := m.choose(p, c, resource, want, at)
	m.mu.Unlock()
	if err != nil || !ours || choice == nil {
		return err
	}
	available, must, ask := choice.question()
	var preferred []string
	if ask && plug.options.GetGetPreferredAllocationAvailable() {
		if preferred, err = prefer(ctx, plug, available, must, want); err != nil {
			return err
		}
	}
	ids := choice.answer(preferred)
	began := m.cfg.Clock.Now()
	answer, err := give(ctx, plug, ids)
	m.metrics.allocated(resource, m.cfg.Clock.Since(began))
	if err != nil {
		return err
	}
	h := &holding{devices: map[string][]int64{}, answer: answer}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		h.devices[id] = nodesOf(plug.devices[id])
	}
	key := Holder{p.UID, c.Name}
	if m.held[key] == nil {
		m.held[key] = map[string]*holding{}
	}
	m.held[key][resource] = h
	return m.save()
}

// ours reports whether a resource is one of plugins. The lock is held.
func (m *Manager) ours(resource string) bool {
	return m.plugins[resource] != nil || len(m.taken()[resource]) > 0
}

// choose looks what there is for a container of a resource; it returns nil where the container has what it asks for. The lock is held.
func (m *Manager) choose(p *corev1.Pod, c *corev1.Container, resource string, want int, at topology.Mask) (*choice, *plugin, error) {
	if want == 0 || !m.ours(resource) {
		return nil, nil, nil
	}
	has := m.held[Holder{p.UID, c.Name}][resource]
	if has != nil && len(has.devices) != want {
		return nil, nil, fmt.Errorf("pod %q container %q changed request for resource %q from %d to %d", p.UID, c.Name, resource, len(has.devices), want)
	}
	plug := m.plugins[resource]
	if plug == nil {
		return nil, nil, fmt.Errorf("can't allocate unregistered device %s", resource)
	}
	healthy := plug.healthy()
	if len(healthy) == 0 {
		return nil, nil, fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", resource)
	}
	if has != nil {
		for id := range has.devices {
			if !plug.ok(id) {
				return nil, nil, fmt.Errorf("previously allocated devices are no longer healthy; cannot allocate unhealthy devices %s", resource)
			}
		}
		return nil, plug, nil
	}
	must := slices.DeleteFunc(m.reusable(p, c, resource), func(id string) bool { return healthy[id] == nil })
	taken := m.taken()[resource]
	var free []string
	nodes := map[string][]int64{}
	for _, id := range slices.Sorted(maps.Keys(healthy)) {
		if nodes[id] = nodesOf(healthy[id]); !taken[id] {
			free = append(free, id)
		}
	}
	if needed := want - len(must); len(free) < needed {
		return nil, nil, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d", resource, needed, len(free))
	}
	out := choose(want, must, free, nodes, at)
	return &out, plug, nil
}

// reusable are the devices of the pod's earlier init containers that nobody who runs beside or after them has. The lock is held.
func (m *Manager) reusable(p *corev1.Pod, c *corev1.Container, resource string) []string {
	free := map[string]bool{}
	over := func(list []corev1.Container, init bool) bool {
		for i := range list {
			if list[i].Name == c.Name {
				return true
			}
			if h := m.held[Holder{p.UID, list[i].Name}][resource]; h != nil {
				for id := range h.devices {
					free[id] = init && !pod.Sidecar(&list[i])
				}
			}
		}
		return false
	}
	if !over(p.Spec.InitContainers, true) {
		over(p.Spec.Containers, false)
	}
	maps.DeleteFunc(free, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(free))
}

// prefer asks a plugin which devices go well together.
func prefer(ctx context.Context, p *plugin, available, must []string, size int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, preferTimeout)
	defer cancel()
	resp, err := p.client.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{
		AvailableDeviceIDs: available, MustIncludeDeviceIDs: must, AllocationSize: int32(size),
	}}})
	if err != nil {
		return nil, fmt.Errorf("device plugin GetPreferredAllocation rpc failed with err: %w", err)
	}
	if len(resp.GetContainerResponses()) == 0 {
		return nil, nil
	}
	return resp.GetContainerResponses()[0].GetDeviceIDs(), nil
}

// give asks a plugin what a container needs to use its devices.
func give(ctx context.Context, p *plugin, ids []string) (*pluginapi.ContainerAllocateResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, allocateTimeout)
	defer cancel()
	resp, err := p.client.Allocate(ctx, &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}})
	if err != nil {
		return nil, err
	}
	if len(resp.GetContainerResponses()) == 0 {
		return nil, fmt.Errorf("no containers return in allocation response %v", resp)
	}
	return resp.GetContainerResponses()[0], nil
}

// Hints tells from which nodes a container could have the devices that it asks for.
func (m *Manager) Hints(p *corev1.Pod, c *corev1.Container) topology.Hints {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hints(asked(p, c), func(resource string) (has, reusable map[string]bool) {
		if h := m.held[Holder{p.UID, c.Name}][resource]; h != nil {
			has = ids(slices.Collect(maps.Keys(h.devices)))
		}
		return has, ids(m.reusable(p, c, resource))
	})
}

// PodHints tells from which nodes a pod could have all devices that its containers ask for.
func (m *Manager) PodHints(p *corev1.Pod) topology.Hints {
	wants := map[string]int{}
	// Of these resources nobody asks for less than its limit.
	for name, q := range resourcehelper.AggregateContainerRequests(pod.OfTheNode(p), resourcehelper.PodResourcesOptions{}) {
		wants[string(name)] = int(q.Value())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hints(wants, func(resource string) (has, _ map[string]bool) {
		for h, resources := range m.held {
			if h.UID != p.UID || resources[resource] == nil {
				continue
			}
			if has == nil {
				has = map[string]bool{}
			}
			for id := range resources[resource].devices {
				has[id] = true
			}
		}
		return has, nil
	})
}

func ids(list []string) map[string]bool {
	out := map[string]bool{}
	for _, id := range list {
		out[id] = true
	}
	return out
}

// hints are those for amounts of resources; of says what of one is had already, nil for nothing, and what may be had again. The lock is held.
func (m *Manager) hints(wants map[string]int, of func(resource string) (has, reusable map[string]bool)) topology.Hints {
	out := topology.Hints{}
	taken := m.taken()
	for resource, want := range wants {
		plug := m.plugins[resource]
		if plug == nil || want == 0 || !plug.aligned() {
			continue
		}
		has, reusable := of(resource)
		if has != nil && len(has) != want {
			out[resource] = []topology.Hint{}
			continue
		}
		within := func(set topology.Mask, counts func(id string) bool) (n int, all bool) {
			all = true
			for id := range plug.healthy() {
				in := slices.ContainsFunc(nodesOf(plug.devices[id]), func(node int64) bool { return set.Has(int(node)) })
				if in && counts(id) {
					n++
				}
				all = all && (in || !reusable[id])
			}
			return n, all
		}
		out[resource] = topology.Hinter(plug.nodes(), func(set topology.Mask) bool {
			n, _ := within(set, func(string) bool { return true })
			return n >= want
		}, func(set topology.Mask) bool {
			n, all := within(set, func(id string) bool {
				if has != nil {
					return has[id]
				}
				return reusable[id] || !taken[resource][id]
			})
			return n >= want && all
		})
	}
	return out
}

// aligned reports whether the plugin says of any device where it is.
func (p *plugin) aligned() bool {
	for _, d := range p.devices {
		if d.GetTopology() != nil {
			return true
		}
	}
	return false
}

// nodes are those of the plugin's devices.
func (p *plugin) nodes() topology.Mask {
	var out topology.Mask
	for _, d := range p.devices {
		for _, n := range nodesOf(d) {
			out |= topology.Of(int(n))
		}
	}
	return out
}

// Prepare tells the plugins that a container is about to start, as far as they want to know, and returns what they have said it needs, the first of
// the resources first. What it asks for and does not have, it is given now: its pod was taken before the resource was a plugin's.
func (m *Manager) Prepare(ctx context.Context, p *corev1.Pod, c *corev1.Container) ([]*pluginapi.ContainerAllocateResponse, error) {
	var out []*pluginapi.ContainerAllocateResponse
	wants := asked(p, c)
	for _, resource := range slices.Sorted(maps.Keys(wants)) {
		m.mu.Lock()
		ours, plug, has := m.ours(resource), m.plugins[resource], m.held[Holder{p.UID, c.Name}][resource]
		m.mu.Unlock()
		if !ours || wants[resource] == 0 {
			continue
		}
		if has == nil {
			slog.Info("devices for a container that has none", "namespace", p.Namespace, "name", p.Name, "container", c.Name, "resource", resource)
			if err := m.allocate(ctx, p, c, resource, wants[resource], 0); err != nil {
				return nil, err
			}
			m.mu.Lock()
			plug, has = m.plugins[resource], m.held[Holder{p.UID, c.Name}][resource]
			m.mu.Unlock()
		}
		if has == nil {
			continue
		}
		if plug == nil {
			return nil, fmt.Errorf("endpoint not found in cache for a registered resource: %s", resource)
		}
		if plug.options.GetPreStartRequired() {
			if err := prestart(ctx, plug, slices.Sorted(maps.Keys(has.devices))); err != nil {
				return nil, err
			}
		}
		out = append(out, has.answer)
	}
	return out, nil
}

func prestart(ctx context.Context, p *plugin, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	if _, err := p.client.PreStartContainer(ctx, &pluginapi.PreStartContainerRequest{DevicesIds: ids}); err != nil {
		return fmt.Errorf("device plugin PreStartContainer rpc failed with err: %w", err)
	}
	return nil
}
