package resourceclaim

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"howdah.dev/kit/object"
)

// pod makes the claims that a pod asks for by templates, notes their names in its status, and reserves its claims for a pod that no scheduler placed.
func (c *resourceClaims) pod(ctx context.Context, key string) (time.Duration, error) {
	p, ok := c.pods.GetKey(key)
	if !ok || p.DeletionTimestamp != nil || done(p) {
		return 0, nil
	}
	var made []corev1.PodResourceClaimStatus
	for i := range p.Spec.ResourceClaims {
		asked := &p.Spec.ResourceClaims[i]
		if asked.ResourceClaimTemplateName == nil {
			continue
		}
		name, err := c.ensure(ctx, p, asked)
		if err != nil {
			c.events.Eventf(p, corev1.EventTypeWarning, "FailedResourceClaimCreation", "PodResourceClaim %s: %v", asked.Name, err)
			return 0, fmt.Errorf("pod claim %s: %w", asked.Name, err)
		}
		if name != "" {
			made = append(made, corev1.PodResourceClaimStatus{Name: asked.Name, ResourceClaimName: &name})
		}
	}
	if len(made) > 0 {
		return 0, c.note(ctx, p, made)
	}
	if p.Spec.NodeName == "" {
		return 0, nil // whoever places it reserves its claims, too
	}
	return 0, c.reserve(ctx, p)
}

// ensure returns the name of the claim that is to be noted in the pod's status, "" where it is there.
func (c *resourceClaims) ensure(ctx context.Context, p *corev1.Pod, asked *corev1.PodResourceClaim) (string, error) {
	name, _, err := resourceclaim.Name(p, asked)
	known := err == nil
	if known && name == nil {
		return "", nil // decided: none is needed
	}
	if known {
		if claim, ok := c.claims.Get(p.Namespace, *name); ok {
			return "", isFor(p, claim)
		}
	}
	template, ok := c.templates.Get(p.Namespace, *asked.ResourceClaimTemplateName)
	if !ok {
		return "", fmt.Errorf("resource claim template %q: %w", *asked.ResourceClaimTemplateName,
			apierrors.NewNotFound(resourcev1.Resource("resourceclaimtemplate"), *asked.ResourceClaimTemplateName))
	}
	claim := generate(p, asked, template)
	claims := object.For(c.client, claimKind)
	_, err = claims.Create(ctx, claim)
	made := err == nil
	if apierrors.IsAlreadyExists(err) { // the cache was behind, or it is somebody else's
		var there *resourcev1.ResourceClaim
		if there, err = claims.Get(ctx, claim.Namespace, claim.Name); err == nil {
			err = isFor(p, there)
		}
	}
	if made || err != nil {
		c.metrics.created(claim, err)
	}
	if err != nil {
		return "", fmt.Errorf("create ResourceClaim %s: %w", claim.Name, err)
	}
	if known && *name == claim.Name {
		return "", nil
	}
	return claim.Name, nil
}

// note writes the names of claims into the status of the pod; it holds for this very pod.
func (c *resourceClaims) note(ctx context.Context, p *corev1.Pod, made []corev1.PodResourceClaimStatus) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID}, "status": map[string]any{"resourceClaimStatuses": made},
	})
	if err != nil {
		return err
	}
	if _, err := object.For(c.client, object.Pod).Patch(ctx, p.Namespace, p.Name, types.StrategicMergePatchType, patch, "status"); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("note claims of pod: %w", err)
	}
	return nil
}

// isFor returns an error where a claim is not the pod's own.
func isFor(p *corev1.Pod, claim *resourcev1.ResourceClaim) error {
	return resourceclaim.IsForPod(p, claim, false)
}

// reserve is for pods that came with a node: no scheduler has reserved their claims.
func (c *resourceClaims) reserve(ctx context.Context, p *corev1.Pod) error {
	for i := range p.Spec.ResourceClaims {
		name, own, err := resourceclaim.Name(p, &p.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		claim, ok := c.claims.Get(p.Namespace, *name)
		if !ok || own && isFor(p, claim) != nil {
			continue
		}
		want, err := reserve(claim, p)
		if err != nil {
			return fmt.Errorf("reserve claim %s: %w", *name, err)
		}
		if want == nil {
			continue
		}
		if _, err := object.For(c.client, claimKind).UpdateStatus(ctx, want); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("reserve claim %s: %w", *name, err)
		}
	}
	return nil
}
