package shutdown

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"howdah.dev/nodeagent/internal/pod"
)

func TestGroups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options Options
		want    []Group
		problem string
	}{
		"none":                  {},
		"two":                   {options: Options{Grace: 30 * time.Second, Critical: 10 * time.Second}, want: []Group{{0, 20 * time.Second}, {2_000_000_000, 10 * time.Second}}},
		"by priority":           {options: Options{ByPriority: "1000=2m, 0=1m,100000=10s"}, want: []Group{{0, time.Minute}, {1000, 2 * time.Minute}, {100000, 10 * time.Second}}},
		"more for the critical": {options: Options{Grace: time.Second, Critical: 2 * time.Second}, problem: "2s must be <= the shutdown grace period (1s)"},
		"less than a second":    {options: Options{Grace: time.Millisecond}, problem: "1ms must be either zero or otherwise >= 1s"},
		"both":                  {options: Options{Grace: time.Second, ByPriority: "0=1s"}, problem: "cannot specify both"},
		"no duration":           {options: Options{ByPriority: "5"}, problem: `"5" is not PRIORITY=DURATION`},
		"no priority":           {options: Options{ByPriority: "high=1s"}, problem: `priority "high": invalid syntax`},
		"too short":             {options: Options{ByPriority: "7=0s"}, problem: "0s of priority 7 must be >= 1s"},
		"twice":                 {options: Options{ByPriority: "7=1s,7=2s"}, problem: "priority 7 is named twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.options.Groups()
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Fatalf("got the error %v, want one with %q", err, c.problem)
				}
				return
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

func aPod(name string, priority int32, grace int64) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Priority: ptr.To(priority), TerminationGracePeriodSeconds: ptr.To(grace)}}
}

func TestRoundsGoFromTheLeastPriorityUp(t *testing.T) {
	t.Parallel()
	over := aPod("over", 0, 30)
	over.Status.Phase = corev1.PodSucceeded
	none := aPod("none", 0, 30)
	none.Spec.Priority = nil
	rounds := Rounds([]Group{{10, time.Minute}, {1000, time.Hour}, {2000, 10 * time.Second}}, []*corev1.Pod{
		aPod("system", 2_000_001_000, 30), aPod("negative", -5, 30), over, none, aPod("ten", 10, 5), aPod("at", 2000, 3),
	})
	var got []string
	for _, r := range rounds {
		got = append(got, r.Grace.String())
		for _, p := range r.Pods {
			got = append(got, p.Name)
		}
	}
	if want := []string{"1m0s", "negative", "none", "ten", "10s", "system", "at"}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for _, c := range []struct {
		pod  *corev1.Pod
		want int64
	}{{rounds[1].Pods[0], 10}, {rounds[1].Pods[1], 3}} {
		if why := rounds[1].Why(c.pod); *why.Grace != c.want || why.Reason != "Terminated" || why.Disruption == "" {
			t.Errorf("%s ends with %+v within %d s, want %d", c.pod.Name, why, *why.Grace, c.want)
		}
	}
}

// machine is one whose shutdown the test tells of.
type machine struct {
	notices chan Notice
	asked   chan time.Duration
}

func (m machine) Await(ctx context.Context, patience time.Duration) (Notice, error) {
	select {
	case m.asked <- patience:
	default:
	}
	select {
	case <-ctx.Done():
		return Notice{}, ctx.Err()
	case n := <-m.notices:
		if n.Done == nil {
			return n, errors.New("the bus is away")
		}
		return n, nil
	}
}

// node has pods that end when the test says so.
type node struct {
	machine
	keeper *Keeper
	clock  *testclock.FakeClock
	path   string
	ends   chan string // the name of each pod that is to end

	mu      sync.Mutex
	stopped map[string]chan struct{}
	events  []string
	told    int
}

func newNode(t *testing.T, pods []*corev1.Pod, registerer prometheus.Registerer) (*node, <-chan error) {
	t.Helper()
	n := &node{
		machine: machine{make(chan Notice), make(chan time.Duration, 1)}, clock: testclock.NewFakeClock(time.Unix(1_000_000, 0)),
		path: filepath.Join(t.TempDir(), "state"), ends: make(chan string, len(pods)), stopped: map[string]chan struct{}{},
	}
	n.keeper = New(Config{
		Groups: []Group{{0, 20 * time.Second}, {2_000_000_000, 10 * time.Second}}, Sources: []Source{n.machine}, Pods: func() []*corev1.Pod { return pods },
		End: n.end, Told: func(context.Context) error { n.told++; return nil }, Changed: func() {}, StateFile: n.path, Clock: n.clock, Registerer: registerer,
		Event: func(_, message string) { n.mu.Lock(); n.events = append(n.events, message); n.mu.Unlock() },
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.keeper.Run(ctx) }()
	t.Cleanup(cancel)
	return n, done
}

func (n *node) end(p *corev1.Pod, _ *pod.Failure) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped[p.Name] = make(chan struct{})
	n.ends <- p.Name
	return n.stopped[p.Name]
}

func (n *node) stop(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.stopped[name])
}

// within returns what comes; nothing within a minute fails the test.
func within[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("no %s", what)
		panic("not reached")
	}
}

func TestPodsEndBeforeTheMachineDoes(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	n, done := newNode(t, []*corev1.Pod{aPod("dns", 2_000_000_000, 30), aPod("web", 0, 30)}, registry)
	if patience := within(t, "question", n.asked); patience != 30*time.Second {
		t.Errorf("the machine is to wait for %s, want 30s", patience)
	}
	released := make(chan struct{})
	n.notices <- Notice{Done: func() { close(released) }}
	if first := within(t, "end", n.ends); first != "web" {
		t.Fatalf("%s ends first", first)
	}
	if !n.keeper.Down() || len(n.keeper.Problems()) != 1 {
		t.Error("the node does not say that it goes down")
	}
	select {
	case name := <-n.ends:
		t.Fatalf("%s ends though web still runs", name)
	default:
	}
	n.stop("web")
	if second := within(t, "end", n.ends); second != "dns" {
		t.Fatalf("%s ends second", second)
	}
	select {
	case <-released:
		t.Fatal("the machine may go down though dns still runs")
	default:
	}
	n.clock.Step(3 * time.Second)
	n.stop("dns")
	within(t, "release", released)
	if err := within(t, "end of the keeper", done); !errors.Is(err, ErrDown) {
		t.Fatalf("got %v, want ErrDown", err)
	}
	if n.told != 1 {
		t.Errorf("the API was waited for %d times, want 1", n.told)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP kubelet_graceful_shutdown_end_time_seconds When the last graceful shutdown of the node was over, in seconds since 1970.
# TYPE kubelet_graceful_shutdown_end_time_seconds gauge
kubelet_graceful_shutdown_end_time_seconds 1.000003e+06
# HELP kubelet_graceful_shutdown_start_time_seconds When the last graceful shutdown of the node began, in seconds since 1970.
# TYPE kubelet_graceful_shutdown_start_time_seconds gauge
kubelet_graceful_shutdown_start_time_seconds 1e+06
`)); err != nil {
		t.Error(err)
	}
}

// A pod that does not end keeps the machine up for its group's time, and no longer.
func TestTimeIsOver(t *testing.T) {
	t.Parallel()
	n, done := newNode(t, []*corev1.Pod{aPod("stuck", 0, 600)}, nil)
	released := make(chan struct{})
	n.notices <- Notice{Done: func() { close(released) }}
	within(t, "end", n.ends)
	n.clock.Step(19 * time.Second)
	select {
	case <-released:
		t.Fatal("the machine may go down too early")
	default:
	}
	n.clock.Step(time.Second)
	within(t, "release", released)
	if err := within(t, "end of the keeper", done); !errors.Is(err, ErrDown) {
		t.Fatalf("got %v, want ErrDown", err)
	}
}

func TestShutdownIsCalledOff(t *testing.T) {
	t.Parallel()
	n, _ := newNode(t, nil, nil)
	within(t, "question", n.asked)
	off := make(chan struct{})
	released := make(chan struct{})
	n.notices <- Notice{Done: func() { close(released) }, CalledOff: func(context.Context) error { <-off; return nil }}
	within(t, "release", released)
	if !n.keeper.Down() {
		t.Error("pods may begin though the machine goes down")
	}
	close(off)
	within(t, "next question", n.asked)
	if n.keeper.Down() {
		t.Error("no pod may begin though the machine stays")
	}
	if want := []string{"Shutdown manager detected shutdown event", "Shutdown manager detected shutdown cancellation"}; !slices.Equal(n.events, want) {
		t.Errorf("events %q, want %q", n.events, want)
	}
}

// A bus that is away is asked again, later.
func TestSourceFails(t *testing.T) {
	t.Parallel()
	n, _ := newNode(t, nil, nil)
	within(t, "question", n.asked)
	n.notices <- Notice{}
	for !n.clock.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	n.clock.Step(retryBase)
	within(t, "next question", n.asked)
}

func TestNothingIsFollowedWithoutTimes(t *testing.T) {
	t.Parallel()
	m := machine{make(chan Notice), make(chan time.Duration, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := New(Config{Sources: []Source{m}, Clock: clock.RealClock{}}).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if len(m.asked) != 0 {
		t.Error("the machine is followed for nothing")
	}
}
