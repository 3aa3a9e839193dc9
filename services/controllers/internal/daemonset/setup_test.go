package daemonset

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// current and former are hashes of templates.
const current, former = "current", "former"

func newSet(change ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	labels := map[string]string{"app": "agent"}
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "agent", UID: "set", Generation: 3,
			Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "2"},
		},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "agent:1"}}},
			},
			RevisionHistoryLimit: ptr.To[int32](10),
		},
	}
	rolling("1", "0")(ds)
	for _, c := range change {
		c(ds)
	}
	return ds
}

// rolling sets the bounds of a roll-out.
func rolling(unavailable, surge string) func(*appsv1.DaemonSet) {
	return func(ds *appsv1.DaemonSet) {
		ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
			Type: appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{
				MaxUnavailable: ptr.To(intstr.Parse(unavailable)), MaxSurge: ptr.To(intstr.Parse(surge)),
			},
		}
	}
}

func onDelete(ds *appsv1.DaemonSet) {
	ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
}

func newNode(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{"name": name}}, Spec: corev1.NodeSpec{Taints: taints}}
}

func taint(key string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Effect: effect}
}

func nodes(n int) []*corev1.Node {
	var all []*corev1.Node
	for i := range n {
		all = append(all, newNode(fmt.Sprintf("n%d", i)))
	}
	return all
}

// newPod is a bound, ready pod of the current template, an hour old.
func newPod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)),
			Labels:          map[string]string{"app": "agent", hashLabel: current},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "agent", UID: "set"}, kind)},
		},
		Spec: corev1.PodSpec{NodeName: node, Affinity: onNode(nil, node), Containers: []corev1.Container{{Name: "agent", Image: "agent:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour)),
		}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func old(p *corev1.Pod)       { p.Labels[hashLabel] = former }
func unready(p *corev1.Pod)   { p.Status.Conditions = nil }
func unbound(p *corev1.Pod)   { p.Spec.NodeName = ""; unready(p); p.Status.Phase = corev1.PodPending }
func failed(p *corev1.Pod)    { p.Status.Phase = corev1.PodFailed; unready(p) }
func succeeded(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded; unready(p) }
func going(p *corev1.Pod)     { p.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }

func aged(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(-d)) }
}

func readyFor(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-d)) }
}
