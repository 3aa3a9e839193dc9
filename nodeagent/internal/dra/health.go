package dra

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
)

const (
	// healthTimeout is how long what a driver has told of a device counts, where it does not say; so long the agent also waits for drivers after its start
	// before it takes their silence for news.
	healthTimeout = 30 * time.Second
	// healthRetry is the pause before a driver that does not tell any more is asked again.
	healthRetry = 5 * time.Second
)

// place is where a device is: what drivers tell of its health has no other name for it.
type place struct{ pool, name string }

// condition is what a driver has told of a device.
type condition struct {
	health  corev1.ResourceHealthStatus
	message string
	timeout time.Duration
	at      time.Time
}

// same reports whether nothing has changed but the time.
func (c condition) same(o condition) bool {
	return c.health == o.health && c.message == o.message && c.timeout == o.timeout
}

// healths are the conditions of devices, by driver.
type healths struct {
	mu       sync.Mutex
	byDriver map[string]map[place]condition
}

// set takes what a driver tells, and returns the devices of which it is news. One that it does not speak of stays as it was until its time is over.
func (h *healths) set(driver string, told map[place]condition) map[place]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byDriver[driver] == nil {
		h.byDriver[driver] = map[place]condition{}
	}
	news := map[place]bool{}
	for at, c := range told {
		if before, known := h.byDriver[driver][at]; !known || !before.same(c) {
			news[at] = true
		}
		h.byDriver[driver][at] = c
	}
	return news
}

// clear forgets what a driver has told, and returns the devices that it was about.
func (h *healths) clear(driver string) map[place]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	news := map[place]bool{}
	for at := range h.byDriver[driver] {
		news[at] = true
	}
	delete(h.byDriver, driver)
	return news
}

// of returns how a device is; told says whether its driver has told of any.
func (h *healths) of(driver string, at place, now time.Time) (c condition, told bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	devices, told := h.byDriver[driver]
	c, known := devices[at]
	if !known || now.Sub(c.at) > c.timeout {
		c = condition{health: corev1.ResourceHealthStatusUnknown}
	}
	return c, told
}

// watchHealth follows what a driver tells of its devices until it is let go, or does not know how to tell.
func (m *Manager) watchHealth(one *driver) {
	client := drahealth.NewDRAResourceHealthClient(one.conn)
	for one.ctx.Err() == nil {
		err := m.hear(one.ctx, client, one.name)
		m.tell(one.name, m.healths.clear(one.name))
		if status.Code(err) == codes.Unimplemented || one.ctx.Err() != nil {
			return
		}
		slog.Debug("a driver does not tell how its devices are any more", "driver", one.name, "err", err)
		timer := m.cfg.Clock.NewTimer(healthRetry)
		select {
		case <-one.ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
}

// hear takes what a driver tells until it ends.
func (m *Manager) hear(ctx context.Context, client drahealth.DRAResourceHealthClient, driver string) error {
	stream, err := client.NodeWatchResources(ctx, &drahealth.NodeWatchResourcesRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	for {
		told, err := stream.Recv()
		if err != nil {
			return err
		}
		all := map[place]condition{}
		for _, d := range told.GetDevices() {
			all[place{d.GetDevice().GetPoolName(), d.GetDevice().GetDeviceName()}] = conditionOf(d, m.cfg.Clock.Now())
		}
		m.tell(driver, m.healths.set(driver, all))
	}
}

func conditionOf(d *drahealth.DeviceHealth, now time.Time) condition {
	c := condition{health: corev1.ResourceHealthStatusUnknown, message: d.GetMessage(), timeout: healthTimeout, at: now}
	switch d.GetHealth() {
	case drahealth.HealthStatus_HEALTHY:
		c.health = corev1.ResourceHealthStatusHealthy
	case drahealth.HealthStatus_UNHEALTHY:
		c.health = corev1.ResourceHealthStatusUnhealthy
	}
	if seconds := d.GetHealthCheckTimeoutSeconds(); seconds > 0 {
		c.timeout = time.Duration(seconds) * time.Second
	}
	if most := corev1.ResourceHealthMessageMaxLength; len(c.message) > most {
		c.message = strings.ToValidUTF8(c.message[:most-3], "") + "..."
	}
	return c
}

// tell lets the pods look again that have devices of which there is news.
func (m *Manager) tell(driver string, news map[place]bool) {
	if len(news) == 0 || m.cfg.Changed == nil {
		return
	}
	pods := map[types.UID]bool{}
	for _, claim := range m.now() {
		if slices.ContainsFunc(claim.Drivers[driver], func(d Device) bool { return news[place{d.Pool, d.Name}] }) {
			for _, uid := range claim.Pods {
				pods[uid] = true
			}
		}
	}
	m.cfg.Changed(slices.Sorted(maps.Keys(pods)))
}

// Health tells how the devices are that a container claims, by the names under which it does. Where that is not known yet in this life of the agent, it says nothing.
func (m *Manager) Health(p *corev1.Pod, c *corev1.Container) []corev1.ResourceStatus {
	var out []corev1.ResourceStatus
	now, claims := m.cfg.Clock.Now(), m.now()
	for _, own := range c.Resources.Claims {
		claim := claims[key{p.Namespace, nameOf(p, own.Name)}]
		if claim == nil {
			continue
		}
		s := corev1.ResourceStatus{Name: corev1.ResourceName("claim:" + own.Name)}
		if own.Request != "" {
			s.Name += corev1.ResourceName("/" + own.Request)
		}
		seen := map[corev1.ResourceID]bool{}
		for _, driver := range slices.Sorted(maps.Keys(claim.Drivers)) {
			for _, d := range claim.Drivers[driver] {
				id := corev1.ResourceID(driver + "/" + d.Pool + "/" + d.Name)
				if len(d.CDI) > 0 {
					id = corev1.ResourceID(d.CDI[0])
				}
				if seen[id] || !d.serves(own.Request) {
					continue
				}
				seen[id] = true
				is, told := m.healths.of(driver, place{d.Pool, d.Name}, now)
				if !told && now.Sub(m.began) < healthTimeout {
					return nil
				}
				health := corev1.ResourceHealth{ResourceID: id, Health: is.health}
				if is.message != "" {
					health.Message = &is.message
				}
				s.Resources = append(s.Resources, health)
			}
		}
		if len(s.Resources) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// nameOf returns the ResourceClaim that one of a pod's names stands for, "" where there is none.
func nameOf(p *corev1.Pod, name string) string {
	for i := range p.Spec.ResourceClaims {
		if p.Spec.ResourceClaims[i].Name == name {
			r, _ := refOf(p, &p.Spec.ResourceClaims[i])
			return r.name
		}
	}
	return ""
}
