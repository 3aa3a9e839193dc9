// Package volumestats measures what the volumes of the node's pods take up: every now and then, as a kubelet does, since counting a folder's files
// takes time. Who asks gets what was measured last.
package volumestats

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/usage"
	"howdah.dev/nodeagent/internal/volume"
)

// within is how long one volume may take. One that takes longer is not told of.
const within = 10 * time.Second

// Volumes knows where pods' volumes are, and asks their drivers.
type Volumes interface {
	Places(ctx context.Context, pod *corev1.Pod) []volume.Place
	Usage(ctx context.Context, place volume.Place) ([]*csipb.VolumeUsage, error)
}

// Config of a Keeper.
type Config struct {
	// Pods are those of the node.
	Pods    func() []*corev1.Pod
	Volumes Volumes
	// Every is how often they are measured; never where it is not positive.
	Every      time.Duration
	Clock      clock.WithTicker
	Registerer prometheus.Registerer
}

// Keeper measures volumes.
type Keeper struct {
	cfg     Config
	seconds *prometheus.HistogramVec // of measurements, by how a volume is measured

	mu    sync.Mutex
	known map[types.UID]measured
}

// measured are the volumes of a pod, in its order.
type measured struct {
	namespace string
	volumes   []usage.Volume
}

// New returns a Keeper; it measures nothing yet.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg, known: map[types.UID]measured{}, seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "kubelet_volume_metric_collection_duration_seconds", Help: "How long it took to find out what a volume takes up, by how: du, statfs, block, or the driver that was asked.",
		Buckets: prometheus.DefBuckets,
	}, []string{"metric_source"})}
	cfg.Registerer.MustRegister(collector{k}, k.seconds)
	return k
}

// Run measures until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	if k.cfg.Every <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	ticker := k.cfg.Clock.NewTicker(k.cfg.Every)
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

// Of returns what a pod's volumes took up when they were last measured. It is not to be changed.
func (k *Keeper) Of(uid types.UID) []usage.Volume {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[uid].volumes
}

// look measures the volumes of all pods that have not ended.
func (k *Keeper) look(ctx context.Context) {
	next := map[types.UID]measured{}
	for _, p := range k.cfg.Pods() {
		if pod.Finished(p) || len(p.Status.ContainerStatuses) == 0 && len(p.Status.InitContainerStatuses) == 0 {
			continue // what has not begun, or has ended, may not have its volumes
		}
		m := measured{namespace: p.Namespace}
		for _, place := range k.cfg.Volumes.Places(ctx, p) {
			began := k.cfg.Clock.Now()
			v, err := k.measure(ctx, place)
			k.seconds.WithLabelValues(way(place)).Observe(k.cfg.Clock.Since(began).Seconds())
			switch {
			case err != nil && ctx.Err() == nil:
				slog.WarnContext(ctx, "measure a volume", "namespace", p.Namespace, "pod", p.Name, "volume", place.Name, "err", err)
			case v != nil:
				m.volumes = append(m.volumes, *v)
			}
		}
		if len(m.volumes) > 0 {
			next[p.UID] = m
		}
	}
	if ctx.Err() != nil {
		return
	}
	k.mu.Lock()
	k.known = next
	k.mu.Unlock()
}

// way is a kubelet's name for how a volume is measured.
func way(place volume.Place) string {
	switch {
	case place.Driver != nil:
		return place.Driver.Driver()
	case place.Device != "":
		return "block"
	case place.Folder != "":
		return "du"
	}
	return "statfs"
}

// measure returns nil for a volume that is not there, or whose driver does not tell.
func (k *Keeper) measure(ctx context.Context, place volume.Place) (*usage.Volume, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	now := k.cfg.Clock.Now()
	out := &usage.Volume{Name: place.Name, Claim: place.Claim, At: now, Scratch: place.Scratch}
	if place.Driver != nil {
		told, err := k.cfg.Volumes.Usage(ctx, place)
		if err != nil || len(told) == 0 {
			return nil, err
		}
		tell(out, told)
		return out, nil
	}
	if place.Device != "" {
		size, err := capacity(place.Device)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		out.Capacity = &size
		return out, err
	}
	dir := place.Folder + place.Disk
	disk, err := usage.StatFilesystem(dir, now)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it could not be made yet
	}
	if err != nil {
		return nil, err
	}
	out.Capacity, out.Available, out.Inodes, out.InodesFree = &disk.Capacity, &disk.Available, &disk.Inodes, &disk.InodesFree
	out.Used, out.InodesUsed = &disk.Used, &disk.InodesUsed
	if place.Folder != "" {
		files, err := usage.Count(ctx, place.Folder, now)
		if err != nil {
			return nil, err
		}
		out.Used, out.InodesUsed = &files.Bytes, &files.Inodes
	}
	return out, nil
}

// capacity is how large a block device is. What of it is used, nobody but who uses it knows.
func capacity(path string) (uint64, error) {
	device, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer device.Close()
	end, err := device.Seek(0, io.SeekEnd)
	return uint64(max(end, 0)), err
}

// tell fills in what a driver tells.
func tell(v *usage.Volume, told []*csipb.VolumeUsage) {
	for _, u := range told {
		total, free, used := amount(u.GetTotal()), amount(u.GetAvailable()), amount(u.GetUsed())
		switch u.GetUnit() {
		case csipb.VolumeUsage_BYTES:
			v.Capacity, v.Available, v.Used = &total, &free, &used
		case csipb.VolumeUsage_INODES:
			v.Inodes, v.InodesFree, v.InodesUsed = &total, &free, &used
		}
	}
}

// amount is 0 where a driver tells less.
func amount(n int64) uint64 { return uint64(max(n, 0)) }
