package scheduler

import (
	"context"
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
)

// victim is a pod that has to go for a decision.
type victim struct {
	*corev1.Pod
	decision int
}

// evict has the victims of decisions go that were written: each is told why in a condition, then deleted with its grace period. outcomes has an
// error, or none, for each decision, and gets those of its victims.
func (b *binder) evict(ctx context.Context, decisions []decision, outcomes []error) {
	fail := func(v victim, err error) {
		outcomes[v.decision] = errors.Join(outcomes[v.decision], err)
		b.s.leaving.Delete(v.UID)
	}
	victims := b.victims(decisions, outcomes)
	b.release(ctx, decisions, outcomes)
	victims = b.each(ctx, victims, fail, func(v victim) object.Item {
		return b.pods.PatchItem(v.Namespace, v.Name, types.StrategicMergePatchType, b.disruption(v.Pod, decisions[v.decision].item.Pod), "status")
	})
	victims = b.each(ctx, victims, fail, func(v victim) object.Item {
		return b.pods.DeleteItem(v.Namespace, v.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(v.UID))})
	})
	for _, v := range victims {
		d := decisions[v.decision]
		b.s.profiles.of(d.item.Pod).events.Eventf(v.Pod, d.item.Pod, corev1.EventTypeNormal, "Preempted", "Preempting", "Preempted by pod %v on node %v", d.item.Pod.UID, d.room.node)
	}
}

// victims are those that do not go yet, each once, as the cache has them.
func (b *binder) victims(decisions []decision, outcomes []error) []victim {
	var victims []victim
	seen := map[types.UID]bool{}
	for i, d := range decisions {
		if d.room == nil || outcomes[i] != nil {
			continue
		}
		for _, p := range d.room.victims {
			now, ok := b.s.pods.Get(p.Namespace, p.Name)
			if ok && now.UID == p.UID && now.DeletionTimestamp == nil && !seen[p.UID] {
				seen[p.UID] = true
				victims = append(victims, victim{now, i})
			}
		}
	}
	return victims
}

// each writes an item for each victim, in one call, and returns those for which that succeeded. One that is gone is no failure.
func (b *binder) each(ctx context.Context, victims []victim, fail func(victim, error), item func(victim) object.Item) []victim {
	if len(victims) == 0 {
		return nil
	}
	items := make([]object.Item, 0, len(victims))
	for _, v := range victims {
		items = append(items, item(v))
	}
	results, err := b.s.cfg.Objects.Batch(ctx, items, false)
	var done []victim
	for i, v := range victims {
		outcome := err
		if i < len(results) {
			outcome = results[i].Err
		}
		switch {
		case outcome == nil:
			done = append(done, v)
		case !apierrors.IsNotFound(outcome):
			fail(v, outcome)
		}
	}
	return done
}

// disruption is the patch of a victim's status that says for whom it has to go.
func (b *binder) disruption(victim, preemptor *corev1.Pod) []byte {
	condition := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		Message:            preemptor.Spec.SchedulerName + ": preempting to accommodate a higher priority pod",
		ObservedGeneration: victim.Generation, LastTransitionTime: metav1.NewTime(b.s.cfg.Clock.Now()),
	}
	for _, c := range victim.Status.Conditions {
		if c.Type == condition.Type && c.Status == condition.Status {
			condition.LastTransitionTime = c.LastTransitionTime
		}
	}
	return statusPatch(victim, map[string]any{"conditions": []corev1.PodCondition{condition}})
}

// release takes from pods of lower priority the node that was kept for them. Where that fails they find out themselves.
func (b *binder) release(ctx context.Context, decisions []decision, outcomes []error) {
	var displaced []victim
	for i, d := range decisions {
		if d.room == nil || outcomes[i] != nil {
			continue
		}
		for _, p := range d.room.displaced {
			displaced = append(displaced, victim{p, i})
		}
	}
	b.each(ctx, displaced, func(victim, error) {}, func(v victim) object.Item {
		return b.pods.PatchItem(v.Namespace, v.Name, types.StrategicMergePatchType, statusPatch(v.Pod, map[string]any{"nominatedNodeName": nil}), "status")
	})
}

// statusPatch is a patch of the status of this very pod, not of a namesake.
func statusPatch(pod *corev1.Pod, status map[string]any) []byte {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil { // plain data always encodes
		return nil
	}
	return patch
}

// orNull is what a patch sets a text to: null, which removes it, where it is empty.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
