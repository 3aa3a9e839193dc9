package backend

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/controllers/internal/pod"
)

// Triggers say which change of the pods, or the service, endpoints are written for; measuring tools compare its time with the one at which a load
// balancer followed. The zero value knows no service.
type Triggers struct {
	mu    sync.Mutex
	known map[types.UID]map[string]time.Time // by service, when its pods became ready or not, by name
}

// Last returns when the oldest of the changes happened that have come since it was asked last about the service: a pod's readiness, or the service's
// creation. The zero time says that none of them tells when it happened, as where a pod has gone.
func (t *Triggers) Last(s *corev1.Service, pods []*corev1.Pod) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, known := t.known[s.UID]
	now := make(map[string]time.Time, len(pods))
	var oldest time.Time
	for _, p := range pods {
		c := pod.Condition(p, corev1.PodReady)
		if c == nil || c.LastTransitionTime.IsZero() {
			continue
		}
		at := c.LastTransitionTime.Time
		if now[p.Name] = at; at.After(before[p.Name]) && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
	}
	if t.known == nil {
		t.known = map[types.UID]map[string]time.Time{}
	}
	t.known[s.UID] = now
	if !known {
		return s.CreationTimestamp.Time
	}
	return oldest
}

// Forget drops what is known of a service that is gone.
func (t *Triggers) Forget(service types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, service)
}

// Annotate notes in annotations what endpoints are written for, nothing where that is not known.
func Annotate(annotations map[string]string, trigger time.Time) {
	if trigger.IsZero() {
		delete(annotations, corev1.EndpointsLastChangeTriggerTime)
		return
	}
	annotations[corev1.EndpointsLastChangeTriggerTime] = trigger.UTC().Format(time.RFC3339Nano)
}
