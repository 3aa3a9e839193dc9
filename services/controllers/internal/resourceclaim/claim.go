package resourceclaim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
)

// claim lets a claim go that its users have left: their entries first, with the last of them its devices, then what keeps it from being deleted.
// One that was generated goes itself when its pod has ended or was replaced, and not only when the pod is removed.
func (c *resourceClaims) claim(ctx context.Context, key string) (time.Duration, error) {
	claim, ok := c.claims.GetKey(key)
	if !ok {
		return 0, nil
	}
	claims := object.For(c.client, claimKind)
	gone, err := c.gone(ctx, claim)
	if err != nil {
		return 0, err
	}
	less := letGo(claim, func(r resourcev1.ResourceClaimConsumerReference) bool { return !gone[r.UID] })
	if less != nil {
		if claim, err = claims.UpdateStatus(ctx, less); err != nil {
			return 0, ignoreGone(err)
		}
	}
	if less != nil || claim.DeletionTimestamp != nil {
		if want := released(claim); want != nil {
			if claim, err = claims.Update(ctx, want); err != nil {
				return 0, ignoreGone(err)
			}
		}
	}
	if len(claim.Status.ReservedFor) > 0 || claim.DeletionTimestamp != nil {
		return 0, nil
	}
	if left, err := c.abandoned(ctx, claim); err != nil || !left {
		return 0, err // it is needed, or the garbage collector's
	}
	return 0, ignoreGone(claims.Delete(ctx, claim.Namespace, claim.Name, metav1.DeleteOptions{Preconditions: object.AsSeen(claim)}))
}

// abandoned says whether a claim was made for a pod that has ended or that another has replaced. Of one that was replaced the API is asked: the cache may
// still show the pod before the claim's own.
func (c *resourceClaims) abandoned(ctx context.Context, claim *resourcev1.ResourceClaim) (bool, error) {
	ref := metav1.GetControllerOfNoCopy(claim)
	if ref == nil || ref.Kind != "Pod" || ref.APIVersion != "v1" {
		return false, nil
	}
	p, ok := c.pods.Get(claim.Namespace, ref.Name)
	if !ok {
		return false, nil
	}
	if p.UID != ref.UID {
		var err error
		if p, err = object.For(c.client, object.Pod).Get(ctx, claim.Namespace, ref.Name); err != nil {
			return false, ignoreGone(err)
		}
	}
	return p.UID != ref.UID || done(p), nil
}

// gone returns which of the claim's users are none any more. A pod that the cache does not have is asked of the API: devices must not be taken from
// one that is there. Users that are not pods stay.
func (c *resourceClaims) gone(ctx context.Context, claim *resourcev1.ResourceClaim) (map[types.UID]bool, error) {
	gone := map[types.UID]bool{}
	for _, r := range claim.Status.ReservedFor {
		if r.APIGroup != "" || r.Resource != "pods" {
			continue
		}
		p, ok := c.pods.Get(claim.Namespace, r.Name)
		if !ok || p.UID != r.UID {
			var err error
			p, err = object.For(c.client, object.Pod).Get(ctx, claim.Namespace, r.Name)
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("read pod %s: %w", r.Name, err)
			}
			if err != nil {
				p = &corev1.Pod{}
			}
		}
		gone[r.UID] = p.UID != r.UID || done(p)
	}
	return gone, nil
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
