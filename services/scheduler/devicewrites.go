package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/services/scheduler/internal/device"
)

// deviceRounds bounds how often a claim is written for some pods: its finalizer, its status, and both anew where somebody else was faster.
const deviceRounds = 8

// mustReserve reports whether the claims of the pod are to be written.
func (d decision) mustReserve() bool { return d.node != "" && d.devices != nil && !d.devicesDone }

// claimWrite is a claim, and what is to become of it for some pods at once: pods that share a claim and are bound together cost one write.
type claimWrite struct {
	now     *resourcev1.ResourceClaim // as the API has it
	changes []device.Change
	of      []int // the decision of each change
	done    bool
	err     error
}

// bindDevices writes which devices the claims of pods get, and who uses them, and returns the decisions: those whose claims could not be written
// have failed, and those whose devices are to be made ready first are left out, for they wait. It also gives back what pods without a node hold.
func (b *binder) bindDevices(ctx context.Context, decisions []decision) []decision {
	b.releaseDevices(ctx, decisions)
	if !slices.ContainsFunc(decisions, decision.mustReserve) {
		return decisions
	}
	writes := b.claimWrites(decisions)
	for range deviceRounds {
		if !b.writeClaims(ctx, writes) {
			break
		}
	}
	errs := make([]error, len(decisions))
	for _, w := range writes {
		if !w.done {
			w.err = cmp.Or(w.err, error(context.DeadlineExceeded))
		}
		for _, i := range w.of {
			errs[i] = errors.Join(errs[i], w.err)
		}
	}
	b.tellExtended(ctx, decisions, errs)
	rest := make([]decision, 0, len(decisions))
	view := b.s.cache.Devices.View()
	for i, d := range decisions {
		switch {
		case !d.mustReserve():
		case errs[i] != nil:
			b.unreserve(ctx, d)
			b.s.failDevices(&d, errs[i])
		default:
			d.devicesDone = true
			if ready, err := view.Ready(d.item.Pod, b.s.cfg.Clock.Now(), b.s.profiles.of(d.item.Pod).DeviceTimeout); !ready || err != nil {
				b.s.profiles.of(d.item.Pod).events.Eventf(d.item.Pod, nil, corev1.EventTypeNormal, "BindingConditionsPending", "Scheduling", "waiting for binding conditions for device on node %s", d.node)
				b.s.volumes.wait(d)
				continue
			}
			b.s.devicesReady(d.item.Pod, view, 0, nil)
		}
		rest = append(rest, d)
	}
	return rest
}

// claimWrites are the claims that decisions change, each once.
func (b *binder) claimWrites(decisions []decision) []*claimWrite {
	var writes []*claimWrite
	known := map[types.UID]*claimWrite{}
	for i, d := range decisions {
		if !d.mustReserve() {
			continue
		}
		for _, c := range d.devices.Changes {
			w := known[c.Claim.UID]
			if w == nil {
				w = &claimWrite{now: b.s.cache.Devices.Shown(c.Claim.Namespace, c.Claim.Name)}
				switch {
				case device.Draft(c.Claim): // it is one pod's alone
					w.now = c.Claim
				case w.now == nil:
					w.err = fmt.Errorf("claim %s got deleted in the meantime", object.KeyOf(c.Claim))
				}
				if !device.Draft(c.Claim) {
					known[c.Claim.UID] = w
				}
				writes = append(writes, w)
			}
			w.changes, w.of = append(w.changes, c), append(w.of, i)
		}
	}
	return writes
}

// writeClaims takes each claim one write further, and reports whether there is more to be written.
func (b *binder) writeClaims(ctx context.Context, writes []*claimWrite) bool {
	var items []object.Item
	var of []*claimWrite
	for _, w := range writes {
		if w.done || w.err != nil {
			continue
		}
		if w.err = w.possible(); w.err != nil {
			continue
		}
		if device.Draft(w.now) {
			items = append(items, b.devices.CreateItem(w.now))
		} else {
			patch, subresource := w.next(metav1.NewTime(b.s.cfg.Clock.Now()))
			items = append(items, b.devices.PatchItem(w.now.Namespace, w.now.Name, types.MergePatchType, patch, subresource))
		}
		of = append(of, w)
	}
	if len(items) == 0 {
		return false
	}
	results, err := b.s.cfg.Objects.Batch(ctx, items, false)
	for i, w := range of {
		outcome := err
		var written *resourcev1.ResourceClaim
		if i < len(results) {
			if outcome = results[i].Err; outcome == nil {
				written, outcome = object.Decode(object.ResourceClaim, results[i].Object)
			}
		}
		switch {
		case device.Draft(w.now):
			b.made(ctx, w, written, outcome)
		case apierrors.IsConflict(outcome):
			w.now, w.err = b.devices.Get(ctx, w.now.Namespace, w.now.Name)
		case outcome != nil:
			w.err = fmt.Errorf("add reservation to claim %s: %w", object.KeyOf(w.now), outcome)
		default:
			w.now = written
			w.done = w.reserved()
			if w.done {
				b.s.cache.Devices.Wrote(written, w.pods()...)
			}
		}
	}
	return true
}

// possible returns an error where what is decided cannot be made any more of the claim.
func (w *claimWrite) possible() error {
	for _, c := range w.changes {
		if err := c.Possible(w.now); err != nil {
			return err
		}
	}
	return nil
}

func (w *claimWrite) pods() []types.UID {
	pods := make([]types.UID, 0, len(w.changes))
	for _, c := range w.changes {
		pods = append(pods, c.User.UID)
	}
	return pods
}

// reserved reports whether the claim has devices and is reserved for all pods.
func (w *claimWrite) reserved() bool {
	return w.now.Status.Allocation != nil && !slices.ContainsFunc(w.changes, func(c device.Change) bool { return !device.ReservedFor(w.now, c.User.UID) })
}

// next is the next patch of the claim: first the finalizer that protects its devices, then the status. It is refused where the claim has changed.
func (w *claimWrite) next(now metav1.Time) (patch []byte, subresource string) {
	want := w.now
	for _, c := range w.changes {
		want = device.Apply(want, c.Allocation, c.User)
	}
	if len(want.Finalizers) > len(w.now.Finalizers) {
		return unchangedClaim(w.now, want.Finalizers, nil), ""
	}
	status := map[string]any{"reservedFor": want.Status.ReservedFor}
	if w.now.Status.Allocation == nil { // once it is there, it cannot change
		allocation := want.Status.Allocation.DeepCopy()
		allocation.AllocationTimestamp = &now
		status["allocation"] = allocation
	}
	return unchangedClaim(w.now, nil, status), "status"
}

// unchangedClaim is a patch that is refused where the claim is not this very one in this very version.
func unchangedClaim(from *resourcev1.ResourceClaim, finalizers []string, status map[string]any) []byte {
	content := map[string]any{"metadata": map[string]any{"uid": from.UID, "resourceVersion": from.ResourceVersion}}
	if finalizers != nil {
		content["metadata"].(map[string]any)["finalizers"] = finalizers
	}
	if status != nil {
		content["status"] = status
	}
	patch, err := json.Marshal(content)
	if err != nil { // plain data always encodes
		return nil
	}
	return patch
}

// failDevices makes a decision one for no node: its claims cannot be written. The pod is tried again after its back-off, and others may have its room
// and its devices.
func (s *Server) failDevices(d *decision, err error) {
	s.giveUp(d)
	s.nominate(d.item.Pod, "")
	d.room = &room{}
	d.fails(fmt.Sprintf("running PreBind plugin %q: %s", "DynamicResources", err))
}

// failConditions makes a decision one for no node: its devices will not be ready. Those that nobody else uses are given back, so that others are chosen.
func (s *Server) failConditions(d *decision, err error) {
	d.release = s.cache.Devices.View().Useless(d.item.Pod)
	s.failDevices(d, err)
}

// unreserve takes a pod that does not go to its node out of the claims that were written for it; they keep their devices for whoever comes. Where that
// fails, the controller of claims does it when the pod ends. Special claims are taken back, for the pod may want other devices elsewhere.
func (b *binder) unreserve(ctx context.Context, decisions ...decision) {
	var items []object.Item
	var special []takeback
	for _, d := range decisions {
		if d.devices == nil {
			continue
		}
		for _, c := range d.devices.Changes {
			now := b.s.cache.Devices.Shown(c.Claim.Namespace, c.Claim.Name)
			if device.IsSpecial(c.Claim) {
				special = append(special, takeback{d.item.Pod, c.Claim})
				continue
			}
			if now == nil || now.UID != c.Claim.UID || !device.ReservedFor(now, c.User.UID) {
				continue
			}
			patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"reservedFor":[{"$patch":"delete","uid":%q}]}}`, now.UID, c.User.UID)
			items = append(items, b.devices.PatchItem(now.Namespace, now.Name, types.StrategicMergePatchType, []byte(patch), "status"))
		}
	}
	b.besides(ctx, items, "unreserve claims")
	b.takeBackSpecial(ctx, special)
}

// refused are the decisions whose binding the API has refused: the pods are not on their nodes, which is not known of others that have failed.
func refused(decisions []decision, outcomes []error) []decision {
	var failed []decision
	for i, d := range decisions {
		var status apierrors.APIStatus
		if d.devices != nil && onItsNode(outcomes[i]) && slices.ContainsFunc(d.devices.Changes, func(c device.Change) bool { return device.IsSpecial(c.Claim) }) {
			continue
		}
		if d.node != "" && d.devices != nil && errors.As(outcomes[i], &status) && status.Status().Code >= 400 && status.Status().Code < 500 {
			failed = append(failed, d)
		}
	}
	return failed
}

// releaseDevices gives back the devices of claims that keep their pods from other nodes and that nobody else uses.
func (b *binder) releaseDevices(ctx context.Context, decisions []decision) {
	var items []object.Item
	var special []takeback
	seen := map[types.UID]bool{}
	for _, d := range decisions {
		if d.release == nil || seen[d.release.UID] {
			continue
		}
		seen[d.release.UID] = true
		if device.IsSpecial(d.release) {
			special = append(special, takeback{d.item.Pod, d.release})
			continue
		}
		patch := unchangedClaim(d.release, nil, map[string]any{"allocation": nil, "reservedFor": nil, "devices": nil})
		items = append(items, b.devices.PatchItem(d.release.Namespace, d.release.Name, types.MergePatchType, patch, "status"))
	}
	b.besides(ctx, items, "deallocate claims")
	b.takeBackSpecial(ctx, special)
}

// besides makes writes whose outcome the watch tells of.
func (b *binder) besides(ctx context.Context, items []object.Item, what string) {
	if len(items) == 0 {
		return
	}
	results, err := b.s.cfg.Objects.Batch(ctx, items, false)
	for _, r := range results {
		if !apierrors.IsNotFound(r.Err) && !apierrors.IsConflict(r.Err) {
			err = errors.Join(err, r.Err)
		}
	}
	if err != nil {
		slog.WarnContext(ctx, what+" failed", "kind", "ResourceClaim", "err", err)
	}
}
