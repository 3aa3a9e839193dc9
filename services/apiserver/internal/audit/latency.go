package audit

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// slow is from when on an event tells where the time of its request went.
	slow = 500 * time.Millisecond
	// latencyKey begins the annotations that tell it, as Kubernetes names them.
	latencyKey = "apiserver.latency.k8s.io/"
)

// Layers are the parts of a request whose time is told.
const (
	Authorization     = "authorization"
	MutatingWebhook   = "mutating-webhook"
	ValidatingWebhook = "validating-webhook"
)

// Timing begins to measure what a layer takes of the request; the function that it returns ends it.
func (e *Entry) Timing(layer string) (end func()) {
	if e == nil {
		return func() {}
	}
	start := e.log.clock.Now()
	return func() {
		took := e.log.clock.Since(start)
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.layers == nil {
			e.layers = map[string]time.Duration{}
		}
		e.layers[layer] += took
	}
}

// latency returns the annotations of a request that took long; none of a stream, which may.
func (e *Entry) latency(now metav1.MicroTime) map[string]string {
	total := now.Sub(e.event.RequestReceivedTimestamp.Time)
	if e.long || total <= slow {
		return nil
	}
	told := map[string]string{latencyKey + "total": total.String()}
	for layer, took := range e.layers {
		told[latencyKey+layer] = took.String()
	}
	return told
}
