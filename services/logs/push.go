package logs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/rpc"
	logsv1 "howdah.dev/proto/gen/howdah/logs/v1"
	"howdah.dev/services/logs/internal/owner"
	"howdah.dev/services/logs/internal/store"
)

// Bounds of a push.
const (
	maxRuns    = 1000
	maxLines   = 50_000
	maxBytes   = 8 << 20
	maxName    = 253
	pushWithin = time.Minute
)

// Who may call.
const (
	nodesGroup    = "system:nodes"
	nodePrefix    = "system:node:"
	gatewaysGroup = "howdah:gateways"
)

// Push implements logsv1.CollectServiceServer.
func (s *Server) Push(ctx context.Context, r *logsv1.PushRequest) (*logsv1.PushResponse, error) {
	node, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkPush(r); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if wait := s.rate.open(); wait > 0 {
		s.metrics.pushes.WithLabelValues("slowed").Inc()
		return nil, apierrors.NewTooManyRequests("more lines come than are to be stored", int(math.Ceil(wait.Seconds())))
	}
	ctx, cancel := context.WithTimeout(ctx, pushWithin)
	defer cancel()
	resp, err := s.push(ctx, node, r)
	if err != nil {
		s.metrics.pushes.WithLabelValues("failed").Inc()
		return nil, unavailable(err)
	}
	return resp, nil
}

// caller returns the node that calls.
func caller(ctx context.Context) (string, error) {
	peer, ok := rpc.Peer(ctx)
	node, named := strings.CutPrefix(peer.Name, nodePrefix)
	if !ok || !named || node == "" || !peer.In(nodesGroup) {
		return "", apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("User %q is no node: only nodes tell what their containers write", peer.Name))
	}
	return node, nil
}

// checkPush reports the first thing that is wrong with a request.
func checkPush(r *logsv1.PushRequest) error {
	if len(r.GetRuns()) > maxRuns {
		return fmt.Errorf("more than %d runs", maxRuns)
	}
	ids := map[string]bool{}
	lines, size := 0, 0
	for i, run := range r.GetRuns() {
		if run.GetId() == "" || ids[run.GetId()] {
			return fmt.Errorf("runs[%d].id: %q is empty, or stands twice", i, run.GetId())
		}
		ids[run.GetId()] = true
		for name, value := range map[string]string{"id": run.GetId(), "namespace": run.GetNamespace(), "pod": run.GetPod(), "podUid": run.GetPodUid(), "container": run.GetContainer()} {
			if value == "" || len(value) > maxName {
				return fmt.Errorf("runs[%d].%s: is empty, or longer than %d bytes", i, name, maxName)
			}
		}
		if run.GetRestartCount() < 0 {
			return fmt.Errorf("runs[%d].restartCount: %d is negative", i, run.GetRestartCount())
		}
		last := int64(0)
		for n, e := range run.GetEntries() {
			if e.GetPosition() <= last {
				return fmt.Errorf("runs[%d].entries[%d].position: %d is not more than %d", i, n, e.GetPosition(), last)
			}
			last = e.GetPosition()
			size += len(e.GetText())
		}
		lines += len(run.GetEntries())
	}
	if lines > maxLines || size > maxBytes {
		return fmt.Errorf("%d lines of %d bytes are more than %d, or than %d bytes", lines, size, maxLines, maxBytes)
	}
	return nil
}

func (s *Server) push(ctx context.Context, node string, r *logsv1.PushRequest) (*logsv1.PushResponse, error) {
	resp := &logsv1.PushResponse{}
	var runs []store.Run
	var outcomes []*logsv1.Outcome // of the runs
	var newest time.Time
	refused := 0
	for _, run := range r.GetRuns() {
		o := &logsv1.Outcome{}
		resp.Outcomes = append(resp.Outcomes, o)
		verdict, err := s.owners.Judge(ctx, owner.Pod{Node: node, Namespace: run.GetNamespace(), Name: run.GetPod(), UID: run.GetPodUid()})
		if err != nil {
			return nil, err
		}
		if verdict.Refused != "" {
			o.Refused, o.Retry = verdict.Refused, verdict.Unknown
			refused += len(run.GetEntries())
			continue
		}
		kept := store.Run{
			Runtime: run.GetId(), Namespace: run.GetNamespace(), Pod: run.GetPod(), UID: run.GetPodUid(), Container: run.GetContainer(),
			Restarts: run.GetRestartCount(), Labels: verdict.Labels, Lines: make([]store.Line, 0, len(run.GetEntries())),
		}
		for _, e := range run.GetEntries() {
			at := time.Unix(0, e.GetTime())
			if at.After(newest) {
				newest = at
			}
			kept.Lines = append(kept.Lines, store.Line{Position: e.GetPosition(), Time: at, Source: int16(max(e.GetSource(), logsv1.Source_SOURCE_STDOUT)), Text: string(e.GetText())})
		}
		runs, outcomes = append(runs, kept), append(outcomes, o)
	}
	done, err := s.store.Push(ctx, node, runs)
	if err != nil {
		return nil, err
	}
	for i, position := range done.Positions {
		outcomes[i].Position = position
	}
	s.rate.take(done.Bytes)
	s.metrics.pushed(done, refused, newest, s.cfg.Clock.Now())
	trace.SpanFromContext(ctx).SetAttributes(attribute.String("k8s.node.name", node), attribute.Int("howdah.logs.lines", done.Lines), attribute.Int("howdah.logs.bytes", done.Bytes))
	return resp, nil
}

// unavailable is the answer to what failed for a peer's sake: the caller tries again.
func unavailable(err error) error {
	if _, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return err
	}
	return apierrors.NewServiceUnavailable("the logs cannot be reached: " + err.Error())
}
