package federation

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
	"howdah.dev/services/federation/api"
	"howdah.dev/services/federation/internal/carry"
	"howdah.dev/services/federation/internal/place"
)

const (
	// unknownAgain is how long after a kind's objects were not known yet they are asked for again; when they are, that is told as well.
	unknownAgain = 5 * time.Second
	// leavingAgain is how often what is to leave a cluster that does not answer is looked at.
	leavingAgain = 5 * time.Second
	// abandonAfter is for how long what is deleted waits for a cluster that is not ready. What is left there then is deleted when it returns.
	abandonAfter = time.Minute
)

// ignoreGone leaves out that something is gone: there is nothing more to do about it.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// describe says in the span of a queue which object it is about.
func describe(ctx context.Context, id api.ID) {
	span := trace.SpanFromContext(ctx)
	if span.IsRecording() {
		span.SetAttributes(obs.KeyAttributes(id.GVK.Kind, id.Namespace, id.Name)...)
	}
}

// reconcilePlacement decides where an object goes, and writes it down.
func (l *life) reconcilePlacement(ctx context.Context, key string) (time.Duration, error) {
	id, err := api.ParseID(key)
	if err != nil {
		return 0, nil // nobody else writes keys
	}
	describe(ctx, id)
	template, known := l.templates.Get(id)
	if !known {
		return unknownAgain, nil
	}
	before := l.placementOf(id)
	d := l.decide(id, template, before)
	if d.wait {
		return unknownAgain, nil
	}
	d.spec.Leaving = l.leaving(id, template, before, d.spec.Clusters)
	if before == nil && d.spec.Policy == nil && len(d.spec.Clusters) == 0 {
		return 0, l.letGo(ctx, template)
	}
	if len(d.spec.Clusters) > 0 {
		if err := l.hold(ctx, template); err != nil {
			return 0, ignoreGone(err)
		}
	}
	if d.spec.Policy == nil && len(d.spec.Clusters) == 0 && len(d.spec.Leaving) == 0 {
		if err := l.resource(id).Delete(ctx, before.Namespace, before.Name, metav1.DeleteOptions{}); ignoreGone(err) != nil {
			return 0, fmt.Errorf("delete the placement %s: %w", before.Name, err)
		}
		return 0, l.letGo(ctx, template)
	}
	if err := l.write(ctx, id, before, d.spec); err != nil {
		return 0, err
	}
	l.tell(template, before, &d)
	by := trace.SpanContextFromContext(ctx)
	for _, name := range append(names(d.spec.Clusters), d.spec.Leaving...) {
		l.carry(name, key, by) // what is carried may have changed though where has not
	}
	after := d.after
	if len(d.spec.Leaving) > 0 && (after == 0 || after > leavingAgain) {
		after = leavingAgain
	}
	return after, nil
}

func names(shares []api.Share) []string {
	var out []string
	for _, s := range shares {
		out = append(out, s.Name)
	}
	return out
}

// decision is what was decided about an object.
type decision struct {
	spec  api.PlacementSpec
	lost  []string
	after time.Duration
	wait  bool // nothing can be decided now; what was holds
}

// decide says where an object goes: by its policy, and where those that need it go.
func (l *life) decide(id api.ID, template *api.Any, before *api.Placement) decision {
	d := decision{spec: api.PlacementSpec{Object: id.Reference()}}
	if template == nil || template.Deleting() {
		return d
	}
	d.spec.Generation = template.GetGeneration()
	if err := carry.Carriable(&template.Unstructured); err != nil {
		if policy, _, named := l.policyFor(template); policy != nil && named {
			l.recorder.Eventf(template, corev1.EventTypeWarning, "NotCarried", "It is not carried to clusters: %v", err)
		}
		return d
	}
	policy, kind, _ := l.policyFor(template)
	if policy != nil {
		if checkPolicy(&policy.Spec) != nil {
			d.wait = true
			return d
		}
		var placed []api.Share
		if before != nil {
			placed = before.Spec.Clusters
		}
		plan := place.Place(place.Input{Policy: &policy.Spec, Clusters: l.clusters.List(""), Template: carry.Of(&template.Unstructured), Placed: placed, Now: l.cfg.Clock.Now()})
		d.spec.Policy = &api.PolicyReference{Kind: kind, Name: policy.Name}
		d.spec.Clusters, d.spec.Reason, d.spec.Message, d.lost, d.after = plan.Shares, plan.Reason, plan.Message, plan.Lost, plan.After
		if policy.Spec.Dependencies != api.NoDependencies {
			d.spec.Needs = carry.Needs(&template.Unstructured)
		}
	}
	for _, needer := range l.indexed(byNeed, id.String()) {
		for _, c := range needer.Spec.Clusters {
			if !slices.ContainsFunc(d.spec.Clusters, func(s api.Share) bool { return s.Name == c.Name }) {
				d.spec.Clusters = append(d.spec.Clusters, api.Share{Name: c.Name})
			}
		}
	}
	slices.SortFunc(d.spec.Clusters, func(a, b api.Share) int { return strings.Compare(a.Name, b.Name) })
	return d
}

// leaving are the clusters where the object was and is not to be, as long as something of it may be there.
func (l *life) leaving(id api.ID, template *api.Any, before *api.Placement, now []api.Share) []string {
	if before == nil {
		return nil
	}
	var left []string
	for _, name := range clustersOf(before) {
		stays := slices.ContainsFunc(now, func(s api.Share) bool { return s.Name == name })
		if stays || slices.Contains(left, name) || l.goneFrom(id, template, name) {
			continue
		}
		left = append(left, name)
	}
	slices.Sort(left)
	return left
}

// goneFrom reports whether nothing of the object is in a cluster any more, or nobody waits for it.
func (l *life) goneFrom(id api.ID, template *api.Any, name string) bool {
	c, ok := l.clusters.Get("", name)
	if !ok {
		return true
	}
	ready, since := c.ReadySince()
	if !ready {
		deleted := template == nil || template.Deleting()
		return deleted && l.cfg.Clock.Since(since) >= abandonAfter
	}
	m := l.member(name)
	return m != nil && m.clean(id, l.federation)
}

// resource is where placements of an object are.
func (l *life) resource(id api.ID) object.Resource[*api.Placement] {
	if id.Namespace == "" {
		return object.For(l.cfg.Objects, api.ClusterPlacements)
	}
	return object.For(l.cfg.Objects, api.Placements)
}

// write stores a decision, where it is another than before.
func (l *life) write(ctx context.Context, id api.ID, before *api.Placement, spec api.PlacementSpec) error {
	if before == nil {
		p := &api.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.PlacementName()}, Spec: spec}
		_, err := l.resource(id).Create(ctx, p)
		if apierrors.IsAlreadyExists(err) {
			return apierrors.NewConflict(api.Placements.GroupResource(), p.Name, err) // the cache is behind
		}
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		return err
	}
	if reflect.DeepEqual(before.Spec, spec) {
		return nil
	}
	changed := before.Copy()
	changed.Spec = spec
	_, err := l.resource(id).Update(ctx, changed)
	return err
}

// tell records what the people who look at the object should know.
func (l *life) tell(template *api.Any, before *api.Placement, d *decision) {
	if template == nil {
		return
	}
	had := map[string]bool{}
	reason := ""
	if before != nil {
		reason = before.Spec.Reason
		for _, c := range before.Spec.Clusters {
			had[c.Name] = true
		}
	}
	for _, name := range d.lost {
		if had[name] {
			l.metrics.failovers.WithLabelValues(name).Inc()
			l.recorder.Eventf(template, corev1.EventTypeWarning, "FailedOver", "The cluster %s is not ready: its share goes to %s", name, shares(d.spec.Clusters))
		}
	}
	switch {
	case d.spec.Reason != "" && d.spec.Reason != reason:
		l.recorder.Event(template, corev1.EventTypeWarning, d.spec.Reason, d.spec.Message)
	case len(d.spec.Clusters) > 0 && (before == nil || !reflect.DeepEqual(before.Spec.Clusters, d.spec.Clusters)):
		l.recorder.Event(template, corev1.EventTypeNormal, "Placed", shares(d.spec.Clusters))
	}
}

// shares are shares in words.
func shares(all []api.Share) string {
	var each []string
	for _, s := range all {
		if s.Replicas == nil {
			each = append(each, s.Name)
			continue
		}
		each = append(each, fmt.Sprintf("%s: %d", s.Name, *s.Replicas))
	}
	if len(each) == 0 {
		return "nobody"
	}
	return strings.Join(each, ", ")
}

// hold puts the finalizer on a template, before anything of it is carried.
func (l *life) hold(ctx context.Context, template *api.Any) error {
	if slices.Contains(template.GetFinalizers(), api.Finalizer) {
		return nil
	}
	return l.finalizers(ctx, template, append(slices.Clone(template.GetFinalizers()), api.Finalizer))
}

// letGo takes it away, once nothing is left.
func (l *life) letGo(ctx context.Context, template *api.Any) error {
	if template == nil || !slices.Contains(template.GetFinalizers(), api.Finalizer) {
		return nil
	}
	return ignoreGone(l.finalizers(ctx, template, slices.DeleteFunc(slices.Clone(template.GetFinalizers()), func(f string) bool { return f == api.Finalizer })))
}

// finalizers replaces the finalizers of a template, unless it is not any more as it is known.
func (l *life) finalizers(ctx context.Context, template *api.Any, finalizers []string) error {
	resource, ok := l.templates.Resource(template.GroupVersionKind())
	if !ok {
		return fmt.Errorf("the kind %s is not followed any more", template.GetKind())
	}
	if len(finalizers) == 0 {
		finalizers = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers, "resourceVersion": template.GetResourceVersion(), "uid": template.GetUID()}})
	if err != nil {
		return err
	}
	trace.SpanFromContext(ctx).AddEvent("finalizers", trace.WithAttributes(attribute.StringSlice("finalizers", finalizers)))
	_, err = resource.Patch(ctx, template.GetNamespace(), template.GetName(), types.MergePatchType, patch, "")
	return err
}
