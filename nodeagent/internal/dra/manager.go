// Package dra prepares on the node what pods claim of devices (resource.k8s.io): drivers register, are asked to prepare the claims of pods before these start, and
// to take them back once the last pod of the node that used them has ended. What the runtime is to know of prepared devices are names of CDI.
package dra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
)

const (
	// lookEvery is how often claims of pods that are not here any more are looked for.
	lookEvery = time.Minute
	retryBase = time.Second
)

// Config of a Manager.
type Config struct {
	NodeName string
	Client   *object.Client
	// State is the file of what is prepared.
	State string
	// Here reports which pods are still on the node, be it that only the runtime knows of them.
	Here func(ctx context.Context) (func(types.UID) bool, error)
	// Changed, which may be nil, hears of pods that have devices of whose health there is news.
	Changed    func(pods []types.UID)
	Clock      clock.Clock
	Registerer prometheus.Registerer
}

// Manager knows what is prepared.
type Manager struct {
	// Drivers takes those that register.
	Drivers *Drivers
	// Slices keeps ResourceSlices of drivers that are not there away.
	Slices *Slices

	cfg     Config
	metrics *metrics
	locks   locks
	healths healths
	began   time.Time

	mu    sync.Mutex
	state state
}

// New returns a Manager that knows what an earlier life of the agent has prepared.
func New(cfg Config) (*Manager, error) {
	m := &Manager{cfg: cfg, locks: locks{taken: map[key]chan struct{}{}}, healths: healths{byDriver: map[string]map[place]condition{}}, began: cfg.Clock.Now()}
	var err error
	if m.state, err = readState(cfg.State); err != nil {
		return nil, err
	}
	m.metrics = newMetrics(cfg.Registerer, m.now)
	m.Drivers = newDrivers(cfg.Clock, m.metrics)
	m.Drivers.health = m.watchHealth
	m.Slices = &Slices{drivers: m.Drivers, node: cfg.NodeName, client: cfg.Client}
	return m, nil
}

// now is what is prepared; nobody changes it.
func (m *Manager) now() state {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// change writes and takes another state.
func (m *Manager) change(to func(state) (state, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next, err := to(m.state)
	if err != nil {
		return err
	}
	if err := next.save(m.cfg.State); err != nil {
		return fmt.Errorf("checkpoint ResourceClaim state: %w", err)
	}
	m.state = next
	return nil
}

// Prepare has the claims of a pod prepared that are not yet. It may be called again at any time.
func (m *Manager) Prepare(ctx context.Context, p *corev1.Pod) error {
	names, err := refs(p)
	if err == nil && len(names) == 0 {
		return nil
	}
	began := m.cfg.Clock.Now()
	if err == nil {
		err = m.prepare(ctx, p, names)
	}
	m.metrics.operated("PrepareResources", m.cfg.Clock.Since(began), err)
	if err != nil {
		return fmt.Errorf("prepare dynamic resources: %w", err)
	}
	return nil
}

func (m *Manager) prepare(ctx context.Context, p *corev1.Pod, names []ref) error {
	// Whatever can be known to fail is known before anything is noted of the pod, which then can go again without its drivers.
	var wants []want
	var keys []key
	serving := map[string]*driver{}
	for _, r := range names {
		claim, err := m.claim(ctx, p.Namespace, r.name)
		if err != nil {
			return fmt.Errorf("fetch ResourceClaim %s: %w", r.name, err)
		}
		w, err := check(p, claim, r.own)
		if err != nil {
			return err
		}
		for _, name := range w.drivers {
			if serving[name], err = m.Drivers.get(name); err != nil {
				return err
			}
		}
		wants, keys = append(wants, w), append(keys, w.key)
	}
	release, err := m.locks.take(ctx, keys)
	if err != nil {
		return err
	}
	defer release()

	var asked calls
	if err := m.change(func(s state) (next state, err error) {
		next, asked, err = planPrepare(s, p.UID, wants)
		return next, err
	}); err != nil || len(asked) == 0 {
		return err
	}
	answers := map[types.UID]map[string][]Device{}
	for _, name := range asked.drivers() {
		one := serving[name]
		if one == nil { // of an allocation before this one
			if one, err = m.Drivers.get(name); err != nil {
				return err
			}
		}
		if err := one.prepare(ctx, asked[name], answers); err != nil {
			return err
		}
	}
	return m.change(func(s state) (state, error) { return prepared(s, answers), nil })
}

func (m *Manager) claim(ctx context.Context, namespace, name string) (*resourcev1.ResourceClaim, error) {
	return object.For(m.cfg.Client, object.ResourceClaim).Get(obs.Untraced(ctx), namespace, name)
}

// prepare asks a driver for devices and adds its answers.
func (d *driver) prepare(ctx context.Context, claims []*drav1.Claim, answers map[types.UID]map[string][]Device) error {
	response, err := d.client.NodePrepareResources(ctx, &drav1.NodePrepareResourcesRequest{Claims: claims})
	if err != nil {
		return fmt.Errorf("NodePrepareResources: %w", err)
	}
	if err := answered("NodePrepareResources", claims, response.GetClaims()); err != nil {
		return err
	}
	for uid, answer := range response.GetClaims() {
		devices := []Device{}
		for _, device := range answer.GetDevices() {
			devices = append(devices, Device{
				Pool: device.GetPoolName(), Name: device.GetDeviceName(), ShareID: device.ShareId, Requests: device.GetRequestNames(), CDI: device.GetCdiDeviceIds(),
			})
		}
		if answers[types.UID(uid)] == nil {
			answers[types.UID(uid)] = map[string][]Device{}
		}
		answers[types.UID(uid)][d.name] = devices
	}
	return nil
}

// answered returns what is wrong with the answers about claims: a failure, one that nobody asked for, or too few of them.
func answered[T interface{ GetError() string }](method string, claims []*drav1.Claim, answers map[string]T) error {
	for _, uid := range slices.Sorted(maps.Keys(answers)) {
		i := slices.IndexFunc(claims, func(c *drav1.Claim) bool { return c.GetUid() == uid })
		if i < 0 {
			return fmt.Errorf("%s returned result for unknown claim UID %s", method, uid)
		}
		if failed := answers[uid].GetError(); failed != "" {
			return fmt.Errorf("%s failed for ResourceClaim %s: %s", method, claims[i].GetName(), failed)
		}
	}
	if skipped := len(claims) - len(answers); skipped != 0 {
		return fmt.Errorf("%s skipped %d ResourceClaims", method, skipped)
	}
	return nil
}

// Holds reports whether something is prepared for a pod, or might be.
func (m *Manager) Holds(pod types.UID) bool { return len(m.now().of(pod)) > 0 }

// Unprepare takes the claims of a pod back of which nothing runs any more, unless others use them, too. It may be called again at any time.
func (m *Manager) Unprepare(ctx context.Context, pod types.UID) error {
	if !m.Holds(pod) {
		return nil
	}
	began := m.cfg.Clock.Now()
	err := m.unprepare(ctx, pod)
	m.metrics.operated("UnprepareResources", m.cfg.Clock.Since(began), err)
	if err != nil {
		return fmt.Errorf("unprepare dynamic resources: %w", err)
	}
	return nil
}

func (m *Manager) unprepare(ctx context.Context, pod types.UID) error {
	var keys []key
	for _, c := range m.now().of(pod) {
		keys = append(keys, c.key())
	}
	release, err := m.locks.take(ctx, keys)
	if err != nil {
		return err
	}
	defer release()
	var asked calls
	if err := m.change(func(s state) (next state, err error) {
		next, asked = planUnprepare(s, pod)
		return next, nil
	}); err != nil {
		return err
	}
	// A driver that does not take its part back is no reason for the others not to.
	var problems []error
	failed := map[types.UID]bool{}
	for _, name := range asked.drivers() {
		if err := m.takeBack(ctx, name, asked[name]); err != nil {
			problems = append(problems, err)
			for _, c := range asked[name] {
				failed[types.UID(c.GetUid())] = true
			}
		}
	}
	problems = append(problems, m.change(func(s state) (state, error) { return unprepared(s, pod, failed), nil }))
	return errors.Join(problems...)
}

func (m *Manager) takeBack(ctx context.Context, name string, claims []*drav1.Claim) error {
	one, err := m.Drivers.get(name)
	if err != nil {
		return err
	}
	response, err := one.client.NodeUnprepareResources(ctx, &drav1.NodeUnprepareResourcesRequest{Claims: claims})
	if err != nil {
		return fmt.Errorf("NodeUnprepareResources: %w", err)
	}
	return answered("NodeUnprepareResources", claims, response.GetClaims())
}

// Run takes back the claims of pods that went without the agent: while it was away, or by force. It returns when ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	pause := retryBase
	for {
		wait := lookEvery
		if err := m.sweep(ctx); err == nil {
			pause = retryBase
		} else {
			if ctx.Err() == nil {
				slog.Warn("take back the claims of pods that are gone", "err", err)
			}
			wait, pause = pause, min(2*pause, lookEvery) // a driver may still have to come
		}
		timer := m.cfg.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (m *Manager) sweep(ctx context.Context) error {
	pods := m.now().pods()
	if len(pods) == 0 {
		return nil
	}
	here, err := m.cfg.Here(ctx)
	if err != nil {
		return err
	}
	var problems []error
	for _, uid := range pods {
		if !here(uid) {
			problems = append(problems, m.Unprepare(ctx, uid))
		}
	}
	return errors.Join(problems...)
}
