// Package collect sends what containers write to the service that keeps it: it follows the files of the runtime, through rotation and the ends of pods, and
// remembers on disk how far it has come.
//
// Each line has a position in its run, which follows from the files alone. Lines go in batches, one at a time; what is not acknowledged is sent again, and
// the service leaves out what it has. So each line that the node still has is stored once, whoever is away meanwhile.
package collect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/obs"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/statefile"
	logsv1 "howdah.dev/proto/gen/howdah/logs/v1"
)

const (
	// lookEvery is how often it is looked what has grown, saveEvery how often at most what was sent is noted.
	lookEvery = time.Second
	saveEvery = 5 * time.Second
	// settled is how old the change of a folder has to be for its time to tell of the next one.
	settled = 2 * time.Second

	callTimeout = 30 * time.Second
	askTimeout  = 2 * time.Second
	minPause    = time.Second
	maxPause    = 30 * time.Second

	// A batch has at most so many lines, and about so many bytes; of one run so many, that others have their turn.
	maxLines    = 5000
	maxBatch    = 1 << 20
	maxRunBatch = 128 << 10
	maxRuns     = 500

	// unknownFor is how long the service may not know a pod.
	unknownFor = 10 * time.Minute
	// maxPinned is how much of files that are removed is kept for being sent, in bytes.
	maxPinned = 256 << 20

	// DefaultRate is how many bytes a second are sent of a container, over a while.
	DefaultRate = 256 << 10
)

// Pusher takes lines.
type Pusher = logsv1.CollectServiceClient

// Config of a Collector.
type Config struct {
	Pusher Pusher
	// Containers returns the containers with a pod's UID.
	Containers func(ctx context.Context, uid string) ([]*runtimeapi.Container, error)
	// LogDir is where the runtime writes, RootDir where the agent keeps what is its own.
	LogDir, RootDir string
	// Rate is how many bytes a second are sent of a container, over a while; DefaultRate where 0.
	Rate       int64
	Clock      clock.WithTicker
	Registerer prometheus.Registerer
}

// Containers asks a runtime.
func Containers(runtime runtimeapi.RuntimeServiceClient) func(ctx context.Context, uid string) ([]*runtimeapi.Container, error) {
	return func(ctx context.Context, uid string) ([]*runtimeapi.Container, error) {
		resp, err := runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: map[string]string{cri.LabelPodUID: uid}}})
		return resp.GetContainers(), err
	}
}

// folder is a folder that was looked at.
type folder struct {
	changed time.Time // as it was then; zero where that may not tell of the next change
	names   []string
}

// Collector follows a node's logs.
type Collector struct {
	cfg     Config
	metrics *metrics

	mu      sync.Mutex // of all below
	runs    map[key]*run
	folders map[string]folder
	before  map[key]saved // of an earlier life of the agent, which it has not met yet
	tick    int
	dirty   bool
	urgent  bool // what was sent is to be noted before more is
	savedAt time.Time
	turn    int
	buffer  []byte
}

// New returns a collector; nothing is read before Run, but Leaving may be called.
func New(cfg Config) *Collector {
	if cfg.Rate == 0 {
		cfg.Rate = DefaultRate
	}
	cfg.LogDir = filepath.Clean(cfg.LogDir)
	c := &Collector{cfg: cfg, runs: map[key]*run{}, folders: map[string]folder{}, buffer: make([]byte, block)}
	c.metrics = newMetrics(cfg.Registerer, c.backlog)
	c.before = load(checkpoint(cfg.RootDir))
	return c
}

// Leaving says that files below a path are going to be removed: those that are there are kept open until they are sent.
func (c *Collector) Leaving(path string) {
	rest, ok := strings.CutPrefix(filepath.Clean(path), c.cfg.LogDir+string(filepath.Separator))
	if !ok {
		return
	}
	pod, _, _ := strings.Cut(rest, string(filepath.Separator))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lookPod(pod, true)
}

// Run collects until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	defer c.stop()
	for {
		c.look()
		for ctx.Err() == nil {
			c.identify(ctx)
			b := c.gather()
			if b == nil {
				break
			}
			if !c.deliver(ctx, b) {
				c.takeBack(b)
				return ctx.Err()
			}
			c.look()
		}
		c.save(false)
		if !c.sleep(ctx, lookEvery) {
			return ctx.Err()
		}
	}
}

// stop notes what was sent, and closes the files.
func (c *Collector) stop() {
	c.save(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.runs {
		r.close()
	}
}

func (c *Collector) sleep(ctx context.Context, d time.Duration) bool {
	timer := c.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// look finds out which files there are, where folders have changed.
func (c *Collector) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tick++
	pods, changed := c.list(c.cfg.LogDir, false)
	for _, pod := range pods {
		c.lookPod(pod, false)
	}
	if changed {
		c.miss(pods)
	}
	c.settle()
}

// miss takes in that pods' folders are gone.
func (c *Collector) miss(pods []string) {
	there := map[string]bool{}
	for _, pod := range pods {
		there[pod] = true
	}
	for k, r := range c.runs {
		if !there[k.Namespace+"_"+k.Pod+"_"+k.UID] {
			r.removed = true
		}
	}
	for path := range c.folders {
		rest, ok := strings.CutPrefix(path, c.cfg.LogDir+string(filepath.Separator))
		if pod, _, _ := strings.Cut(rest, string(filepath.Separator)); ok && !there[pod] {
			delete(c.folders, path)
		}
	}
}

// list returns the names in a folder, sorted, and whether they may be others than before.
func (c *Collector) list(path string, force bool) (names []string, changed bool) {
	info, err := os.Stat(path)
	if err != nil {
		old := c.folders[path]
		delete(c.folders, path)
		return nil, len(old.names) > 0
	}
	old, known := c.folders[path]
	if known && !force && !old.changed.IsZero() && info.ModTime().Equal(old.changed) {
		return old.names, false
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return old.names, false
	}
	f := folder{names: make([]string, 0, len(entries))}
	for _, e := range entries {
		f.names = append(f.names, e.Name())
	}
	if c.cfg.Clock.Since(info.ModTime()) > settled {
		f.changed = info.ModTime()
	}
	c.folders[path] = f
	return f.names, true
}

// lookPod finds out which files a pod has.
func (c *Collector) lookPod(name string, force bool) {
	namespace, pod, uid, ok := parsePod(name)
	if !ok {
		return
	}
	dir := filepath.Join(c.cfg.LogDir, name)
	containers, fewer := c.list(dir, force)
	for _, container := range containers {
		if names, changed := c.list(filepath.Join(dir, container), force); changed {
			c.lookContainer(key{Namespace: namespace, Pod: pod, UID: uid, Container: container}, names)
		}
	}
	if !fewer {
		return
	}
	for k, r := range c.runs {
		if k.UID == uid && k.Pod == pod && k.Namespace == namespace && !slices.Contains(containers, k.Container) {
			r.removed = true
		}
	}
}

// lookContainer takes in the files of a container's runs.
func (c *Collector) lookContainer(k key, names []string) {
	files := map[int][]string{}
	newest := -1
	for _, name := range names {
		if attempt, ok := parseFile(name); ok {
			files[attempt] = append(files[attempt], name)
			newest = max(newest, attempt)
		}
	}
	dir := filepath.Join(c.cfg.LogDir, k.folder())
	for attempt, names := range files {
		k.Attempt = attempt
		aside(names)
		r := c.runs[k]
		switch {
		case r == nil:
			r = &run{key: k, read: map[string]bool{}}
			c.runs[k] = r
			s, known := c.before[k]
			for _, name := range s.Read {
				r.read[name] = true
			}
			lost := r.follow(dir, names, c.tick)
			if known {
				delete(c.before, k)
				c.urgent = r.restore(s) || c.urgent
			}
			c.lose(r, lost)
		case !r.done:
			r.removed = false
			c.lose(r, r.follow(dir, names, c.tick))
		}
		r.over = r.over || attempt < newest
	}
	for other, r := range c.runs {
		if attempt := other.Attempt; files[attempt] == nil {
			if other.Attempt = k.Attempt; other == k {
				r.removed = true
			}
		}
	}
}

// aside brings the file that is written to behind those that rotation has put aside.
func aside(names []string) {
	slices.SortFunc(names, func(a, b string) int {
		if current := strings.HasSuffix(a, ".log"); current != strings.HasSuffix(b, ".log") {
			if current {
				return 1
			}
			return -1
		}
		return strings.Compare(a, b)
	})
}

// settle lets go of what is sent, and of what is too much.
func (c *Collector) settle() {
	var pinned int64
	var gone []*run
	for k, r := range c.runs {
		if r.removed && (r.done || len(r.files) == 0) {
			r.close()
			delete(c.runs, k)
			c.dirty = true
			continue
		}
		if r.removed {
			gone, pinned = append(gone, r), pinned+r.backlog()
		}
	}
	slices.SortFunc(gone, func(a, b *run) int { return a.files[0].tick - b.files[0].tick })
	for _, r := range gone {
		if pinned <= maxPinned {
			return
		}
		for r.cursor.file < len(r.files) {
			lost := r.giveUp()
			pinned -= lost
			c.lose(r, lost)
		}
	}
}

func (c *Collector) lose(r *run, bytes int64) {
	if bytes > 0 {
		c.metrics.lost.Add(float64(bytes))
		slog.Warn("lines are lost: they could not be sent in time", "namespace", r.Namespace, "name", r.Pod, "container", r.Container, "bytes", bytes)
	}
}

// identify asks the runtime for the ids of new runs.
func (c *Collector) identify(ctx context.Context) {
	unnamed := map[string][]*run{}
	c.mu.Lock()
	for _, r := range c.runs {
		if r.id == "" {
			unnamed[r.UID] = append(unnamed[r.UID], r)
		}
	}
	c.mu.Unlock()
	for uid, runs := range unnamed {
		asked, cancel := context.WithTimeout(ctx, askTimeout)
		containers, err := c.cfg.Containers(asked, uid)
		cancel()
		c.mu.Lock()
		for _, r := range runs {
			if err == nil || r.removed {
				r.id = identity(r.key, containers)
				c.dirty = true
			}
		}
		c.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			slog.Debug("ask the runtime for containers", "uid", uid, "err", err)
		}
	}
}

// identity is the id of a run's container. Of one that is removed already it is made of its names, which are no other run's.
func identity(k key, containers []*runtimeapi.Container) string {
	for _, c := range containers {
		if c.GetMetadata().GetName() == k.Container && int(c.GetMetadata().GetAttempt()) == k.Attempt {
			return c.GetId()
		}
	}
	return fmt.Sprintf("%s/%s/%d", k.UID, k.Container, k.Attempt)
}

// batch is what is sent at a time, with where its runs were before.
type batch struct {
	request *logsv1.PushRequest
	runs    []*run
	before  []cursor
	told    []int64 // bytes that it says are lost, by run
	bytes   int
}

// gather reads the next batch; nil where there is nothing.
func (c *Collector) gather() *batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &batch{request: &logsv1.PushRequest{}}
	all := make([]*run, 0, len(c.runs))
	for _, r := range c.runs {
		if !r.done && r.id != "" && !r.wait.After(c.cfg.Clock.Now()) && r.cursor.file < len(r.files) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *run) int { return strings.Compare(a.id, b.id) })
	c.turn++
	for _, r := range all {
		c.urgent = r.truncated() || c.urgent
	}
	if c.urgent { // positions go on from here whatever happens; nothing is on its way
		c.saveNow()
	}
	lines, read := 0, 0
	for i := range all {
		r := all[(i+c.turn)%len(all)]
		if lines >= maxLines || read >= maxBatch || len(b.runs) >= maxRuns {
			break
		}
		before, lost := r.cursor.clone(), r.lost
		m := &logsv1.Run{Id: r.id, Namespace: r.Namespace, Pod: r.Pod, PodUid: r.UID, Container: r.Container, RestartCount: int32(r.Attempt)}
		n, err := r.gather(c.buffer, maxRunBatch, c.tick, float64(c.cfg.Rate), func(e *logsv1.Entry) {
			m.Entries = append(m.Entries, e)
			b.bytes += len(e.GetText())
		})
		if err != nil {
			slog.Warn("read a log", "namespace", r.Namespace, "name", r.Pod, "container", r.Container, "err", err)
		}
		c.metrics.lines.WithLabelValues("dropped").Add(float64(r.cursor.lost - before.lost))
		read += n
		lines += len(m.GetEntries())
		if len(m.GetEntries()) == 0 {
			c.commit(r)
			c.dirty = c.dirty || n > 0
			continue
		}
		b.request.Runs, b.runs, b.before, b.told = append(b.request.Runs, m), append(b.runs, r), append(b.before, before), append(b.told, lost-r.lost)
	}
	if len(b.runs) == 0 {
		c.settle()
		return nil
	}
	return b
}

// commit says that all that was read of a run is sent.
func (c *Collector) commit(r *run) {
	if n := len(r.files); n > 0 && r.cursor.file == n {
		f := r.files[n-1]
		r.last.File, r.last.Offset, r.last.Base = f.inode, f.size(), f.base
		r.done = r.over || r.removed
		c.dirty = true
	}
	// Files that are read may be removed, and with them what their successors' positions follow from.
	c.urgent = r.release() > 0 || c.urgent
}

// deliver sends a batch until it is taken; false says that ctx has ended before.
func (c *Collector) deliver(ctx context.Context, b *batch) bool {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		call, cancel := context.WithTimeout(obs.Untraced(ctx), callTimeout)
		resp, err := c.cfg.Pusher.Push(call, b.request)
		cancel()
		if err = apistatus.FromGRPC(err); err == nil && len(resp.GetOutcomes()) != len(b.runs) {
			err = errors.New("the answer is of another request")
		}
		if err == nil {
			c.metrics.pushes.WithLabelValues("ok").Inc()
			c.settleBatch(b, resp)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if apierrors.IsBadRequest(err) { // it would be so again
			resp = &logsv1.PushResponse{}
			for range b.runs {
				resp.Outcomes = append(resp.Outcomes, &logsv1.Outcome{Refused: err.Error()})
			}
			c.settleBatch(b, resp)
			return true
		}
		c.metrics.pushes.WithLabelValues("failed").Inc()
		wait := pause + time.Duration(rand.Int64N(int64(pause/4)))
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok && apierrors.IsTooManyRequests(err) {
			pause, wait = minPause/2, time.Duration(max(seconds, 1))*time.Second
		} else if pause == minPause {
			slog.Warn("send logs; they wait in their files", "err", err)
		}
		// Meanwhile files are rotated and pods end.
		for left := wait; left > 0; left -= lookEvery {
			if !c.sleep(ctx, min(left, lookEvery)) {
				return false
			}
			c.look()
		}
	}
}

// takeBack says that a batch was not sent.
func (c *Collector) takeBack(b *batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range b.runs {
		r.rewind(b.before[i], b.told[i])
	}
}

// settleBatch takes in what became of a batch.
func (c *Collector) settleBatch(b *batch, resp *logsv1.PushResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Clock.Now()
	for i, r := range b.runs {
		o, sent := resp.GetOutcomes()[i], b.request.GetRuns()[i].GetEntries()
		switch {
		case o.GetRefused() == "":
			r.unknown, r.pause = time.Time{}, 0
			c.metrics.lines.WithLabelValues("sent").Add(float64(len(sent)))
			c.commit(r)
		case o.GetRetry() && (r.unknown.IsZero() || now.Sub(r.unknown) < unknownFor):
			if r.unknown.IsZero() {
				r.unknown = now
			}
			r.pause = min(max(2*r.pause, minPause), maxPause)
			r.wait = now.Add(r.pause)
			r.rewind(b.before[i], b.told[i])
		default:
			c.metrics.lines.WithLabelValues("refused").Add(float64(len(sent)))
			slog.Warn("lines are refused", "namespace", r.Namespace, "name", r.Pod, "uid", r.UID, "container", r.Container, "why", o.GetRefused())
			c.refuse(r)
		}
	}
	c.metrics.bytes.Add(float64(b.bytes))
	c.dirty = true
	c.settle()
	if c.urgent || c.cfg.Clock.Since(c.savedAt) >= saveEvery {
		c.saveNow()
	}
}

// refuse leaves out what a run has written, and goes on with what it will.
func (c *Collector) refuse(r *run) {
	r.unknown, r.pause = time.Time{}, 0
	r.wait = c.cfg.Clock.Now().Add(maxPause)
	c.commit(r)
}

// save notes on disk what was sent.
func (c *Collector) save(now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.urgent || c.dirty && (now || c.cfg.Clock.Since(c.savedAt) >= saveEvery) {
		c.saveNow()
	}
}

// saveNow is for who holds mu, while no batch is on its way.
func (c *Collector) saveNow() {
	all := make([]saved, 0, len(c.runs)+len(c.before))
	for _, r := range c.runs {
		if r.id != "" {
			all = append(all, r.save())
		}
	}
	c.savedAt = c.cfg.Clock.Now()
	if err := statefile.Write(checkpoint(c.cfg.RootDir), all); err != nil {
		slog.Warn("note what was collected of logs", "err", err)
		return
	}
	c.dirty, c.urgent = false, false
}

// backlog is how many bytes are to be sent.
func (c *Collector) backlog() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum int64
	for _, r := range c.runs {
		sum += r.backlog()
	}
	return float64(sum)
}
