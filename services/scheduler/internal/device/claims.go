package device

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"howdah.dev/services/scheduler/internal/table"
)

// UsesClaims reports whether a pod claims devices.
func UsesClaims(pod *corev1.Pod) bool { return len(pod.Spec.ResourceClaims) > 0 }

// Names returns the names of the claims of a pod that are known, in its namespace, and that which its special claim has if it has one.
func Names(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			names = append(names, *name)
		}
	}
	if special := specialOf(pod); special != "" {
		names = append(names, special)
	}
	return names
}

// claimsOf returns the claims of a pod. The error says why it has to wait for one of them. A template may make no claim; the pod then needs none.
func (v View) claimsOf(pod *corev1.Pod) ([]*Claim, error) {
	claims := make([]*Claim, 0, len(pod.Spec.ResourceClaims))
	for i := range pod.Spec.ResourceClaims {
		name, own, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name == nil {
			continue
		}
		claim := v.Claim(pod.Namespace, *name)
		switch {
		case claim == nil:
			return nil, fmt.Errorf("could not find ResourceClaim %q", table.Key(pod.Namespace, *name))
		case claim.DeletionTimestamp != nil:
			return nil, fmt.Errorf("resourceclaim %q is being deleted", claim.Name)
		}
		if own {
			if err := resourceclaim.IsForPod(pod, claim.ResourceClaim, false); err != nil {
				return nil, err
			}
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// Missing says for which of its claims a pod has to wait before it is tried at all; "" where they are there.
func (v View) Missing(pod *corev1.Pod) string {
	if _, err := v.claimsOf(pod); err != nil {
		return err.Error()
	}
	return ""
}

// all returns the claims of a pod with the special one, where that is made already.
func (v View) all(pod *corev1.Pod) ([]*Claim, error) {
	claims, err := v.claimsOf(pod)
	if err != nil {
		return nil, err
	}
	if special := v.Special(pod); special != nil {
		if special.DeletionTimestamp != nil {
			return nil, fmt.Errorf("resourceclaim %q is being deleted", special.Name)
		}
		claims = append(claims, special)
	}
	return claims, nil
}

// Refusal says why a pod can go to no node at all, for the sake of its claims; "" where that depends on the node.
func (v View) Refusal(pod *corev1.Pod) string {
	claims, err := v.all(pod)
	if err != nil {
		return err.Error()
	}
	for _, c := range claims {
		switch {
		case c.Pending:
			return fmt.Sprintf("resource claim %s is in the process of being allocated", table.Key(c.Namespace, c.Name))
		case c.Status.Allocation == nil:
			if why := v.unknown(c.ResourceClaim); why != "" {
				return why
			}
		case c.reachErr != nil:
			return c.reachErr.Error()
		case len(c.Status.ReservedFor) >= resourcev1.ResourceClaimReservedForMaxSize && !ReservedFor(c.ResourceClaim, pod.UID):
			return "resourceclaim in use"
		}
	}
	return ""
}

// unknown says what a claim asks for that is not there, or that nobody here knows how to give; "" for nothing.
func (v View) unknown(c *resourcev1.ResourceClaim) string {
	for _, r := range c.Spec.Devices.Requests {
		why := ""
		switch {
		case r.Exactly != nil:
			why = v.unknownClass(r.Name, r.Exactly.DeviceClassName)
		case len(r.FirstAvailable) > 0:
			for _, sub := range r.FirstAvailable {
				why = cmp.Or(why, v.unknownClass(r.Name+"/"+sub.Name, sub.DeviceClassName))
			}
		default:
			why = fmt.Sprintf("resource claim %s, request %s: unknown request type", table.Key(c.Namespace, c.Name), r.Name)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

func (v View) unknownClass(request, class string) string {
	switch {
	case class == "":
		return fmt.Sprintf("request %s: unsupported request type", request)
	case v.Class(class) == nil:
		return fmt.Sprintf("request %s: device class %s does not exist", request, class)
	}
	return ""
}
