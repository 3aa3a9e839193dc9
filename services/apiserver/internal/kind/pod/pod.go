// Package pod is the kind Pod.
package pod

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

// Kind returns the kind; now is the clock for ages.
func Kind(now func() time.Time) *registry.Kind {
	made, right := newSharer(), newProven()
	return &registry.Kind{
		GVK:      corev1.SchemeGroupVersion.WithKind("Pod"),
		Resource: "pods", Singular: "pod", ShortNames: []string{"po"}, Categories: []string{"all"},
		Namespaced: true, ReturnDeleted: true,
		New:     func() registry.Object { return &corev1.Pod{} },
		NewList: func() runtime.Object { return &corev1.PodList{} },

		Default:       typed.Do(func(p *corev1.Pod) { podspec.DefaultPod(&p.Spec); defaultStatus(&p.Status) }),
		Share:         typed.Share(made.share),
		Recall:        typed.Recall(made.recall),
		Foretell:      typed.Get(func(p *corev1.Pod) []string { return podspec.AppArmorNotes(&p.ObjectMeta, &p.Spec) }),
		PrepareCreate: typed.Do(func(p *corev1.Pod) { prepareCreate(p, now()) }),
		PrepareUpdate: typed.Change(prepareUpdate),
		Validate:      typed.Check(right.validate),
		Ratchet: typed.CheckChange(func(p, old *corev1.Pod) field.ErrorList {
			return podspec.Tolerated(right.validate(p), &old.Spec, &old.ObjectMeta)
		}),
		ValidateCreate: typed.Check(func(p *corev1.Pod) field.ErrorList {
			return podspec.ValidatePodCreate(&p.Spec, &p.ObjectMeta, field.NewPath("spec"))
		}),
		ValidateUpdate: typed.CheckChange(validateUpdate),
		Warnings: typed.Warn(func(p, old *corev1.Pod) []string {
			// What a pod is warned about cannot change later.
			if old != nil {
				return nil
			}
			return append(podspec.NameWarnings(p.Name, "the Pod's hostname"), podspec.Warnings(&p.Spec, &p.ObjectMeta, field.NewPath("spec"), field.NewPath("metadata", "annotations"))...)
		}),

		Status: &registry.Status{
			Carry:          func(obj, whole registry.Object) { whole.(*corev1.Pod).Spec.DeepCopyInto(&obj.(*corev1.Pod).Spec) },
			Untracked:      []string{"metadata.deletionTimestamp", "metadata.ownerReferences"},
			PrepareUpdate:  typed.Change(prepareStatus),
			ValidateUpdate: typed.CheckChange(validateStatusUpdate),
		},
		Writes: map[string]*registry.Status{
			"ephemeralcontainers": {
				Untabled:       true,
				PrepareUpdate:  typed.Change(prepareEphemeral),
				ValidateUpdate: typed.CheckChange(validateEphemeralUpdate),
			},
			"resize": {
				Untabled:       true,
				PrepareUpdate:  typed.Change(prepareResize),
				ValidateUpdate: typed.CheckChange(validateResize),
			},
		},
		Actions: map[string]*registry.Action{"binding": {
			GVK:   corev1.SchemeGroupVersion.WithKind("Binding"),
			New:   func() registry.Object { return &corev1.Binding{} },
			Apply: func(obj, body registry.Object) error { return bind(obj.(*corev1.Pod), body.(*corev1.Binding), now()) },
		}},

		SelectableFields: typed.Get(selectable),
		StoredAt:         storedAt,
		Indexed:          []string{"spec.nodeName"}, // each kubelet lists its own
		Columns:          columns,
		Cells:            typed.Get(func(p *corev1.Pod) []any { return cells(p, now()) }),
		RowConditions:    typed.Get(finished),
		GracePeriod:      gracePeriod,
	}
}

func prepareCreate(p *corev1.Pod, now time.Time) {
	p.Generation = 1
	podspec.MergeLabelKeys(&p.Spec, p.Labels)
	podspec.AppArmorFields(&p.ObjectMeta, &p.Spec)
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: podspec.QOSClass(p)} // a class that was said stays, as in Kubernetes
	if len(p.Spec.SchedulingGates) > 0 {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message:            "Scheduling is blocked due to non-empty scheduling gates",
			LastTransitionTime: metav1.NewTime(now),
		}}
	}
}

func prepareUpdate(p, old *corev1.Pod) {
	p.Status = old.Status
	bumpGeneration(p, old)
}

// bumpGeneration counts changes of the spec.
func bumpGeneration(p, old *corev1.Pod) {
	p.Generation = old.Generation
	if !equality.Semantic.DeepEqual(p.Spec, old.Spec) {
		p.Generation++
	}
}

func prepareStatus(p, old *corev1.Pod) {
	p.Spec, p.Generation, p.OwnerReferences = old.Spec, old.Generation, old.OwnerReferences
	// A deletion is decided by the DELETE request alone.
	p.DeletionTimestamp = nil
	if old.DeletionTimestamp != nil {
		p.DeletionTimestamp = old.DeletionTimestamp.DeepCopy()
	}
	if p.Status.QOSClass == "" {
		p.Status.QOSClass = old.Status.QOSClass
	}
	keepObserved(&p.Status, &old.Status)
	dropStatus(&p.Status)
}

// keepObserved restores the generations that a writer who knows nothing of them leaves out.
func keepObserved(s, old *corev1.PodStatus) {
	if s.ObservedGeneration == 0 {
		s.ObservedGeneration = old.ObservedGeneration
	}
	for _, was := range old.Conditions {
		first := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == was.Type })
		if first >= 0 && s.Conditions[first].ObservedGeneration == 0 {
			s.Conditions[first].ObservedGeneration = was.ObservedGeneration
		}
	}
}

// defaultStatus makes one of what a status says in two ways, and gives quantities the precision that those of the spec have.
func defaultStatus(s *corev1.PodStatus) {
	agree(s)
	roundUp(s.AllocatedResources, s.Resources)
	for _, list := range statusLists(s) {
		for i := range list.statuses {
			roundUp(list.statuses[i].AllocatedResources, list.statuses[i].Resources)
		}
	}
}

// roundUp does so with the resources that a pod or container was given, and with those that it is said to have, if any.
func roundUp(allocated corev1.ResourceList, actual *corev1.ResourceRequirements) {
	podspec.RoundUp(allocated)
	if actual != nil {
		podspec.RoundUp(actual.Limits)
		podspec.RoundUp(actual.Requests)
	}
}

// agree makes the two spellings of the pod's addresses the same: the older one holds where they differ.
func agree(s *corev1.PodStatus) {
	switch {
	case s.PodIP == "" && len(s.PodIPs) > 0:
		s.PodIP = s.PodIPs[0].IP
	case s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	}
}

// dropStatus forgets what belongs to features that Kubernetes 1.36 has off by default: ImageVolumeWithDigest and DRANodeAllocatableResources.
func dropStatus(s *corev1.PodStatus) {
	s.NodeAllocatableResourceClaimStatuses = nil
	for _, list := range statusLists(s) {
		for i := range list.statuses {
			for j := range list.statuses[i].VolumeMounts {
				list.statuses[i].VolumeMounts[j].VolumeStatus = nil
			}
		}
	}
}

// storedAt is where the fields lie that clients select by: numbers of k8s.io/api/core/v1/generated.proto.
var storedAt = map[string][]int{
	"spec.restartPolicy": {2, 3}, "spec.serviceAccountName": {2, 8}, "spec.nodeName": {2, 10}, "spec.schedulerName": {2, 19},
	"status.phase": {3, 1}, "status.nominatedNodeName": {3, 11},
}

func selectable(p *corev1.Pod) fields.Set {
	ip := p.Status.PodIP
	if len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	return fields.Set{
		"spec.nodeName":            p.Spec.NodeName,
		"spec.restartPolicy":       string(p.Spec.RestartPolicy),
		"spec.schedulerName":       p.Spec.SchedulerName,
		"spec.serviceAccountName":  p.Spec.ServiceAccountName,
		"spec.hostNetwork":         strconv.FormatBool(p.Spec.HostNetwork),
		"status.phase":             string(p.Status.Phase),
		"status.podIP":             ip,
		"status.podIPs":            "", // it may be asked for, as in Kubernetes, and is nobody's
		"status.nominatedNodeName": p.Status.NominatedNodeName,
	}
}
