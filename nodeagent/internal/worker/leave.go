package worker

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/pod"
)

// leaveTimeout is the most that a pod that is deleted runs on so that the load balancers can let go of it.
const leaveTimeout = time.Second

// Rotation knows what requests are sent to pods of this node.
type Rotation interface {
	// Has reports whether some service sends new requests to the pod.
	Has(pod *corev1.Pod) bool
	// Left waits until none does any more, on any node as far as is known; the error is ctx's.
	Left(ctx context.Context, pod *corev1.Pod) error
}

// leave lets a pod that is deleted leave its services before it hears of its end: programs stop taking connections when
// they get their signal, while new ones are still on the way. A pod of no service, or with no grace, ends at once.
// It waits once in a pod's life; the seconds that this took are the grace's.
func (w *worker) leave(ctx context.Context, p *corev1.Pod, observed *cri.Pod, t *pod.Termination) {
	if w.left || !t.Delete || !observed.AnyRunning() {
		return
	}
	w.left = true
	grace := time.Duration(w.grace(p, pod.Stop{Run: &cri.Container{}, Grace: t.Grace})) * time.Second
	if grace == 0 || !w.cfg.Rotation.Has(p) {
		return
	}
	began := w.cfg.Clock.Now()
	_, span := w.tracer.leaving()
	ctx, cancel := context.WithTimeout(ctx, min(leaveTimeout, grace/2))
	err := w.cfg.Rotation.Left(ctx, p)
	cancel()
	if err != nil { // then requests may fail; the trace tells
		span.RecordError(err)
	}
	span.End()
	w.waited = int64(w.cfg.Clock.Since(began).Round(time.Second) / time.Second)
}
