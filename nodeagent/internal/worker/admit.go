package worker

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/admit"
	"howdah.dev/nodeagent/internal/pod"
)

// freshTimeout bounds the look at the node before a refusal.
const freshTimeout = 10 * time.Second

// admit decides whether the node takes a new pod: nil where it does. One pod is decided after the other, so that what one gets is gone for the next.
func (m *Manager) admit(ctx context.Context, p *corev1.Pod) *pod.Failure {
	m.admission.Lock()
	defer m.admission.Unlock()
	site := m.cfg.Site()
	site.Others = m.placed(site.Others, p.UID)
	failure := admit.Check(p, site)
	if failure != nil { // for good: not by a node that may have changed since
		failure = m.checkAgain(ctx, p, site, failure)
	}
	if failure == nil {
		m.mu.Lock()
		m.taken[p.UID] = true
		m.mu.Unlock()
		return nil
	}
	m.cfg.Metrics.rejected(failure.Reason)
	m.cfg.Events.Event(p, "", corev1.EventTypeWarning, failure.Reason, failure.Message)
	return failure
}

func (m *Manager) checkAgain(ctx context.Context, p *corev1.Pod, site admit.Site, before *pod.Failure) *pod.Failure {
	ctx, cancel := context.WithTimeout(ctx, freshTimeout)
	defer cancel()
	node, err := m.cfg.FreshNode(ctx)
	if err != nil {
		slog.WarnContext(ctx, "look at the node anew", "namespace", p.Namespace, "name", p.Name, "uid", p.UID, "err", err)
		return before
	}
	site.Node = node
	return admit.Check(p, site)
}

// placed are the pods but one that have their place on the node: taken in this life of the agent, or in an earlier one by what the API holds.
func (m *Manager) placed(all []*corev1.Pod, but types.UID) []*corev1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*corev1.Pod
	for _, p := range all {
		if p.UID != but && !pod.Finished(p) && (m.taken[p.UID] || p.Status.StartTime != nil) {
			out = append(out, p)
		}
	}
	return out
}
