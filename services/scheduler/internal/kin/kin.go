// Package kin knows which pods belong together because a Service or a controller selects them: whom a pod without constraints of its own is spread with.
// Source: Kubernetes, Concepts > Scheduling > Pod Topology Spread Constraints, Cluster-level default constraints.
package kin

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/scheduler/internal/table"
)

// View is who selects pods. The zero View is nobody.
type View struct {
	services    table.Table[labels.Set]      // by namespace and name, those that select
	controllers table.Table[labels.Selector] // by UID
}

// SetService adds or replaces a Service.
func (v *View) SetService(s *corev1.Service) {
	if len(s.Spec.Selector) == 0 { // it selects nothing
		v.DeleteService(s)
		return
	}
	v.services.Set(table.Part(s.Namespace, s.Name), s.Spec.Selector)
}

// DeleteService forgets a Service.
func (v *View) DeleteService(s *corev1.Service) { v.services.Delete(table.Part(s.Namespace, s.Name)) }

// SetController adds or replaces a ReplicationController, ReplicaSet or StatefulSet by its selector. One that is none selects nothing.
func (v *View) SetController(uid types.UID, selector *metav1.LabelSelector) {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		parsed = labels.Nothing()
	}
	v.controllers.Set(string(uid), parsed)
}

// DeleteController forgets a controller.
func (v *View) DeleteController(uid types.UID) { v.controllers.Delete(string(uid)) }

// Clone returns a view that later changes of this one do not reach.
func (v *View) Clone() View { return View{v.services.Clone(), v.controllers.Clone()} }

// Service is the selector of the first Service, by its name, that selects a pod; nil where none does.
func (v View) Service(pod *corev1.Pod) labels.Selector {
	for s := range v.services.Under(pod.Namespace) {
		if selector := labels.SelectorFromSet(s); selector.Matches(labels.Set(pod.Labels)) {
			return selector
		}
	}
	return nil
}

// Selector selects those that belong to a pod in its namespace: what all Services that select it ask for, and its controller. nil where nobody does.
func (v View) Selector(pod *corev1.Pod) labels.Selector {
	own, all := labels.Set(pod.Labels), labels.Set{}
	for s := range v.services.Under(pod.Namespace) {
		if labels.SelectorFromSet(s).Matches(own) {
			all = labels.Merge(all, s)
		}
	}
	selector := labels.SelectorFromSet(all)
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		if c := v.controllers.Get(string(owner.UID)); c != nil {
			if requirements, selectable := c.Requirements(); selectable {
				selector = selector.Add(requirements...)
			}
		}
	}
	if selector.Empty() {
		return nil
	}
	return selector
}
