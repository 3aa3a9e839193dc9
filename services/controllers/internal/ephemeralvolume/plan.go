// Package ephemeralvolume makes the claims of pods' generic ephemeral volumes. They belong to the pod, and the garbage collector takes them with it.
package ephemeralvolume

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
)

// Missing returns the claims that are to be made for a pod, and the first volume that cannot have its claim, since another object has the name.
// claim looks up the pod's namespace.
func Missing(pod *corev1.Pod, claim func(name string) *corev1.PersistentVolumeClaim) (claims []*corev1.PersistentVolumeClaim, blocked error) {
	if pod.DeletionTimestamp != nil {
		return nil, nil
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		if there := claim(ephemeral.VolumeClaimName(pod, v)); there != nil {
			if err := ephemeral.VolumeIsForPod(pod, there); err != nil && blocked == nil {
				blocked = fmt.Errorf("ephemeral volume %s: %w", v.Name, err)
			}
			continue
		}
		template := v.Ephemeral.VolumeClaimTemplate.DeepCopy()
		claims = append(claims, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: pod.Namespace, Name: ephemeral.VolumeClaimName(pod, v), Labels: template.Labels, Annotations: template.Annotations,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
			},
			Spec: template.Spec,
		})
	}
	return claims, blocked
}
