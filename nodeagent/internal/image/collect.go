package image

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/verify"
)

const (
	// collectEvery is how often the collector looks.
	collectEvery = time.Minute
	callTimeout  = 2 * time.Minute
)

// CollectorConfig is what a Collector needs; all of it but Registerer is required.
type CollectorConfig struct {
	Images     runtimeapi.ImageServiceClient
	Containers interface {
		ListContainers(ctx context.Context, in *runtimeapi.ListContainersRequest, opts ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error)
	}
	// Records forget the images that are gone.
	Records interface {
		Mark() int64
		Sweep(images []verify.Image, mark int64)
	}
	Keep Keep
	// Wanted are the images that pods of the node name, as they name them.
	Wanted func() []string
	// Short says that the node has DiskPressure: whatever nobody needs goes.
	Short func() bool
	// Failed is told when the images cannot give back what they should.
	Failed     func(message string)
	Clock      clock.WithTicker
	Registerer prometheus.Registerer
}

// Collector removes the images that no pod needs when the disk fills up.
type Collector struct {
	cfg     CollectorConfig
	mu      sync.Mutex // one collection after the other
	known   map[string]record
	removed *prometheus.CounterVec
	space   func(mountpoint string) (disk, error)
}

// NewCollector checks the configuration; it starts nothing.
func NewCollector(cfg CollectorConfig) (*Collector, error) {
	if k := cfg.Keep; k.High < 0 || k.High > 100 || k.Low < 0 || k.Low > 100 || k.Low >= k.High || k.Least < 0 || k.Most < 0 {
		return nil, fmt.Errorf("image collection from %d%% to %d%% of the disk, after %v, at most %v: the second share has to be below the first, and nothing negative", k.High, k.Low, k.Least, k.Most)
	}
	if k := cfg.Keep; k.Most > 0 && k.Most <= k.Least {
		return nil, fmt.Errorf("images that nobody needs stay at most %v: that has to be more than the %v that all stay at least", k.Most, k.Least)
	}
	c := &Collector{cfg: cfg, known: map[string]record{}, space: statfs, removed: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubelet_image_garbage_collected_total", Help: "Images that were removed, because of the space that they take or their age.",
	}, []string{"reason"})}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(c.removed); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Run looks at once and then every minute, until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	ticker := c.cfg.Clock.NewTicker(collectEvery)
	defer ticker.Stop()
	for {
		if err := c.collect(ctx, c.cfg.Short()); err != nil && ctx.Err() == nil {
			slog.Warn("collect images", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
	}
}

// RemoveUnused removes at once all images that nobody needs, however young they are.
func (c *Collector) RemoveUnused(ctx context.Context) error { return c.collect(ctx, true) }

// collect looks at what is there and removes what is to go; all that nobody needs where the node is short.
func (c *Collector) collect(ctx context.Context, short bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now, mark := c.cfg.Clock.Now(), c.cfg.Records.Mark()
	here, err := c.look(ctx, now)
	if err != nil {
		return err
	}
	defer func() {
		here = slices.DeleteFunc(here, func(i verify.Image) bool { _, stays := c.known[i.ID]; return !stays })
		c.cfg.Records.Sweep(here, mark)
	}()
	d, err := c.disk(ctx)
	if err != nil {
		return err
	}
	keep, need := c.cfg.Keep, c.cfg.Keep.need(d)
	if short {
		keep.Least, need = 0, math.MaxInt64
	}
	var records []record
	for _, r := range c.known {
		records = append(records, r)
	}
	byAge, bySpace, lacking := surplus(records, keep, need, now)
	var problems []error
	for reason, list := range map[string][]record{"age": byAge, "space": bySpace} {
		for _, r := range list {
			if _, err := c.cfg.Images.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: r.id}}); err != nil {
				problems = append(problems, fmt.Errorf("remove image %s: %w", r.id, plain(err)))
				continue
			}
			slog.Info("image removed", "image", r.id, "bytes", r.size, "reason", reason)
			c.removed.WithLabelValues(reason).Inc()
			delete(c.known, r.id)
		}
	}
	if need > 0 && lacking > 0 && need < math.MaxInt64 {
		c.cfg.Failed(fmt.Sprintf("Failed to garbage collect required amount of images. Attempted to free %d bytes, but only found %d bytes eligible to free.", need, need-lacking))
	}
	return errors.Join(problems...)
}

// look brings the records up to date. An image is needed by containers, whether they run or not, and by pods that name it: they are about to make some.
func (c *Collector) look(ctx context.Context, now time.Time) ([]verify.Image, error) {
	images, err := c.cfg.Images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list images: %w", plain(err))
	}
	// After the images: one that came since cannot be taken for one that nobody needs.
	containers, err := c.cfg.Containers.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", plain(err))
	}
	needed := map[string]bool{}
	for _, container := range containers.GetContainers() {
		needed[container.GetImageRef()], needed[container.GetImageId()], needed[container.GetImage().GetImage()] = true, true, true
	}
	for _, name := range c.cfg.Wanted() {
		needed[name] = true
		if full, err := Normalize(name); err == nil {
			needed[full] = true
		}
	}
	known := map[string]record{}
	for _, image := range images.GetImages() {
		r, ok := c.known[image.GetId()]
		if !ok {
			r = record{id: image.GetId(), seen: now}
		}
		r.size, r.pinned, r.needed = int64(image.GetSize()), image.GetPinned(), needed[image.GetId()]
		for _, names := range [][]string{image.GetRepoTags(), image.GetRepoDigests()} {
			for _, name := range names {
				r.needed = r.needed || needed[name]
			}
		}
		if r.needed {
			r.lastUsed = now
		}
		known[r.id] = r
	}
	c.known = known
	return described(images.GetImages()), nil
}

// described are images for records of pulls.
func described(images []*runtimeapi.Image) []verify.Image {
	var out []verify.Image
	for _, i := range images {
		out = append(out, verify.Image{ID: i.GetId(), Names: slices.Concat(i.GetRepoTags(), i.GetRepoDigests())})
	}
	return out
}

// disk measures the file system that the runtime keeps images on.
func (c *Collector) disk(ctx context.Context) (disk, error) {
	info, err := c.cfg.Images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return disk{}, fmt.Errorf("ask where images lie: %w", plain(err))
	}
	for _, fs := range info.GetImageFilesystems() {
		return c.space(fs.GetFsId().GetMountpoint())
	}
	return disk{}, errors.New("the runtime does not say where images lie")
}

func statfs(mountpoint string) (disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(mountpoint, &s); err != nil {
		return disk{}, fmt.Errorf("statfs %s: %w", mountpoint, err)
	}
	return disk{int64(s.Blocks) * s.Bsize, int64(s.Bavail) * s.Bsize}, nil
}
