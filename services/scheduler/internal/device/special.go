package device

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/services/scheduler/internal/table"
)

// A pod has one special claim at most, for all of its extended resources that are devices. The scheduler makes it with the placement, and takes it
// back where that comes to nothing; else it goes with the pod.

// SpecialName is the name of a pod's special claim. It follows from the pod, so that it is not made twice, whatever the caches show.
func SpecialName(pod *corev1.Pod) string {
	sum := sha256.Sum256([]byte(string(pod.UID) + "/extended resources"))
	return specialBase(pod) + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:object.SuffixLength]
}

func specialBase(pod *corev1.Pod) string {
	return object.NamePrefix(pod.Name + "-extended-resources-")
}

// specialOf is how the special claim of a pod is called if there is one, "" where there can be none.
func specialOf(pod *corev1.Pod) string {
	switch s := pod.Status.ExtendedResourceClaimStatus; {
	case s != nil:
		return s.ResourceClaimName
	case AsksForExtended(pod):
		return SpecialName(pod)
	}
	return ""
}

// draft is the special claim that an order makes. It has no UID before it is made.
func (o order) draft(pod *corev1.Pod) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: SpecialName(pod), GenerateName: specialBase(pod),
			Annotations:     map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
		},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: o.requests}},
	}
}

// of reports whether a claim is what the order makes.
func (o order) of(claim *resourcev1.ResourceClaim) bool {
	return equality.Semantic.DeepEqual(claim.Spec.Devices.Requests, o.requests)
}

// Draft reports whether a claim is not made yet.
func Draft(claim *resourcev1.ResourceClaim) bool { return claim.UID == "" }

// IsSpecial reports whether a claim is for the extended resources of a pod.
func IsSpecial(claim *resourcev1.ResourceClaim) bool {
	return claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true"
}

// Special returns the special claim that was made for a pod, nil where none was.
func (v View) Special(pod *corev1.Pod) *Claim {
	name := specialOf(pod)
	if name == "" {
		return nil
	}
	c := v.claims.Get(table.Key(pod.Namespace, name))
	if c == nil || !IsSpecial(c.ResourceClaim) || !metav1.IsControlledBy(c, pod) {
		return nil
	}
	return c
}

// Adopt returns an error where the claim that is there is not the one which a draft was to become: of the same pod, and with the same requests.
func Adopt(draft, there *resourcev1.ResourceClaim) error {
	k := table.Key(there.Namespace, there.Name)
	was, is := metav1.GetControllerOfNoCopy(draft), metav1.GetControllerOfNoCopy(there)
	switch {
	case !IsSpecial(there) || was == nil || is == nil || was.UID != is.UID:
		return fmt.Errorf("claim %s exists, and is not for the extended resources of the pod", k)
	case there.DeletionTimestamp != nil:
		return fmt.Errorf("claim %s is being deleted", k)
	case there.Status.Allocation != nil || !equality.Semantic.DeepEqual(draft.Spec.Devices.Requests, there.Spec.Devices.Requests):
		return fmt.Errorf("claim %s exists for other devices", k)
	}
	return nil
}
