package podcontrol

import (
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
)

// Queue takes the keys of owners, with the trace of what asks for them.
type Queue interface {
	Enqueue(key string, by trace.SpanContext)
}

// Follow enqueues the owner of every pod that changes, and the former owner of one that has left it. A pod without an owner enqueues the
// keys that mayAdopt returns for it; mayAdopt is not asked about pods without labels or on their way out.
func (c *Control) Follow(env *controller.Env, queue Queue, mayAdopt func(orphan *corev1.Pod) (keys []string)) {
	controller.Handle(env, c.pods, func(old, new *corev1.Pod) {
		p := new
		if p == nil {
			p = old
		}
		ref := metav1.GetControllerOfNoCopy(p)
		if old != nil && new != nil {
			if old.ResourceVersion == new.ResourceVersion {
				return
			}
			if was := metav1.GetControllerOfNoCopy(old); was != nil && (ref == nil || was.UID != ref.UID) {
				c.expect.observed(was.UID, old, true)
				c.enqueueOwner(queue, old.Namespace, was, c.pods.Trace(new))
			}
		}
		if ref != nil {
			c.expect.observed(ref.UID, p, new == nil)
			c.enqueueOwner(queue, p.Namespace, ref, c.pods.Trace(p))
			return
		}
		if new == nil || new.DeletionTimestamp != nil || len(new.Labels) == 0 {
			return
		}
		for _, key := range mayAdopt(new) {
			queue.Enqueue(key, c.pods.Trace(p))
		}
	})
}

func (c *Control) enqueueOwner(queue Queue, namespace string, ref *metav1.OwnerReference, by trace.SpanContext) {
	if ref.Kind == c.kind.Kind && ref.APIVersion == c.kind.GroupVersion().String() {
		queue.Enqueue(object.Key(namespace, ref.Name), by)
	}
}
