package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/services/scheduler/internal/device"
)

// made acts on the outcome of a special claim's creation. One that an earlier attempt has made, and that is what this one wants, does.
func (b *binder) made(ctx context.Context, w *claimWrite, made *resourcev1.ResourceClaim, err error) {
	b.s.metrics.claimMade(err)
	if apierrors.IsAlreadyExists(err) {
		if made, err = b.devices.Get(ctx, w.now.Namespace, w.now.Name); err == nil {
			err = device.Adopt(w.now, made)
		}
	}
	if err != nil {
		w.err = fmt.Errorf("create claim for extended resources %s: %w", object.KeyOf(w.now), err)
		return
	}
	w.now = made
	for i := range w.changes {
		w.changes[i].Claim = made
	}
}

// tellExtended has the statuses of pods say which devices are for which of their containers, once the special claims of the decisions are written; and
// where a pod has none any more, that.
func (b *binder) tellExtended(ctx context.Context, decisions []decision, errs []error) {
	var items []object.Item
	var of []int
	for i, d := range decisions {
		if !d.mustReserve() || errs[i] != nil || equality.Semantic.DeepEqual(d.devices.Extended, d.item.Pod.Status.ExtendedResourceClaimStatus) {
			continue
		}
		items, of = append(items, b.extendedItem(d.item.Pod, d.devices.Extended)), append(of, i)
	}
	if len(items) == 0 {
		return
	}
	results, err := b.s.cfg.Objects.Batch(ctx, items, false)
	for n, i := range of {
		outcome := err
		if n < len(results) {
			outcome = results[n].Err
		}
		if outcome != nil {
			errs[i] = fmt.Errorf("update extendedResourceClaimStatus of pod %s: %w", object.KeyOf(decisions[i].item.Pod), outcome)
		}
	}
}

// extendedItem writes what a pod's status says of its special claim; nil is nothing. It holds for this very pod.
func (b *binder) extendedItem(pod *corev1.Pod, s *corev1.PodExtendedResourceClaimStatus) object.Item {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"extendedResourceClaimStatus": s},
	})
	if err != nil { // plain data always encodes
		patch = nil
	}
	return b.pods.PatchItem(pod.Namespace, pod.Name, types.MergePatchType, patch, "status")
}

// takeback is a special claim that is not to be, or not with these devices; it may not have been made.
type takeback struct {
	pod   *corev1.Pod
	claim *resourcev1.ResourceClaim
}

// takeBackSpecial undoes special claims, the last step first: what the pod's status says, the devices, the finalizer, the claim. What fails is found
// with the pod's next attempt, which goes on from there.
func (b *binder) takeBackSpecial(ctx context.Context, list []takeback) {
	if len(list) == 0 {
		return
	}
	var told, freed, unprotected, deleted []object.Item
	for _, t := range list {
		told = append(told, b.extendedItem(t.pod, nil))
		now := b.s.cache.Devices.Shown(t.claim.Namespace, t.claim.Name)
		if now == nil || device.Draft(now) { // the watch may be behind
			var err error
			if now, err = b.devices.Get(ctx, t.claim.Namespace, t.claim.Name); err != nil {
				continue
			}
		}
		if !device.IsSpecial(now) || !metav1.IsControlledBy(now, t.pod) {
			continue
		}
		free := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"allocation":null,"reservedFor":null,"devices":null}}`, now.UID)
		freed = append(freed, b.devices.PatchItem(now.Namespace, now.Name, types.MergePatchType, []byte(free), "status"))
		unprotect := fmt.Sprintf(`{"metadata":{"uid":%q,"$deleteFromPrimitiveList/finalizers":[%q]}}`, now.UID, resourcev1.Finalizer)
		unprotected = append(unprotected, b.devices.PatchItem(now.Namespace, now.Name, types.StrategicMergePatchType, []byte(unprotect), ""))
		deleted = append(deleted, b.devices.DeleteItem(now.Namespace, now.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &now.UID}}))
	}
	for _, items := range [][]object.Item{told, freed, unprotected, deleted} {
		b.besides(ctx, items, "take back claims for extended resources")
	}
}

// onItsNode reports whether the refusal of a binding may mean that an earlier one has come true, whose answer was lost: then the pod has its devices.
func onItsNode(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Reason == metav1.StatusReasonConflict
}
