package statefulset

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/services/controllers/internal/owner"
	"howdah.dev/services/controllers/internal/podcontrol"
)

// kind is what a pod's controller reference says.
var kind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

// podName is the name of the set's pod of an ordinal.
func podName(set *appsv1.StatefulSet, ordinal int) string {
	return set.Name + "-" + strconv.Itoa(ordinal)
}

// ordinalOf is the ordinal that a pod's name gives it in the set; ok is false where the name is not of the set.
func ordinalOf(set *appsv1.StatefulSet, name string) (ordinal int, ok bool) {
	digits, ok := strings.CutPrefix(name, set.Name+"-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	// One spelling an ordinal: web-01 is nobody's, or two pods could be the second.
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != digits {
		return 0, false
	}
	return int(n), true
}

// start is the first ordinal.
func start(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

func replicas(set *appsv1.StatefulSet) int {
	if set.Spec.Replicas == nil {
		return 1
	}
	return int(*set.Spec.Replicas)
}

// wanted says whether the set should have a pod of the ordinal.
func wanted(set *appsv1.StatefulSet, ordinal int) bool {
	return ordinal >= start(set) && ordinal < start(set)+replicas(set)
}

// Members sorts pods by what the set must do with them. It takes only pods that have a name of its own, and lets go of others.
func Members(set *appsv1.StatefulSet, selector labels.Selector, pods []*corev1.Pod) owner.Claims[*corev1.Pod] {
	var named, misnamed []*corev1.Pod
	for _, p := range pods {
		if _, ok := ordinalOf(set, p.Name); ok {
			named = append(named, p)
		} else if metav1.IsControlledBy(p, set) && set.DeletionTimestamp == nil {
			misnamed = append(misnamed, p)
		}
	}
	claims := owner.Claim(set, selector, named)
	claims.Release = append(claims.Release, misnamed...)
	return claims
}

// newPod returns the pod of an ordinal at a revision. It shares the template's parts.
func newPod(set *appsv1.StatefulSet, r Revision, ordinal int) *corev1.Pod {
	t := r.Template
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: podName(set, ordinal), GenerateName: podcontrol.GenerateName(set.Name),
			Labels: map[string]string{}, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, kind)},
		},
		Spec: t.Spec,
	}
	maps.Copy(p.Labels, t.Labels)
	maps.Copy(p.Labels, identity(p.Name, ordinal))
	p.Labels[appsv1.StatefulSetRevisionLabel] = r.Name
	p.Spec.Hostname, p.Spec.Subdomain = p.Name, set.Spec.ServiceName
	p.Spec.Volumes = volumes(set, t.Spec.Volumes, ordinal)
	return p
}

// identity are the labels that say which pod of its set a pod is.
func identity(name string, ordinal int) map[string]string {
	return map[string]string{appsv1.StatefulSetPodNameLabel: name, appsv1.PodIndexLabel: strconv.Itoa(ordinal)}
}

// volumes are those of the claims, and then those that a pod has but for namesakes.
func volumes(set *appsv1.StatefulSet, had []corev1.Volume, ordinal int) []corev1.Volume {
	var all []corev1.Volume
	for _, t := range set.Spec.VolumeClaimTemplates {
		if !slices.ContainsFunc(all, func(v corev1.Volume) bool { return v.Name == t.Name }) {
			all = append(all, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(set, t.Name, ordinal)},
			}})
		}
	}
	claims := all
	for _, v := range had {
		if !slices.ContainsFunc(claims, func(c corev1.Volume) bool { return c.Name == v.Name }) {
			all = append(all, v)
		}
	}
	return all
}

// identified says whether the pod bears the name label that it should. Kubernetes looks at no other: its older releases set no index.
func identified(p *corev1.Pod) bool { return p.Labels[appsv1.StatefulSetPodNameLabel] == p.Name }

// stored says whether the pod has the volumes of its claims.
func stored(set *appsv1.StatefulSet, p *corev1.Pod, ordinal int) bool {
	for _, t := range set.Spec.VolumeClaimTemplates {
		i := slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == t.Name })
		if i < 0 {
			return false
		}
		source := p.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil || source.ClaimName != claimName(set, t.Name, ordinal) {
			return false
		}
	}
	return true
}

// repairPatch returns the merge patch that gives the pod its identity and its volumes again. It holds only for the pod as it was seen.
func repairPatch(set *appsv1.StatefulSet, p *corev1.Pod, ordinal int) ([]byte, error) {
	patch := map[string]any{"metadata": map[string]any{
		"uid": p.UID, "resourceVersion": p.ResourceVersion, "labels": identity(p.Name, ordinal),
	}}
	if !stored(set, p, ordinal) {
		patch["spec"] = map[string]any{"volumes": volumes(set, p.Spec.Volumes, ordinal)}
	}
	encoded, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode identity of pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return encoded, nil
}
