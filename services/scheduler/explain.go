package scheduler

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/object"
	schedulerv1 "howdah.dev/proto/gen/howdah/scheduler/v1"
	"howdah.dev/services/scheduler/internal/cluster"
)

// Explain implements schedulerv1.SchedulerServiceServer. A standby answers
// too, from its own caches; the queue's state is then its own as well.
func (s *Server) Explain(_ context.Context, r *schedulerv1.ExplainRequest) (*schedulerv1.ExplainResponse, error) {
	if !s.pods.HasSynced() || !s.nodes.HasSynced() {
		return nil, apierrors.NewServiceUnavailable("the scheduler's caches are not filled yet")
	}
	pod, ok := s.pods.Get(r.GetNamespace(), r.GetName())
	if !ok {
		return nil, apierrors.NewNotFound(object.Pod.GroupResource(), r.GetName())
	}
	asked, snapshot := withoutItself(pod, s.cache.Snapshot())
	explanation := s.profile.Explain(asked, snapshot)
	state, attempts := s.queue.Lookup(pod.UID)
	response := &schedulerv1.ExplainResponse{
		Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Scheduler: pod.Spec.SchedulerName,
		Message: explanation.Message, Queue: string(state), Attempts: int32(attempts),
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		response.Message = "Scheduling is blocked due to non-empty scheduling gates"
	}
	for _, n := range explanation.Nodes {
		verdict := &schedulerv1.NodeVerdict{Node: n.Node, Feasible: n.Feasible, Score: n.Score}
		for _, f := range n.Filters {
			verdict.Filters = append(verdict.Filters, &schedulerv1.FilterVerdict{Filter: f.Filter, Passed: len(f.Reasons) == 0, Reasons: f.Reasons})
		}
		for _, v := range n.Scores {
			verdict.Scores = append(verdict.Scores, &schedulerv1.ScoreVerdict{Name: v.Name, Score: v.Score, Weight: v.Weight})
		}
		response.Nodes = append(response.Nodes, verdict)
	}
	return response, nil
}

// withoutItself asks about a placed pod as if it were not placed yet.
func withoutItself(pod *corev1.Pod, snapshot cluster.Snapshot) (*corev1.Pod, cluster.Snapshot) {
	if pod.Spec.NodeName == "" {
		return pod, snapshot
	}
	nodes := slices.Clone(snapshot.Nodes)
	for i, n := range nodes {
		if n.Name == pod.Spec.NodeName {
			nodes[i] = n.Without(pod.UID, cluster.DemandOf(pod))
		}
	}
	asked := *pod
	asked.Spec.NodeName = ""
	return &asked, cluster.Snapshot{Nodes: nodes, Nominees: snapshot.Nominees}
}
