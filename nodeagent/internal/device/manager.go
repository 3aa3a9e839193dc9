// Package device gives containers the devices that device plugins have: it is the kubelet's side of their API (v1beta1). Plugins register at a socket in the
// node's folder device-plugins and tell of their devices; what a pod asks for is chosen when the node takes the pod, and stays the pod's until it has ended,
// over restarts of plugins and agent.
package device

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	// gracePeriod is how long the devices of a plugin that is away are still told as capacity.
	gracePeriod = 5 * time.Minute
	// allocateTimeout and preferTimeout bound what a plugin is asked while pods wait to be taken; prepareTimeout before a container.
	allocateTimeout = 30 * time.Second
	preferTimeout   = 10 * time.Second
	optionsTimeout  = 10 * time.Second
	prepareTimeout  = pluginapi.KubeletPreStartContainerRPCTimeoutInSecs * time.Second

	socket     = "kubelet.sock"
	checkpoint = "kubelet_internal_checkpoint"
)

// Config of a Manager.
type Config struct {
	// Dir is the folder in which plugins look for the node's socket and make their own.
	Dir        string
	Clock      clock.WithTicker
	Registerer prometheus.Registerer
	// Changed is called when the node has other devices, or other healthy ones, than before; with the pods that have devices of the resource.
	Changed func(holders []types.UID)
}

// Manager knows the devices, and whose they are.
type Manager struct {
	cfg     Config
	metrics *metrics
	running sync.WaitGroup

	mu      sync.Mutex
	ctx     context.Context // of Run; nil before
	plugins map[string]*plugin
	removed map[string]bool // resources that the node once had
	held    map[Holder]map[string]*holding
}

// Holder is a container that has devices.
type Holder struct {
	UID       types.UID
	Container string
}

// holding is what a container has of one resource.
type holding struct {
	// Devices has the devices' NUMA nodes by their IDs.
	devices map[string][]int64
	// answer says what the container needs to use them.
	answer *pluginapi.ContainerAllocateResponse
}

// New returns a Manager that knows what the one before it has given away.
func New(cfg Config) *Manager {
	m := &Manager{
		cfg: cfg, metrics: newMetrics(cfg.Registerer), plugins: map[string]*plugin{}, removed: map[string]bool{}, held: map[Holder]map[string]*holding{},
	}
	resources, held := readCheckpoint(filepath.Join(cfg.Dir, checkpoint))
	m.held = held
	for _, resource := range resources { // there are none until their plugins register again
		m.plugins[resource] = &plugin{resource: resource, away: cfg.Clock.Now(), cancel: func() {}}
	}
	return m
}

// Run serves plugins until ctx ends. They see by the new socket that they have to register again.
func (m *Manager) Run(ctx context.Context) error {
	listener, err := m.listen()
	if err != nil {
		return fmt.Errorf("devices: %w", err)
	}
	server := grpc.NewServer()
	pluginapi.RegisterRegistrationServer(server, registration{m: m})
	m.mu.Lock()
	m.ctx = ctx
	m.mu.Unlock()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case err = <-failed:
		err = fmt.Errorf("devices: %w", err)
	}
	server.Stop()
	m.mu.Lock()
	for _, p := range m.plugins {
		p.cancel()
	}
	m.ctx = nil // nobody registers any more
	m.mu.Unlock()
	m.running.Wait()
	return err
}

// listen makes the socket anew, and removes those of plugins, which make new ones when they see it.
func (m *Manager) listen() (net.Listener, error) {
	if err := os.MkdirAll(m.cfg.Dir, 0o750); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(m.cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() || e.Name() == checkpoint {
			continue
		}
		if err := os.Remove(filepath.Join(m.cfg.Dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return net.Listen("unix", filepath.Join(m.cfg.Dir, socket))
}

// Capacity returns what the node has of each resource of plugins, and what of it may be used: healthy devices of plugins that are there. Of one whose
// plugin has been away for long it has none.
func (m *Manager) Capacity() (capacity, allocatable corev1.ResourceList) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	capacity, allocatable = corev1.ResourceList{}, corev1.ResourceList{}
	for resource := range m.removed {
		capacity[corev1.ResourceName(resource)], allocatable[corev1.ResourceName(resource)] = count(0), count(0)
	}
	for resource, p := range m.plugins {
		capacity[corev1.ResourceName(resource)] = count(len(p.devices))
		allocatable[corev1.ResourceName(resource)] = count(len(p.healthy()))
	}
	return capacity, allocatable
}

// expire forgets plugins that have been away for too long. The lock is held.
func (m *Manager) expire() {
	gone := false
	for resource, p := range m.plugins {
		if !p.away.IsZero() && m.cfg.Clock.Since(p.away) >= gracePeriod {
			delete(m.plugins, resource)
			m.removed[resource], gone = true, true
		}
	}
	if gone {
		if err := m.save(); err != nil {
			slog.Error("keep whose devices are whose", "err", err)
		}
	}
}

// Held returns how many devices of each resource have been given away: the node has at least those, even while their plugin does not tell of them.
func (m *Manager) Held() corev1.ResourceList {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := corev1.ResourceList{}
	for resource, taken := range m.taken() {
		out[corev1.ResourceName(resource)] = count(len(taken))
	}
	return out
}

// taken are the devices that are somebody's, by resource. The lock is held.
func (m *Manager) taken() map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, resources := range m.held {
		for resource, h := range resources {
			if out[resource] == nil {
				out[resource] = map[string]bool{}
			}
			for id := range h.devices {
				out[resource][id] = true
			}
		}
	}
	return out
}

// Release takes back what a pod has.
func (m *Manager) Release(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.held)
	maps.DeleteFunc(m.held, func(h Holder, _ map[string]*holding) bool { return h.UID == uid })
	if len(m.held) == before {
		return
	}
	if err := m.save(); err != nil {
		slog.Error("keep whose devices are whose", "err", err)
	}
}

// Holders are the pods that have devices.
func (m *Manager) Holders() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.holders("")
}

// holders are the pods that have devices, of one resource where it is named. The lock is held.
func (m *Manager) holders(resource string) []types.UID {
	var out []types.UID
	for h, resources := range m.held {
		if _, has := resources[resource]; (has || resource == "") && !slices.Contains(out, h.UID) {
			out = append(out, h.UID)
		}
	}
	return out
}

// Devices are some devices of one resource, with what is known of their NUMA nodes.
type Devices struct {
	Resource string
	IDs      []string
	Nodes    []int64
}

// Of returns what a container has, a row for each resource and set of nodes.
func (m *Manager) Of(uid types.UID, container string) []Devices {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Devices
	resources := m.held[Holder{uid, container}]
	for _, resource := range slices.Sorted(maps.Keys(resources)) {
		out = append(out, rows(resource, resources[resource].devices)...)
	}
	return out
}

// All returns the healthy devices of the node.
func (m *Manager) All() []Devices {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Devices
	for _, resource := range slices.Sorted(maps.Keys(m.plugins)) {
		devices := map[string][]int64{}
		for id, d := range m.plugins[resource].healthy() {
			devices[id] = nodesOf(d)
		}
		out = append(out, rows(resource, devices)...)
	}
	return out
}

// rows are devices by their nodes, the devices in order.
func rows(resource string, devices map[string][]int64) []Devices {
	var out []Devices
	for _, id := range slices.Sorted(maps.Keys(devices)) {
		at := slices.IndexFunc(out, func(d Devices) bool { return slices.Equal(d.Nodes, devices[id]) })
		if at < 0 {
			out = append(out, Devices{Resource: resource, Nodes: devices[id]})
			at = len(out) - 1
		}
		out[at].IDs = append(out[at].IDs, id)
	}
	return out
}

// Health tells how the devices of a container are, by resource: the name of its status.
func (m *Manager) Health(uid types.UID, container string) []corev1.ResourceStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []corev1.ResourceStatus
	resources := m.held[Holder{uid, container}]
	for _, resource := range slices.Sorted(maps.Keys(resources)) {
		s := corev1.ResourceStatus{Name: corev1.ResourceName(resource)}
		for _, id := range slices.Sorted(maps.Keys(resources[resource].devices)) {
			s.Resources = append(s.Resources, corev1.ResourceHealth{ResourceID: corev1.ResourceID(id), Health: m.health(resource, id)})
		}
		out = append(out, s)
	}
	return out
}

func (m *Manager) health(resource, id string) corev1.ResourceHealthStatus {
	p := m.plugins[resource]
	if p == nil || p.devices[id] == nil {
		return corev1.ResourceHealthStatusUnknown
	}
	if p.ok(id) {
		return corev1.ResourceHealthStatusHealthy
	}
	return corev1.ResourceHealthStatusUnhealthy
}
