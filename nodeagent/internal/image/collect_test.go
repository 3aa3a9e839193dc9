package image

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/nodeagent/internal/verify"
)

// store is a runtime with images and containers, on a disk of 1000 bytes.
type store struct {
	runtimeapi.ImageServiceClient
	images     []*runtimeapi.Image
	containers []*runtimeapi.Container
	others     int64 // bytes of the disk that are not images
	stuck      string
}

func (s *store) add(name string, size uint64) {
	s.images = append(s.images, &runtimeapi.Image{Id: "sha256:" + name, RepoTags: []string{"docker.io/library/" + name + ":1"}, Size: size})
}

func (s *store) run(name string) {
	s.containers = append(s.containers, &runtimeapi.Container{ImageRef: "sha256:" + name, Image: &runtimeapi.ImageSpec{Image: "sha256:" + name}})
}

func (s *store) ListImages(context.Context, *runtimeapi.ListImagesRequest, ...grpc.CallOption) (*runtimeapi.ListImagesResponse, error) {
	return &runtimeapi.ListImagesResponse{Images: slices.Clone(s.images)}, nil
}

func (s *store) ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: s.containers}, nil
}

func (s *store) RemoveImage(_ context.Context, in *runtimeapi.RemoveImageRequest, _ ...grpc.CallOption) (*runtimeapi.RemoveImageResponse, error) {
	if in.GetImage().GetImage() == s.stuck {
		return nil, fmt.Errorf("%s is stuck", s.stuck)
	}
	s.images = slices.DeleteFunc(s.images, func(i *runtimeapi.Image) bool { return i.GetId() == in.GetImage().GetImage() })
	return &runtimeapi.RemoveImageResponse{}, nil
}

func (s *store) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest, ...grpc.CallOption) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/images"}}}}, nil
}

func (s *store) disk(mountpoint string) (disk, error) {
	used := s.others
	for _, i := range s.images {
		used += int64(i.GetSize())
	}
	if mountpoint != "/images" {
		return disk{}, fmt.Errorf("nothing lies at %s", mountpoint)
	}
	return disk{1000, 1000 - used}, nil
}

// names are those of the images that are there.
func (s *store) names() string {
	var out []string
	for _, i := range s.images {
		out = append(out, strings.TrimPrefix(i.GetId(), "sha256:"))
	}
	return strings.Join(out, " ")
}

// collecting is a collector over a store, and what changes about it.
type collecting struct {
	*Collector
	*store
	t       *testing.T
	records *verify.Records
	clock   *clocktesting.FakeClock
	wanted  []string
	short   bool
	failed  []string
}

func newCollecting(t *testing.T, keep Keep) *collecting {
	t.Helper()
	c := &collecting{t: t, store: &store{}, clock: clocktesting.NewFakeClock(time.Unix(1000, 0))}
	c.records = verify.New(verify.Config{Dir: t.TempDir(), Clock: c.clock})
	var err error
	if c.Collector, err = NewCollector(CollectorConfig{
		Images: c.store, Containers: c.store, Records: c.records, Keep: keep, Clock: c.clock, Wanted: func() []string { return c.wanted }, Short: func() bool { return c.short },
		Failed: func(message string) { c.failed = append(c.failed, message) },
	}); err != nil {
		t.Fatal(err)
	}
	c.space = c.store.disk
	return c
}

// after lets time pass, collects, and says what is left.
func (c *collecting) after(d time.Duration, want string) {
	c.t.Helper()
	c.clock.Step(d)
	if err := c.collect(context.Background(), c.cfg.Short()); err != nil {
		c.t.Fatal(err)
	}
	if got := c.names(); got != want {
		c.t.Errorf("left: %q, want %q", got, want)
	}
}

func TestImagesGoWhenTheDiskFillsUp(t *testing.T) {
	t.Parallel()
	c := newCollecting(t, Defaults)
	for _, name := range []string{"running", "named", "volume", "pinned", "old", "older", "never"} {
		c.add(name, 100)
	}
	c.images[3].Pinned = true
	c.run("running")
	c.wanted = []string{"named:1", "docker.io/library/volume:1", "old:1", "older:1"}
	c.after(0, "running named volume pinned old older never")
	c.wanted = []string{"named:1", "docker.io/library/volume:1", "old:1"}
	c.after(time.Minute, "running named volume pinned old older never")
	c.wanted = c.wanted[:2]
	c.others = 139
	c.after(time.Minute, "running named volume pinned old older never") // 83.9 %
	c.add("new", 10)
	c.after(time.Minute, "running named volume pinned old older new") // 84.9 %, and a share counts as the next whole one: what nobody ever needed goes first, and one is enough
	c.others = 360
	c.after(0, "running named volume pinned new") // what was needed last goes last; what has just come stays
	if len(c.failed) > 0 {
		t.Errorf("failed: %q", c.failed)
	}
	c.others = 550 // 960 bytes
	c.after(0, "running named volume pinned new")
	if want := "Failed to garbage collect required amount of images. Attempted to free 160 bytes, but only found 0 bytes eligible to free."; len(c.failed) != 1 || c.failed[0] != want {
		t.Errorf("failed: %q, want %q", c.failed, want)
	}
	if n := testutil.ToFloat64(c.removed.WithLabelValues("space")); n != 3 {
		t.Errorf("counted %v images", n)
	}
}

func TestShortOfDisk(t *testing.T) {
	t.Parallel()
	c := newCollecting(t, Keep{High: 100, Low: 99, Least: time.Hour})
	c.add("running", 100)
	c.run("running")
	c.add("idle", 1)
	c.others = 890
	c.after(0, "running idle") // collection by the disk's share is off
	c.short = true
	c.after(0, "running")
	if len(c.failed) > 0 {
		t.Errorf("failed: %q", c.failed)
	}
}

func TestImagesAge(t *testing.T) {
	t.Parallel()
	c := newCollecting(t, Keep{High: 85, Low: 80, Most: time.Hour})
	c.add("used", 1)
	c.add("unused", 1)
	c.run("used")
	c.after(0, "used unused")
	c.after(time.Hour, "used unused")
	c.after(time.Second, "used")
	c.containers = nil
	c.after(time.Hour, "used")
	c.after(time.Second, "")
	if n := testutil.ToFloat64(c.removed.WithLabelValues("age")); n != 2 {
		t.Errorf("counted %v images", n)
	}
}

// One that cannot be removed keeps no other.
func TestStuckImage(t *testing.T) {
	t.Parallel()
	c := newCollecting(t, Defaults)
	c.add("a", 400)
	c.add("b", 500)
	c.stuck = "sha256:a"
	c.after(0, "a b")
	c.short = true
	if err := c.collect(context.Background(), c.cfg.Short()); err == nil || !strings.Contains(err.Error(), "remove image sha256:a: sha256:a is stuck") {
		t.Errorf("error %v", err)
	}
	if got := c.names(); got != "a" {
		t.Errorf("left: %q", got)
	}
}

func TestNeed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		keep Keep
		d    disk
		want int64
	}{
		{Defaults, disk{1000, 160}, 0},
		{Defaults, disk{1000, 159}, 41},
		{Defaults, disk{1000, 150}, 50},
		{Defaults, disk{1000, 0}, 200},
		{Keep{High: 100, Low: 50}, disk{1000, 0}, 0},
		{Defaults, disk{}, 0},
		{Defaults, disk{math.MaxInt64 / 200, 0}, math.MaxInt64 / 200 * 20 / 100},
	} {
		if got := tt.keep.need(tt.d); got != tt.want {
			t.Errorf("%+v of %+v: %d, want %d", tt.keep, tt.d, got, tt.want)
		}
	}
}

func TestCollectorsSettings(t *testing.T) {
	t.Parallel()
	for _, keep := range []Keep{{High: 80, Low: 80}, {High: 101, Low: 80}, {High: 85, Low: -1}, {High: 85, Low: 80, Least: -1}, {High: 85, Low: 80, Most: -1}, {High: 85, Low: 80, Least: 2, Most: 1}, {High: 85, Low: 80, Least: 2, Most: 2}} {
		if _, err := NewCollector(CollectorConfig{Keep: keep}); err == nil {
			t.Errorf("%+v is taken", keep)
		}
	}
}

// The record of a pull goes with its image, in the same round.
func TestRecordsGoWithImages(t *testing.T) {
	t.Parallel()
	c := newCollecting(t, Defaults)
	for _, name := range []string{"running", "idle"} {
		c.add(name, 100)
		full := "docker.io/library/" + name + ":1"
		if err := c.records.Begin(full, ""); err != nil {
			t.Fatal(err)
		}
		c.records.Came(full, "sha256:"+name, verify.Source{Kind: verify.KindSecret, Name: "s", UID: "u"})
	}
	c.run("running")
	pulled := func(name string) bool {
		may, err := c.records.May(verify.Ask{Written: name + ":1", Name: "docker.io/library/" + name + ":1", ID: "sha256:" + name, Sources: func() ([]verify.Source, error) { return nil, nil }})
		return err == nil && !may
	}
	c.after(0, "running idle")
	if !pulled("running") || !pulled("idle") {
		t.Error("images that are there lose their records")
	}
	c.short = true
	c.after(0, "running")
	if !pulled("running") || pulled("idle") {
		t.Error("records are not those of the images that are there")
	}
}
