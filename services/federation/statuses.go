package federation

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/federation/api"
	"howdah.dev/services/federation/internal/carry"
	"howdah.dev/services/federation/internal/gather"
)

// reconcileStatus says in the placement what became of the object in each cluster, and in the object itself what that is together.
func (l *life) reconcileStatus(ctx context.Context, key string) (time.Duration, error) {
	id, err := api.ParseID(key)
	if err != nil {
		return 0, nil // nobody else writes keys
	}
	describe(ctx, id)
	template, known := l.templates.Get(id)
	if !known {
		return unknownAgain, nil
	}
	p := l.placementOf(id)
	if p == nil {
		return 0, nil
	}
	parts, clusters := l.look(id, template, p)
	changed := p.Copy()
	changed.Status.Clusters = clusters
	now := metav1.NewTime(l.cfg.Clock.Now())
	placed := metav1.Condition{Type: api.Placed, Status: metav1.ConditionTrue, Reason: "Placed", Message: shares(p.Spec.Clusters), ObservedGeneration: p.Generation, LastTransitionTime: now}
	if p.Spec.Reason != "" {
		placed.Status, placed.Reason, placed.Message = metav1.ConditionFalse, p.Spec.Reason, p.Spec.Message
	}
	carried := carriedCondition(clusters)
	carried.ObservedGeneration, carried.LastTransitionTime = p.Generation, now
	meta.SetStatusCondition(&changed.Status.Conditions, placed)
	meta.SetStatusCondition(&changed.Status.Conditions, carried)
	if !reflect.DeepEqual(changed.Status, p.Status) {
		if _, err := l.resource(id).UpdateStatus(ctx, changed); ignoreGone(err) != nil {
			return 0, fmt.Errorf("write the status of the placement %s: %w", p.Name, err)
		}
	}
	if template == nil || template.Deleting() {
		return 0, nil
	}
	planned := p.Spec.Generation == template.GetGeneration() && p.Spec.Reason == "" && len(parts) > 0
	return 0, l.writeStatus(ctx, template, gather.Status(gather.Input{Template: &template.Unstructured, Parts: parts, Planned: planned, Now: now.Time}))
}

// look collects what is known of an object in all clusters where it is, is to be, or was.
func (l *life) look(id api.ID, template *api.Any, p *api.Placement) ([]gather.Part, []api.PlacedStatus) {
	var parts []gather.Part
	var clusters []api.PlacedStatus
	for _, c := range p.Spec.Clusters {
		part, status := gather.Part{Cluster: c.Name}, api.PlacedStatus{Name: c.Name, State: api.StateUnknown, Message: "the cluster is not ready"}
		if m := l.member(c.Name); m != nil && m.isReady() {
			live, _ := m.live(id)
			o := m.outcome(id)
			status.State, status.Message = o.state, o.message
			if live != nil && carry.Ours(live, l.federation) {
				part.Live = live
				status.Generation = carry.Generation(live)
				part.Settled = o.state == api.StateCarried && template != nil && status.Generation == template.GetGeneration()
				status.Replicas, status.ReadyReplicas, status.AvailableReplicas = counts(live)
			}
		}
		parts, clusters = append(parts, part), append(clusters, status)
	}
	for _, name := range p.Spec.Leaving {
		status := api.PlacedStatus{Name: name, State: api.StateLeaving}
		if m := l.member(name); m == nil || !m.isReady() {
			status.Message = "the cluster is not ready"
		} else if o := m.outcome(id); o.state == api.StateFailed {
			status.Message = o.message
		}
		clusters = append(clusters, status)
	}
	return parts, clusters
}

// counts are how many replicas an object has, where its kind counts them so.
func counts(live *unstructured.Unstructured) (replicas, ready, available *int32) {
	of := func(field string) *int32 {
		n, ok := gather.Count(live, field)
		if !ok {
			return nil
		}
		count := int32(n)
		return &count
	}
	return of("replicas"), of("readyReplicas"), of("availableReplicas")
}

// carriedCondition says whether all clusters have what they are to have.
func carriedCondition(clusters []api.PlacedStatus) metav1.Condition {
	c := metav1.Condition{Type: api.Carried, Status: metav1.ConditionTrue, Reason: api.StateCarried, Message: "every cluster has it as it should be"}
	// What went wrong comes before what goes on.
	worst, rank := "", []string{api.StateFailed, api.StateRefused, api.StateUnknown, api.StateWaiting, api.StateLeaving}
	var each []string
	for _, status := range clusters {
		if status.State == api.StateCarried {
			continue
		}
		text := status.Name + ": " + status.State
		if status.Message != "" {
			text += " (" + status.Message + ")"
		}
		each = append(each, text)
	}
	for _, state := range rank {
		for _, status := range clusters {
			if worst == "" && status.State == state {
				worst = state
			}
		}
	}
	if worst != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, worst, strings.Join(each, "; ")
	}
	return c
}

// writeStatus merges what was gathered into the status of a template.
func (l *life) writeStatus(ctx context.Context, template *api.Any, status map[string]any) error {
	there, _, _ := unstructured.NestedMap(template.Object, "status")
	if status == nil || same(status, there) {
		return nil
	}
	resource, ok := l.templates.Resource(template.GroupVersionKind())
	if !ok {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": template.GetUID()}, "status": status})
	if err != nil {
		return err
	}
	if _, err := resource.Patch(ctx, template.GetNamespace(), template.GetName(), types.MergePatchType, patch, "status"); ignoreGone(err) != nil {
		return fmt.Errorf("write the status of %s: %w", template.GetName(), err)
	}
	return nil
}

// same reports whether merging changes nothing; what is zero may not be there.
func same(status, there map[string]any) bool {
	for field, value := range status {
		has := there[field]
		switch v := value.(type) {
		case nil:
			if has != nil {
				return false
			}
		case map[string]any:
			inner, _ := has.(map[string]any)
			if !same(v, inner) {
				return false
			}
		case int64:
			if n, _ := has.(int64); n != v {
				return false
			}
		default:
			if !reflect.DeepEqual(value, has) {
				return false
			}
		}
	}
	return true
}
