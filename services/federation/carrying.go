package federation

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"go.opentelemetry.io/otel/trace"

	"howdah.dev/services/federation/api"
	"howdah.dev/services/federation/internal/carry"
)

// outcome is how it went last with an object in a member.
type outcome struct{ state, message string }

const (
	// followAgain is how long after a cache of a member was not filled yet it is asked again.
	followAgain = 500 * time.Millisecond
	// refusedAgain is how long after an object was refused for somebody else's it is tried again: that one may go, and nobody tells.
	refusedAgain = 30 * time.Second
	// gatherWithin is how long what happens in members is gathered before it is told.
	gatherWithin = 50 * time.Millisecond
)

// reconcile brings one object in the member to what it is to be.
func (m *link) reconcile(ctx context.Context, key string) (time.Duration, error) {
	id, err := api.ParseID(key)
	if err != nil {
		return 0, nil // nobody else writes keys
	}
	describe(ctx, id)
	template, known := m.l.templates.Get(id)
	c, ok := m.l.clusters.Get("", m.name)
	if !ok || !m.isReady() {
		return 0, nil // what waits is asked for when it is ready
	}
	if !known {
		return unknownAgain, nil
	}
	p := m.l.placementOf(id)
	gone := template == nil || template.Deleting()
	var share *api.Share
	if p != nil && !gone {
		for i := range p.Spec.Clusters {
			if p.Spec.Clusters[i].Name == m.name {
				share = &p.Spec.Clusters[i]
			}
		}
	}
	if share == nil && p == nil && !gone {
		return 0, nil // it is not decided yet whether it is to be here: what is stays
	}
	live, synced, why := m.cached(ctx, id)
	if !synced {
		state := outcome{api.StateWaiting, "what is in the cluster is not known yet"}
		if why != nil {
			state = outcome{api.StateFailed, why.Error()}
		}
		m.note(id, state)
		return followAgain, nil
	}
	if share != nil {
		return m.bring(ctx, id, template, p, share, c, live)
	}
	return 0, m.remove(ctx, id, gone, live)
}

// bring applies an object.
func (m *link) bring(ctx context.Context, id api.ID, template *api.Any, p *api.Placement, share *api.Share, c *api.Cluster, live *unstructured.Unstructured) (time.Duration, error) {
	policy, ok := m.l.followed(p)
	if !ok {
		return 0, nil // another one will be
	}
	wanted, err := carry.Wanted(carry.Input{Template: &template.Unstructured, Cluster: c, Replicas: share.Replicas, Policy: policy, Federation: m.l.federation})
	if err != nil { // which only a change of the policy or the template mends
		m.fail(id, template, err)
		return 0, nil
	}
	conflicts := api.Refuse
	if policy != nil {
		conflicts = policy.Conflicts
	}
	ours := live != nil && carry.Ours(live, m.l.federation)
	if ours && carry.ScaledThere(live) {
		if err := carry.KeepReplicas(wanted, live); err != nil {
			return 0, err
		}
	}
	if ours && live.GetDeletionTimestamp() != nil {
		m.note(id, outcome{api.StateWaiting, "it is being deleted there"})
		return 0, nil // its end is told
	}
	if ours && carry.Settled(live, wanted) {
		m.note(id, outcome{state: api.StateCarried})
		return 0, nil
	}
	if !ours {
		other, err := m.connection().Get(ctx, id)
		if err != nil {
			m.failed(id, template, "get", err)
			return 0, err
		}
		if other != nil && !carry.Ours(other, m.l.federation) {
			if reason := refuses(other, conflicts); reason != "" {
				m.l.metrics.calls.WithLabelValues(m.name, "apply", "refused").Inc()
				if m.note(id, outcome{api.StateRefused, reason}) {
					m.l.recorder.Eventf(template, corev1.EventTypeWarning, "Conflict", "Cluster %s: %s", m.name, reason)
				}
				return refusedAgain, nil
			}
		}
	}
	if id.Namespace != "" {
		if err := m.noteKind(ctx, namespaceKind); err != nil {
			return 0, err
		}
		if err := m.connection().EnsureNamespace(ctx, carry.Namespace(id.Namespace, m.l.federation)); err != nil {
			m.failed(id, template, "apply", err)
			return 0, err
		}
	}
	err = m.connection().Apply(ctx, id, wanted)
	if apierrors.IsNotFound(err) && id.Namespace != "" {
		m.connection().ForgetNamespace(id.Namespace) // it may have gone
	}
	m.l.metrics.count(m.name, "apply", err)
	if err != nil {
		m.failed(id, template, "apply", err)
		return 0, fmt.Errorf("apply %s in the cluster %s: %w", id, m.name, err)
	}
	m.note(id, outcome{state: api.StateCarried})
	return 0, nil
}

// refuses says why an object that others made is left alone; "" where it is taken over.
func refuses(other *unstructured.Unstructured, conflicts string) string {
	switch {
	case other.GetLabels()[api.ManagedLabel] == "true" && other.GetAnnotations()[api.FederationAnnotation] != "":
		return "another federation carried an object of that name there"
	case conflicts != api.TakeOver:
		return "there is an object of that name there that the federation did not make; conflicts: TakeOver in the policy takes it over"
	}
	return ""
}

// remove takes away what is not to be in the member, or leaves it to the member where that was asked for.
func (m *link) remove(ctx context.Context, id api.ID, gone bool, live *unstructured.Unstructured) error {
	if live == nil || !carry.Ours(live, m.l.federation) {
		m.forget(id)
		m.l.plans.Enqueue(id.String(), trace.SpanContextFromContext(ctx)) // which waits for it
		return nil
	}
	verb, call := "delete", m.connection().Delete
	if gone && live.GetAnnotations()[api.PreserveAnnotation] == "true" {
		verb, call = "release", m.connection().Release
	}
	if verb == "delete" && live.GetDeletionTimestamp() != nil {
		return nil // its end is told
	}
	err := call(ctx, live)
	m.l.metrics.count(m.name, verb, err)
	if err != nil {
		m.note(id, outcome{api.StateFailed, err.Error()})
		return fmt.Errorf("%s %s in the cluster %s: %w", verb, id, m.name, err)
	}
	if id.GVK == namespaceKind {
		m.connection().ForgetNamespace(id.Name)
	}
	m.note(id, outcome{state: api.StateLeaving})
	return nil
}

// failed notes what a call returned.
func (m *link) failed(id api.ID, template *api.Any, verb string, err error) {
	if apierrors.IsConflict(err) {
		m.note(id, outcome{api.StateWaiting, "it has just changed there"})
		return
	}
	if verb == "get" {
		m.l.metrics.count(m.name, verb, err)
	}
	m.fail(id, template, err)
}

// fail notes that an object cannot be carried, and tells once.
func (m *link) fail(id api.ID, template *api.Any, err error) {
	if m.note(id, outcome{api.StateFailed, err.Error()}) && template != nil {
		m.l.recorder.Eventf(template, corev1.EventTypeWarning, "CarryFailed", "Cluster %s: %v", m.name, err)
	}
}
