package backend

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// Follow makes the queue reconcile the services that select, or selected, a
// pod whenever it changes in a way that their endpoints show.
func Follow(env *controller.Env, pods *object.Informer[*corev1.Pod], services *object.Informer[*corev1.Service], queue *reconcile.Controller) {
	controller.Handle(env, pods, func(old, new *corev1.Pod) {
		if old != nil && new != nil && !Changed(old, new) {
			return
		}
		p := new
		if p == nil {
			p = old
		}
		// A pod that has no address yet is behind no service.
		if old == nil && !Reachable(new) {
			return
		}
		relabelled := old != nil && new != nil && !labels.Equals(old.Labels, new.Labels)
		for _, s := range services.List(p.Namespace) {
			if Managed(s) && (Selects(s, p.Labels) || relabelled && Selects(s, old.Labels)) {
				queue.Enqueue(object.KeyOf(s), pods.Trace(p))
			}
		}
	})
}
