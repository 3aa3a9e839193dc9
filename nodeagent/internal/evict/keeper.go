package evict

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/usage"
)

const (
	// every is how often pods are looked at.
	every = 10 * time.Second
	// within bounds a look: a volume with more files than can be counted until then is not judged.
	within = 30 * time.Second
)

// Config of a Keeper.
type Config struct {
	// Pods are those of this node.
	Pods func() []*corev1.Pod
	// Usage makes readings.
	Usage interface {
		Read(ctx context.Context) *usage.Reading
	}
	// Evict ends a pod, and reports whether nobody had before.
	Evict func(p *corev1.Pod, why *pod.Failure) bool
	// RootDir holds the pods' volumes.
	RootDir    string
	Clock      clock.WithTicker
	Registerer prometheus.Registerer
}

// Keeper holds pods to the limits of what they may take up on disk. Pods without such limits cost it nothing.
type Keeper struct {
	cfg       Config
	evictions *prometheus.CounterVec
}

// New returns a Keeper; Run starts it.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg, evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubelet_evictions", Help: "Pods that were ended because they used too much, by what of.",
	}, []string{"eviction_signal"})}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(k.evictions)
	}
	return k
}

// Run looks every ten seconds until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	ticker := k.cfg.Clock.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
			k.look(ctx)
		}
	}
}

// Count counts a pod that ended for what the signal is about.
func (k *Keeper) Count(signal string) { k.evictions.WithLabelValues(signal).Inc() }

// look ends the pods that use too much now.
func (k *Keeper) look(ctx context.Context) {
	var limited []*corev1.Pod
	for _, p := range k.cfg.Pods() {
		if Limited(p) && !pod.Critical(p) && !pod.Finished(p) && p.DeletionTimestamp == nil {
			limited = append(limited, p)
		}
	}
	if len(limited) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	reading := k.cfg.Usage.Read(ctx)
	for _, p := range limited {
		used, err := k.used(ctx, p, reading)
		if err != nil {
			slog.WarnContext(ctx, "measure a pod's volumes", "namespace", p.Namespace, "name", p.Name, "uid", p.UID, "err", err)
			continue
		}
		if signal, why := Exceeded(p, used); why != nil && k.cfg.Evict(p, why) {
			k.Count(signal)
		}
	}
}

// used adds up what a pod takes up.
func (k *Keeper) used(ctx context.Context, p *corev1.Pod, reading *usage.Reading) (Used, error) {
	used := Used{Containers: map[string]int64{}, Volumes: map[string]int64{}}
	for i := range reading.Pods {
		if reading.Pods[i].UID != p.UID {
			continue
		}
		for _, c := range reading.Pods[i].Containers {
			for _, files := range []*usage.Files{c.Rootfs, c.Logs} {
				if files != nil {
					used.Containers[c.Name] += int64(files.Bytes)
				}
			}
		}
	}
	volumes, err := Volumes(ctx, k.cfg.RootDir, p)
	for name, files := range volumes {
		used.Volumes[name] = files.Bytes
	}
	return used, err
}
