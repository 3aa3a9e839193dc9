package pressure

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/usage"
)

const (
	// every is how often the node is looked at.
	every = 10 * time.Second
	// within bounds what one look does beside waiting for a pod's end.
	within = 3 * time.Minute
	// patience is how long a pod that ends may take beyond its grace until another is looked for.
	patience = 30 * time.Second
)

// Config of a Keeper; all but Registerer is required.
type Config struct {
	Settings Settings
	// Room reads what is left on the machine, Read what pods use.
	Usage interface {
		Room(ctx context.Context) (usage.Room, error)
		Read(ctx context.Context) *usage.Reading
	}
	// Pods are those of this node.
	Pods func() []*corev1.Pod
	// End ends a pod: nil where somebody has before, else what is closed when nothing of it runs any more.
	End func(p *corev1.Pod, why *pod.Failure) <-chan struct{}
	// Sweep removes what pods that have ended left, Images all images that nobody needs.
	Sweep, Images func(ctx context.Context) error
	// Events tells of what was done.
	Events Events
	// Changed is called when the node has become short of something, or is so no more.
	Changed func()
	// Evicted counts.
	Evicted func(signal string)
	// RootDir holds the pods' volumes.
	RootDir    string
	Clock      clock.WithTicker
	Registerer prometheus.Registerer
}

// Events tells people.
type Events interface {
	// Evicted tells that a pod ends.
	Evicted(p *corev1.Pod, annotations map[string]string, message string)
	// Reclaiming tells that the node tries to get some of a resource back.
	Reclaiming(resource corev1.ResourceName)
}

// Keeper looks at the node, tells what it is short of, and ends one pod after the other until it is not.
type Keeper struct {
	cfg Config
	age *prometheus.HistogramVec

	mu    sync.Mutex
	state State
	short Conditions
}

// New returns a Keeper; Run starts it.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg, age: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "kubelet_eviction_stats_age_seconds", Help: "How old what was read of the node was when a pod was ended because of it, by what of.",
		Buckets: prometheus.DefBuckets,
	}, []string{"eviction_signal"})}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(k.age)
	}
	return k
}

// Short is what the node is short of, as of the last look.
func (k *Keeper) Short() Conditions {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.short
}

// Run looks at once, and again ten seconds after a look and what it led to, until ctx ends: what a pod that has ended had is to be free by then.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		k.round(ctx)
		timer := k.cfg.Clock.NewTimer(every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
	}
}

// round looks, and where a threshold says so gets something back: from what nobody needs, or else from one pod, whose end it waits for.
func (k *Keeper) round(ctx context.Context) {
	lookCtx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	seen, layout, due := k.Look(lookCtx)
	if len(due) == 0 {
		return
	}
	first := due[0]
	resource := first.Signal.kind().resource
	slog.WarnContext(ctx, "the node is short of something", "signal", string(first.Signal), "available", first.Signal.quantity(seen[first.Signal].Available), "hard", first.Hard)
	k.cfg.Events.Reclaiming(resource)
	if k.reclaim(lookCtx, layout.Reclaims(first.Signal)) {
		if seen, layout, due = k.Look(lookCtx); len(due) == 0 {
			return
		}
		first = due[0]
	}
	if ended := k.evict(lookCtx, first, seen[first.Signal], layout); ended != nil {
		k.await(ctx, ended, first)
	}
}

// Look reads what is left and says for which thresholds something is to be done. What cannot be read is not judged.
func (k *Keeper) Look(ctx context.Context) (Observations, Layout, []Threshold) {
	room, err := k.cfg.Usage.Room(ctx)
	if err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "look at what is left on the node", "err", err)
	}
	seen, layout := Look(room)
	k.mu.Lock()
	before := k.short
	var due []Threshold
	k.state, k.short, due = k.state.Next(k.cfg.Settings, seen, k.cfg.Clock.Now())
	changed := before != k.short
	k.mu.Unlock()
	if changed {
		k.cfg.Changed()
	}
	return seen, layout, due
}

// reclaim removes what nobody needs, and reports whether there was anything to try.
func (k *Keeper) reclaim(ctx context.Context, what Reclaim) bool {
	for _, one := range []struct {
		wanted bool
		do     func(ctx context.Context) error
	}{{what.Dead, k.cfg.Sweep}, {what.Images, k.cfg.Images}} {
		if !one.wanted {
			continue
		}
		if err := one.do(ctx); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "remove what nobody needs", "err", err)
		}
	}
	return what != Reclaim{}
}

// evict ends the first pod that can be ended; nil where there is none.
func (k *Keeper) evict(ctx context.Context, t Threshold, o Observation, l Layout) <-chan struct{} {
	for _, c := range Rank(k.candidates(ctx), t.Signal, l) {
		why, annotations := Why(t, o, &c, k.cfg.Settings.MaxPodGrace)
		ended := k.cfg.End(c.Pod, why)
		if ended == nil {
			continue
		}
		slog.WarnContext(ctx, "pod evicted", "namespace", c.Pod.Namespace, "name", c.Pod.Name, "uid", c.Pod.UID, "signal", string(t.Signal))
		k.cfg.Events.Evicted(c.Pod, annotations, why.Message)
		k.cfg.Evicted(string(t.Signal))
		k.age.WithLabelValues(string(t.Signal)).Observe(k.cfg.Clock.Since(o.At).Seconds())
		return ended
	}
	slog.WarnContext(ctx, "no pod can be evicted", "signal", string(t.Signal))
	return nil
}

// await waits for a pod's end, and not for ever: one that does not end is no reason to let the node run out.
func (k *Keeper) await(ctx context.Context, ended <-chan struct{}, t Threshold) {
	wait := patience
	if !t.Hard {
		wait += time.Duration(k.cfg.Settings.MaxPodGrace) * time.Second
	}
	timer := k.cfg.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-ended:
	case <-timer.C():
		slog.WarnContext(ctx, "an evicted pod has not ended yet", "after", wait.String())
	}
}
