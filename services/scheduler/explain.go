package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/object"
	schedulerv1 "howdah.dev/proto/gen/howdah/scheduler/v1"
	"howdah.dev/services/scheduler/internal/cluster"
)

// refreshTimeout bounds how long an explanation waits for what was written before it was asked for.
const refreshTimeout = 5 * time.Second

// Explain implements schedulerv1.SchedulerServiceServer. A standby answers
// too, from its own caches, which show what was written before the question; the queue's state is then its own as well.
func (s *Server) Explain(ctx context.Context, r *schedulerv1.ExplainRequest) (*schedulerv1.ExplainResponse, error) {
	if !s.pods.HasSynced() || !s.nodes.HasSynced() {
		return nil, apierrors.NewServiceUnavailable("the scheduler's caches are not filled yet")
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	if err := s.informers.Refresh(ctx); err != nil {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("the scheduler's caches stay behind: %v", err))
	}
	pod, ok := s.pods.Get(r.GetNamespace(), r.GetName())
	if !ok {
		return nil, apierrors.NewNotFound(object.Pod.GroupResource(), r.GetName())
	}
	asked, snapshot := withoutItself(pod, s.cache.Place(pod.UID), s.cache.Snapshot())
	explanation := s.profiles.of(pod).Explain(asked, snapshot)
	state, attempts := s.queue.Lookup(pod.UID)
	response := &schedulerv1.ExplainResponse{
		Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Scheduler: pod.Spec.SchedulerName,
		Message: explanation.Message, Queue: string(state), Attempts: int32(attempts),
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		response.Message = "Scheduling is blocked due to non-empty scheduling gates"
	}
	if waits := s.volumes.what(pod.UID); waits != "" && pod.Spec.NodeName == "" {
		response.Message = waits
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

// withoutItself asks about a pod that counts on a node as if it were not placed yet.
func withoutItself(pod *corev1.Pod, place string, snapshot cluster.Snapshot) (*corev1.Pod, cluster.Snapshot) {
	if place == "" {
		return pod, snapshot
	}
	nodes := slices.Clone(snapshot.Nodes)
	for i, n := range nodes {
		if n.Name == place {
			nodes[i] = n.Without(pod.UID, cluster.DemandOf(pod))
		}
	}
	asked := *pod
	asked.Spec.NodeName = ""
	snapshot.Nodes = nodes
	return &asked, snapshot
}
