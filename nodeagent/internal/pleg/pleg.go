// Package pleg tells pods' workers that the runtime has changed something:
// from the runtime's event stream where it has one, and by comparing lists,
// which find what a stream has lost.
package pleg

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/task"
	"howdah.dev/nodeagent/internal/cri"
)

const (
	// every is the pause between lists without a stream, safety with one.
	every       = time.Second
	safety      = 10 * time.Second
	listTimeout = 30 * time.Second
	streamRetry = 2 * time.Second
)

// Pods is who wants to know.
type Pods interface {
	// Wake makes a pod's worker look.
	Wake(uid types.UID)
	// Knows reports whether a pod has a worker, or has just ended.
	Knows(uid types.UID) bool
	// Adopt ends a pod that nobody knows.
	Adopt(uid types.UID, namespace, name string)
}

// Generator watches a runtime.
type Generator struct {
	runtime runtimeapi.RuntimeServiceClient
	pods    Pods
	clock   clock.Clock
	listed  func(ok bool)
	metrics *metrics
	stream  chan bool
}

// New returns a Generator. listed, which may be nil, hears of every list
// whether the runtime answered; registerer, which may be nil too, gets the
// metrics of lists.
func New(runtime runtimeapi.RuntimeServiceClient, pods Pods, clk clock.Clock, listed func(ok bool), registerer prometheus.Registerer) *Generator {
	if listed == nil {
		listed = func(bool) {}
	}
	return &Generator{runtime, pods, clk, listed, newMetrics(registerer), make(chan bool, 1)}
}

// Run watches until ctx ends.
func (g *Generator) Run(ctx context.Context) error {
	return task.Run(ctx, g.follow, g.relist)
}

// follow reads the event stream, again and again; a runtime without one is
// left to the lists.
func (g *Generator) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		err := g.events(ctx)
		g.say(ctx, false)
		if status.Code(err) == codes.Unimplemented {
			slog.Info("the runtime has no event stream; its state is listed every second")
			<-ctx.Done()
			return ctx.Err()
		}
		timer := g.clock.NewTimer(streamRetry)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
	return ctx.Err()
}

func (g *Generator) say(ctx context.Context, streaming bool) {
	select {
	case g.stream <- streaming:
	case <-ctx.Done():
	}
}

func (g *Generator) events(ctx context.Context) error {
	stream, err := g.runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return err
	}
	said := false
	for {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !said {
			g.say(ctx, true)
			said = true
		}
		if uid := event.GetPodSandboxStatus().GetMetadata().GetUid(); uid != "" {
			g.pods.Wake(types.UID(uid))
		}
	}
}

// state is what a list says of one sandbox or container.
type state struct {
	uid   types.UID
	value int32
}

func (g *Generator) relist(ctx context.Context) error {
	var last map[string]state
	var lastAt time.Time // when the runtime was last asked and answered
	period := every
	timer := g.clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case streaming := <-g.stream:
			if period = every; streaming {
				period = safety
			}
			continue
		case <-timer.C():
		}
		began := g.clock.Now()
		now, err := g.list(ctx)
		g.listed(err == nil)
		g.metrics.observe(lastAt, began, g.clock.Now())
		if err != nil {
			if ctx.Err() == nil {
				slog.Warn("list the runtime's pods", "err", err)
			}
		} else {
			for _, uid := range changed(last, now) {
				g.pods.Wake(uid)
			}
			last, lastAt = now, began
			g.metrics.seen(began)
		}
		timer.Reset(period)
	}
}

// list returns the state of everything that bears our labels. Pods that
// nobody knows are handed over to be ended.
func (g *Generator) list(ctx context.Context) (map[string]state, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	sandboxes, err := g.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, err
	}
	containers, err := g.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	states := make(map[string]state, len(sandboxes.GetItems())+len(containers.GetContainers()))
	for _, s := range sandboxes.GetItems() {
		uid := types.UID(s.GetLabels()[cri.LabelPodUID])
		if uid == "" {
			continue
		}
		states[s.GetId()] = state{uid, int32(s.GetState())}
		if !g.pods.Knows(uid) {
			g.pods.Adopt(uid, s.GetMetadata().GetNamespace(), s.GetMetadata().GetName())
		}
	}
	for _, c := range containers.GetContainers() {
		if uid := types.UID(c.GetLabels()[cri.LabelPodUID]); uid != "" {
			states[c.GetId()] = state{uid, int32(c.GetState())}
		}
	}
	return states, nil
}

// changed returns the pods of which anything differs.
func changed(before, now map[string]state) []types.UID {
	seen := map[types.UID]bool{}
	for id, s := range now {
		if old, ok := before[id]; !ok || old != s {
			seen[s.uid] = true
		}
	}
	for id, s := range before {
		if _, ok := now[id]; !ok {
			seen[s.uid] = true
		}
	}
	uids := make([]types.UID, 0, len(seen))
	for uid := range seen {
		uids = append(uids, uid)
	}
	return uids
}
