// Package shutdown ends a node's pods in order, and in their own time, before its machine goes down: the kubelet's graceful node shutdown
// (https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/). What the machine is about to do is told by a Source.
package shutdown

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/task"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/statefile"
)

const (
	// tellWithin bounds the wait until the API knows how the pods ended.
	tellWithin = 5 * time.Second
	// retryBase and retryMax bound the pause after a source has failed.
	retryBase = time.Second
	retryMax  = time.Minute
)

// ErrDown says that the pods have ended and nothing is left to be done.
var ErrDown = errors.New("the node is shut down")

// Source tells of the machine's shutdown.
type Source interface {
	// Await waits until the machine is to go down, or is about to. It keeps the machine from doing so, for patience at most, until the notice is done with.
	Await(ctx context.Context, patience time.Duration) (Notice, error)
}

// Notice is one shutdown that is under way.
type Notice struct {
	// Done lets the machine go on with it.
	Done func()
	// CalledOff waits until it is called off, or until that cannot be told any more, which is the error; nil where it cannot be.
	CalledOff func(ctx context.Context) error
}

// Config of a Keeper; all but Registerer is required.
type Config struct {
	// Groups say which pods end when; without any nothing is followed.
	Groups  []Group
	Sources []Source
	// Pods are those of this node.
	Pods func() []*corev1.Pod
	// End ends a pod: nil where somebody has before, else what is closed when nothing of it runs any more.
	End func(p *corev1.Pod, why *pod.Failure) <-chan struct{}
	// Told waits until the API knows what was said of pods.
	Told func(ctx context.Context) error
	// Event tells people at the node.
	Event func(reason, message string)
	// Changed is called when the machine is about to go down, or is not any more.
	Changed func()
	// StateFile outlives the agent: when the last shutdown began and ended.
	StateFile  string
	Clock      clock.WithTicker
	Registerer prometheus.Registerer
}

// state is the content of the file.
type state struct {
	StartTime time.Time `json:"startTime,omitzero"`
	EndTime   time.Time `json:"endTime,omitzero"`
}

// Keeper ends the pods when a source says that the machine goes down.
type Keeper struct {
	cfg         Config
	began, over prometheus.Gauge

	ending sync.Mutex // held while pods end: of two sources one does it
	mu     sync.Mutex
	down   int // sources that say so
}

// New returns a Keeper; Run starts it.
func New(cfg Config) *Keeper {
	k := &Keeper{
		cfg:   cfg,
		began: prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_graceful_shutdown_start_time_seconds", Help: "When the last graceful shutdown of the node began, in seconds since 1970."}),
		over:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_graceful_shutdown_end_time_seconds", Help: "When the last graceful shutdown of the node was over, in seconds since 1970."}),
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(k.began, k.over)
	}
	return k
}

// Down reports whether the machine is about to go down: no pod is to begin.
func (k *Keeper) Down() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.down > 0
}

// Problems says in the node's condition that it goes down.
func (k *Keeper) Problems() []string {
	if k.Down() {
		return []string{"node is shutting down"}
	}
	return nil
}

// Run follows the sources until ctx ends, or until one has the node shut down for good (ErrDown).
func (k *Keeper) Run(ctx context.Context) error {
	if len(k.cfg.Groups) == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	var last state
	if statefile.Read(k.cfg.StateFile, &last) == nil { // there may be none
		k.measure(last)
	}
	parts := make([]task.Func, len(k.cfg.Sources))
	for i, source := range k.cfg.Sources {
		parts[i] = func(ctx context.Context) error { return k.follow(ctx, source) }
	}
	return task.Run(ctx, parts...)
}

// follow asks one source again and again. What goes on being wrong is said once: a node that is a container has no bus, and need not have one.
func (k *Keeper) follow(ctx context.Context, source Source) error {
	retry, said := retryBase, ""
	for {
		notice, err := source.Await(ctx, Total(k.cfg.Groups))
		if err == nil {
			retry, said = retryBase, ""
			err = k.shutDown(ctx, notice)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrDown):
			return err
		case err == nil:
			continue
		}
		if said != err.Error() {
			said = err.Error()
			slog.WarnContext(ctx, "the machine's shutdown cannot be followed", "err", err)
		}
		if !k.pause(ctx, retry) {
			return ctx.Err()
		}
		retry = min(2*retry, retryMax)
	}
}

func (k *Keeper) pause(ctx context.Context, d time.Duration) bool {
	timer := k.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// shutDown ends the pods and lets the machine go on; it returns nil once the shutdown is called off, and ErrDown where it cannot be.
func (k *Keeper) shutDown(ctx context.Context, notice Notice) error {
	k.turn(1)
	k.cfg.Event("NodeShutdown", "Shutdown manager detected shutdown event")
	k.endPods(ctx)
	notice.Done()
	if notice.CalledOff == nil {
		return ErrDown
	}
	if err := notice.CalledOff(ctx); err != nil {
		k.turn(-1) // the source says so again where the machine goes down nevertheless
		return err
	}
	k.turn(-1)
	k.cfg.Event("NodeShutdown", "Shutdown manager detected shutdown cancellation")
	return nil
}

func (k *Keeper) turn(by int) {
	k.mu.Lock()
	k.down += by
	k.mu.Unlock()
	k.cfg.Changed()
}

// endPods ends one round after the other, each as soon as nothing of the one before runs, or its time is over.
func (k *Keeper) endPods(ctx context.Context) {
	k.ending.Lock()
	defer k.ending.Unlock()
	now := state{StartTime: k.cfg.Clock.Now()}
	k.keep(now)
	slog.InfoContext(ctx, "the machine goes down: ending the pods")
	for _, round := range Rounds(k.cfg.Groups, k.cfg.Pods()) {
		k.endRound(ctx, round)
	}
	tellCtx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	if err := k.cfg.Told(tellCtx); err != nil {
		slog.WarnContext(ctx, "the API may not know how all pods have ended", "err", err)
	}
	now.EndTime = k.cfg.Clock.Now()
	k.keep(now)
	slog.InfoContext(ctx, "the pods have ended", "seconds", now.EndTime.Sub(now.StartTime).Seconds())
}

func (k *Keeper) endRound(ctx context.Context, round Round) {
	timer := k.cfg.Clock.NewTimer(round.Grace)
	defer timer.Stop()
	var ended []<-chan struct{}
	for _, p := range round.Pods {
		if stopped := k.cfg.End(p, round.Why(p)); stopped != nil {
			ended = append(ended, stopped)
		}
	}
	for _, stopped := range ended {
		select {
		case <-stopped:
		case <-ctx.Done():
			return
		case <-timer.C():
			slog.WarnContext(ctx, "not all pods have ended in time", "pods", len(round.Pods), "after", round.Grace.String())
			return
		}
	}
}

// keep notes how far it is. The machine goes down whether or not that can be written.
func (k *Keeper) keep(s state) {
	k.measure(s)
	if err := statefile.Write(k.cfg.StateFile, s); err != nil {
		slog.Warn("note the shutdown", "err", err)
	}
}

func (k *Keeper) measure(s state) {
	for gauge, at := range map[prometheus.Gauge]time.Time{k.began: s.StartTime, k.over: s.EndTime} {
		seconds := 0.0
		if !at.IsZero() {
			seconds = float64(at.UnixMilli()) / 1000
		}
		gauge.Set(seconds)
	}
}
