package dra

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// ref is a ResourceClaim that a pod uses.
type ref struct {
	name string
	// own says that it was made for the pod, from a template.
	own bool
}

// refs returns the claims of a pod. A template may have come to nothing; then there is none.
func refs(p *corev1.Pod) ([]ref, error) {
	var out []ref
	for i := range p.Spec.ResourceClaims {
		r, err := refOf(p, &p.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if r.name != "" {
			out = append(out, r)
		}
	}
	if extended := p.Status.ExtendedResourceClaimStatus; extended != nil {
		out = append(out, ref{name: extended.ResourceClaimName})
	}
	return out, nil
}

// refOf returns which claim one of a pod's names stands for; its name is empty where there is none.
func refOf(p *corev1.Pod, claim *corev1.PodResourceClaim) (ref, error) {
	name, own, err := resourceclaim.Name(p, claim)
	if err != nil || name == nil {
		return ref{}, err
	}
	return ref{name: *name, own: own}, nil
}

// use is what a container has of a claim: one request's devices, or all where request is empty.
type use struct{ claim, request string }

// uses returns what a container has.
func uses(p *corev1.Pod, c *corev1.Container) ([]use, error) {
	var out []use
	for i := range p.Spec.ResourceClaims {
		claim := &p.Spec.ResourceClaims[i]
		for _, own := range c.Resources.Claims {
			if own.Name != claim.Name {
				continue
			}
			r, err := refOf(p, claim)
			if err != nil {
				return nil, err
			}
			if r.name != "" {
				out = append(out, use{r.name, own.Request})
			}
		}
	}
	extended := p.Status.ExtendedResourceClaimStatus
	if extended == nil {
		return out, nil
	}
	for _, m := range extended.RequestMappings {
		if asked, ok := c.Resources.Requests[corev1.ResourceName(m.ResourceName)]; ok && !asked.IsZero() && m.ContainerName == c.Name {
			out = append(out, use{extended.ResourceClaimName, m.RequestName})
		}
	}
	return out, nil
}

// want is a claim that is to be prepared for a pod.
type want struct {
	key
	uid     types.UID
	drivers []string
}

// check returns what is to be prepared of a claim as the API has it, or why the pod may not have it.
func check(p *corev1.Pod, claim *resourcev1.ResourceClaim, own bool) (want, error) {
	if own {
		if err := resourceclaim.IsForPod(p, claim, false); err != nil {
			return want{}, err
		}
	}
	if !resourceclaim.IsReservedForPod(p, claim, false) {
		return want{}, fmt.Errorf("pod %s (%s) is not allowed to use ResourceClaim %s (%s)", p.Name, p.UID, claim.Name, claim.UID)
	}
	if claim.Status.Allocation == nil {
		return want{}, fmt.Errorf("ResourceClaim %s: %w", claim.Name, errNotAllocated)
	}
	drivers := map[string]bool{}
	for _, result := range claim.Status.Allocation.Devices.Results {
		drivers[result.Driver] = true
	}
	return want{key{claim.Namespace, claim.Name}, claim.UID, slices.Sorted(maps.Keys(drivers))}, nil
}

var errNotAllocated = errors.New("not allocated")

// serves reports whether a device is one of a request's. A driver may name the alternative of the request that was chosen, too (REQUEST/ALTERNATIVE).
func (d *Device) serves(request string) bool {
	if request == "" || len(d.Requests) == 0 {
		return true
	}
	return slices.ContainsFunc(d.Requests, func(name string) bool {
		base, _, _ := strings.Cut(name, "/")
		return name == request || base == request
	})
}
