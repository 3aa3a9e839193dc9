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

// admit decides whether the node takes a new pod: failure is nil where it does. One pod is decided after the other, so that what one gets is
// gone for the next. A pod that the system needs has its place at once; it has to wait until the pods that make room for it have ended.
func (m *Manager) admit(ctx context.Context, p *corev1.Pod) (failure *pod.Failure, room []<-chan struct{}) {
	m.admission.Lock()
	defer m.admission.Unlock()
	site := m.cfg.Site()
	site.Others = m.placed(site.Others, p.UID)
	failure = admit.Check(p, site)
	if failure != nil { // for good: not by a node that may have changed since
		failure, site = m.checkAgain(ctx, p, site, failure)
	}
	if failure != nil {
		if victims := admit.Preempt(p, site); len(victims) > 0 {
			failure, room = nil, m.preempt(victims)
		}
	}
	if failure == nil {
		m.mu.Lock()
		m.taken[p.UID] = true
		m.mu.Unlock()
		return nil, room
	}
	m.cfg.Metrics.rejected(failure.Reason)
	m.cfg.Events.Event(p, "", corev1.EventTypeWarning, failure.Reason, failure.Message)
	return failure, nil
}

// preempt ends pods, and returns what is closed when they have ended.
func (m *Manager) preempt(victims []*corev1.Pod) []<-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	var room []<-chan struct{}
	for _, victim := range victims {
		w, ok := m.workers[victim.UID]
		if !ok {
			continue // it has ended just now
		}
		if why := admit.Preempted(); w.evict(why) {
			m.cfg.Events.Event(victim, "", corev1.EventTypeWarning, why.Reason, why.Message)
			m.cfg.Metrics.preempted()
		}
		room = append(room, w.stopped)
	}
	return room
}

func (m *Manager) checkAgain(ctx context.Context, p *corev1.Pod, site admit.Site, before *pod.Failure) (*pod.Failure, admit.Site) {
	ctx, cancel := context.WithTimeout(ctx, freshTimeout)
	defer cancel()
	node, err := m.cfg.FreshNode(ctx)
	if err != nil {
		slog.WarnContext(ctx, "look at the node anew", "namespace", p.Namespace, "name", p.Name, "uid", p.UID, "err", err)
		return before, site
	}
	site.Node = node
	return admit.Check(p, site), site
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
