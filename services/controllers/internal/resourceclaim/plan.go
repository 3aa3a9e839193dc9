// Package resourceclaim makes the claims of devices that pods ask for by templates, and lets claims go that no pod uses any more.
package resourceclaim

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"howdah.dev/kit/object"
)

const (
	// podClaimAnnotation says for which claim of its pod a generated one is.
	podClaimAnnotation = "resource.kubernetes.io/pod-claim-name"
	// nameBase is how long the pod's and the claim's name may be together, with their dashes, to be kept whole in a generated one.
	nameBase = object.LongestPrefix - 1
)

// done says whether a pod needs its claims no more: it has ended, or it will never begin.
func done(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil && p.Spec.NodeName == ""
}

// generatedName follows from the pod and its claim, so that a claim is not made twice, whatever the caches show.
func generatedName(p *corev1.Pod, c *corev1.PodResourceClaim) string {
	sum := sha256.Sum256([]byte(string(p.UID) + "/" + c.Name))
	end := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:object.SuffixLength]
	return base(p, c) + end
}

// base is what the name of a generated claim begins with. Of names that are too long each keeps its share, so that something is left of the claim's.
func base(p *corev1.Pod, c *corev1.PodResourceClaim) string {
	text := p.Name + "-" + c.Name + "-"
	if len(text) <= nameBase {
		return text
	}
	share := func(name string) string { return strings.TrimRight(name[:len(name)*nameBase/len(text)], ".") } // a dash cannot follow a dot
	return share(p.Name) + "-" + share(c.Name)
}

// generate returns the claim that the template makes for a pod.
func generate(p *corev1.Pod, c *corev1.PodResourceClaim, template *resourcev1.ResourceClaimTemplate) *resourcev1.ResourceClaim {
	annotations := maps.Clone(template.Spec.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[podClaimAnnotation] = c.Name
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: generatedName(p, c), GenerateName: base(p, c), Labels: maps.Clone(template.Spec.Labels), Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}},
		},
		Spec: *template.Spec.Spec.DeepCopy(),
	}
}

// reserve returns the claim reserved for the pod, nil where it is, or is for nobody yet, and an error where it has no room.
func reserve(claim *resourcev1.ResourceClaim, p *corev1.Pod) (*resourcev1.ResourceClaim, error) {
	if claim.Status.Allocation == nil || resourceclaim.IsReservedForPod(p, claim, false) {
		return nil, nil
	}
	if claim.DeletionTimestamp != nil {
		return nil, nil
	}
	if len(claim.Status.ReservedFor) >= resourcev1.ResourceClaimReservedForMaxSize {
		return nil, errors.New("resource claim is already reserved for the maximum number of consumers")
	}
	claim = claim.DeepCopy()
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
	return claim, nil
}

// letGo returns the claim without the users that are none any more, and without its devices once it has none; nil where nothing changes.
// uses says whether an entry still holds.
func letGo(claim *resourcev1.ResourceClaim, uses func(resourcev1.ResourceClaimConsumerReference) bool) *resourcev1.ResourceClaim {
	valid := slices.DeleteFunc(slices.Clone(claim.Status.ReservedFor), func(r resourcev1.ResourceClaimConsumerReference) bool { return !uses(r) })
	lost := len(valid) < len(claim.Status.ReservedFor)
	free := len(valid) == 0 && claim.Status.Allocation != nil && protected(claim) && (lost || claim.DeletionTimestamp != nil)
	if !lost && !free {
		return nil
	}
	claim = claim.DeepCopy()
	claim.Status.ReservedFor = valid
	if len(valid) == 0 {
		claim.Status.ReservedFor = nil
	}
	if free {
		claim.Status.Allocation, claim.Status.Devices = nil, nil
	}
	return claim
}

// protected says whether a claim bears the finalizer that its allocation put there.
func protected(claim *resourcev1.ResourceClaim) bool {
	return slices.Contains(claim.Finalizers, resourcev1.Finalizer)
}

// released returns a claim without the finalizer, where nothing of it is left to protect; nil where it stays. It is for claims that have just been let
// go, or that are being deleted: on others the finalizer may be the first step of an allocation.
func released(claim *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	if !protected(claim) || claim.Status.Allocation != nil || len(claim.Status.ReservedFor) > 0 {
		return nil
	}
	claim = claim.DeepCopy()
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == resourcev1.Finalizer })
	return claim
}
