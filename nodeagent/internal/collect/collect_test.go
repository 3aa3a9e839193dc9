package collect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	testclock "k8s.io/utils/clock/testing"

	"howdah.dev/kit/apistatus"
	logsv1 "howdah.dev/proto/gen/howdah/logs/v1"
)

var base = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// service keeps lines as the real one does: of each run what is behind its position.
type service struct {
	mu        sync.Mutex
	positions map[string]int64
	lines     map[string][]string
	fail      func(*logsv1.PushRequest) error
	lostReply bool
	refuse    func(*logsv1.Run) *logsv1.Outcome
	calls     int
}

func newService() *service {
	return &service{positions: map[string]int64{}, lines: map[string][]string{}}
}

func (s *service) Push(_ context.Context, in *logsv1.PushRequest, _ ...grpc.CallOption) (*logsv1.PushResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.fail != nil {
		if err := s.fail(in); err != nil {
			return nil, apistatus.ToGRPC(err)
		}
	}
	resp := &logsv1.PushResponse{}
	for _, r := range in.GetRuns() {
		if s.refuse != nil {
			if o := s.refuse(r); o != nil {
				resp.Outcomes = append(resp.Outcomes, o)
				continue
			}
		}
		last := int64(0)
		for _, e := range r.GetEntries() {
			if e.GetPosition() <= last {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("position %d follows %d", e.GetPosition(), last))
			}
			if last = e.GetPosition(); last > s.positions[r.GetId()] {
				s.positions[r.GetId()] = last
				s.lines[r.GetId()] = append(s.lines[r.GetId()], mark(e.GetSource())+string(e.GetText()))
			}
		}
		resp.Outcomes = append(resp.Outcomes, &logsv1.Outcome{Position: s.positions[r.GetId()]})
	}
	if s.lostReply {
		return nil, errors.New("the connection is gone")
	}
	return resp, nil
}

func mark(s logsv1.Source) string {
	return map[logsv1.Source]string{logsv1.Source_SOURCE_STDERR: "! ", logsv1.Source_SOURCE_NOTE: "# "}[s]
}

func (s *service) has(t *testing.T, id string, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.lines[id]; !slices.Equal(got, want) {
		t.Errorf("%s has %q, want %q", id, got, want)
	}
}

// node is a folder of logs, and a collector that follows it step by step.
type node struct {
	*testing.T
	dir, root string
	c         *Collector
	service   *service
	clock     *testclock.FakeClock
	second    int
	rate      int64
}

func setup(t *testing.T) *node {
	dir := t.TempDir()
	n := &node{T: t, dir: filepath.Join(dir, "pods"), root: filepath.Join(dir, "root"), service: newService(), clock: testclock.NewFakeClock(base)}
	n.restart()
	return n
}

// restart ends the collector as a crash does, and starts another one.
func (n *node) restart() {
	n.c = New(Config{
		Pusher: n.service, LogDir: n.dir, RootDir: n.root, Rate: n.rate, Clock: n.clock,
		Containers: func(_ context.Context, uid string) ([]*runtimeapi.Container, error) {
			return []*runtimeapi.Container{
				{Id: "id-" + uid, Metadata: &runtimeapi.ContainerMetadata{Name: "c", Attempt: 0}},
				{Id: "id1-" + uid, Metadata: &runtimeapi.ContainerMetadata{Name: "c", Attempt: 1}},
			}, nil
		},
	})
}

// round is one of the collector's, with one attempt to send each batch.
func (n *node) round() {
	n.Helper()
	n.clock.Step(lookEvery)
	n.c.look()
	for {
		n.c.identify(n.Context())
		b := n.c.gather()
		if b == nil {
			break
		}
		resp, err := n.service.Push(n.Context(), b.request)
		if err != nil {
			n.c.takeBack(b)
			return
		}
		n.c.settleBatch(b, resp)
	}
	n.c.save(false)
}

func (n *node) folder(pod string) string { return filepath.Join(n.dir, "ns_"+pod+"_u-"+pod, "c") }

// write appends lines to a log: "o" and "e" begin whole lines of the two outputs, "O" and "E" parts.
func (n *node) write(pod, name string, lines ...string) {
	n.Helper()
	if err := os.MkdirAll(n.folder(pod), 0o755); err != nil {
		n.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(n.folder(pod), name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.Fatal(err)
	}
	defer f.Close()
	for _, l := range lines {
		n.second++
		fmt.Fprintf(f, "%s %s %s %s\n", base.Add(time.Duration(n.second)*time.Millisecond).Format(time.RFC3339Nano),
			map[byte]string{'o': "stdout", 'O': "stdout", 'e': "stderr", 'E': "stderr"}[l[0]], map[byte]string{'o': "F", 'e': "F", 'O': "P", 'E': "P"}[l[0]], l[1:])
	}
}

// rotate puts a log aside.
func (n *node) rotate(pod string) {
	n.Helper()
	n.second++
	path := filepath.Join(n.folder(pod), "0.log")
	if err := os.Rename(path, fmt.Sprintf("%s.20260101-%06d.000", path, n.second)); err != nil {
		n.Fatal(err)
	}
}

func (n *node) remove(pod string) {
	n.Helper()
	n.c.Leaving(filepath.Dir(n.folder(pod)))
	if err := os.RemoveAll(filepath.Dir(n.folder(pod))); err != nil {
		n.Fatal(err)
	}
}

func TestLinesArePutTogether(t *testing.T) {
	t.Parallel()
	n := setup(t)
	n.write("a", "0.log", "oone", "etwo", "Othr", "Efo", "ofinished", "eur", "o", "O  rest")
	n.write("a", "other.txt", "ono")
	n.write("a", "0.log.gz", "ono")
	n.round()
	n.service.has(t, "id-u-a", "one", "! two", "thrfinished", "! four", "")
	n.write("a", "0.log", "o.")
	n.round()
	n.service.has(t, "id-u-a", "one", "! two", "thrfinished", "! four", "", "  rest.")
	n.write("b", "0.log", "O"+strings.Repeat("x", 40_000), "O"+strings.Repeat("y", 40_000), "oz", "Ogone")
	n.round()
	n.remove("b")
	n.round()
	n.round()
	n.service.has(t, "id-u-b", strings.Repeat("x", 40_000)+strings.Repeat("y", 40_000), "z", "gone")
	if len(n.c.runs) != 1 {
		t.Errorf("%d runs are followed", len(n.c.runs))
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	n := setup(t)
	var want []string
	line := func(i int) string {
		want = append(want, fmt.Sprint(i))
		return fmt.Sprintf("o%d", i)
	}
	for i := range 20 {
		n.write("a", "0.log", line(3*i))
		if i%3 != 2 {
			n.round()
		}
		n.write("a", "0.log", line(3*i+1))
		n.rotate("a") // twice between two rounds, now and then
		if i%4 == 0 {
			n.round() // the runtime has not begun a new one
		}
		n.write("a", "0.log", line(3*i+2))
		if i%5 == 0 {
			n.restart()
		}
		if aside, _ := filepath.Glob(filepath.Join(n.folder("a"), "0.log.*")); len(aside) > 4 {
			slices.Sort(aside)
			_ = os.Remove(aside[0])
		}
	}
	n.round()
	n.round()
	n.service.has(t, "id-u-a", want...)
	if lost := testutil.ToFloat64(n.c.metrics.lost); lost > 0 {
		t.Errorf("%v bytes are lost", lost)
	}
}

func TestPodThatIsRemovedIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	n := setup(t)
	n.service.fail = func(*logsv1.PushRequest) error { return apierrors.NewServiceUnavailable("away") }
	n.write("a", "0.log", "oone")
	n.round()
	n.write("a", "0.log", "otwo")
	n.write("brief", "0.log", "onobody has seen it")
	n.remove("a")
	n.remove("brief")
	for range 3 {
		n.round()
	}
	n.service.fail = nil
	n.round()
	n.round()
	n.service.has(t, "id-u-a", "one", "two")
	n.service.has(t, "id-u-brief", "nobody has seen it")
	if len(n.c.runs) > 0 {
		t.Errorf("%d runs are followed", len(n.c.runs))
	}
}

func TestRestartsNeitherLoseNorRepeat(t *testing.T) {
	t.Parallel()
	n := setup(t)
	n.write("a", "0.log", "oone", "Otw")
	n.round()
	n.clock.Step(saveEvery)
	n.write("a", "0.log", "etwo")
	n.service.lostReply = true // stored, and not acknowledged
	n.round()
	n.service.lostReply = false
	n.restart()
	n.write("a", "0.log", "oo")
	n.round()
	n.service.has(t, "id-u-a", "one", "! two", "two")
	n.restart()
	n.clock.Step(saveEvery)
	n.round()
	n.c.stop()
	n.write("a", "0.log", "othree")
	n.write("a", "1.log", "ofour")
	n.restart()
	n.round()
	n.service.has(t, "id-u-a", "one", "! two", "two", "three")
	n.service.has(t, "id1-u-a", "four")
	n.c.stop()
	n.restart()
	calls := n.service.calls
	n.round()
	if n.service.calls != calls {
		t.Error("what was sent is sent again")
	}
	// Without the checkpoint all is sent again, and stored once.
	if err := os.WriteFile(checkpoint(n.root), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.restart()
	n.round()
	n.service.has(t, "id-u-a", "one", "! two", "two", "three")
}

func TestTruncation(t *testing.T) {
	t.Parallel()
	n := setup(t)
	n.write("a", "0.log", "oone", "otwo")
	n.round()
	if err := os.Truncate(filepath.Join(n.folder("a"), "0.log"), 0); err != nil {
		t.Fatal(err)
	}
	n.round()
	n.write("a", "0.log", "othree")
	n.restart()
	n.round()
	n.round()
	n.service.has(t, "id-u-a", "one", "two", "three")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	n := setup(t)
	n.write("a", "0.log", "oone")
	n.write("b", "0.log", "oone")
	n.write("c", "0.log", "oone")
	n.service.refuse = func(r *logsv1.Run) *logsv1.Outcome {
		switch r.GetPod() {
		case "a":
			return &logsv1.Outcome{Refused: "not yet", Retry: true}
		case "b":
			return &logsv1.Outcome{Refused: "never"}
		}
		return nil
	}
	n.round()
	n.service.has(t, "id-u-c", "one")
	n.service.refuse = nil
	n.clock.Step(maxPause)
	n.write("b", "0.log", "otwo")
	n.round()
	n.service.has(t, "id-u-a", "one")
	n.service.has(t, "id-u-b", "two")
	if got := testutil.ToFloat64(n.c.metrics.lines.WithLabelValues("refused")); got != 1 {
		t.Errorf("%v lines were refused", got)
	}
	// What the service does not know for long is given up.
	n.service.refuse = func(*logsv1.Run) *logsv1.Outcome { return &logsv1.Outcome{Refused: "not yet", Retry: true} }
	n.write("a", "0.log", "olast")
	for range int(unknownFor/maxPause) + 10 {
		n.clock.Step(maxPause)
		n.round()
	}
	if got := testutil.ToFloat64(n.c.metrics.lines.WithLabelValues("refused")); got != 2 {
		t.Errorf("%v lines were refused", got)
	}
}

func TestContainerThatWritesTooMuch(t *testing.T) {
	t.Parallel()
	n := setup(t)
	n.rate = 1000
	n.restart()
	var lines []string
	for i := range 300 { // within 0.3 s by their times
		lines = append(lines, "o"+strings.Repeat("x", 36)+fmt.Sprint(i))
	}
	n.write("a", "0.log", lines...)
	n.second += 60_000
	n.write("a", "0.log", "oafter a rest")
	n.round()
	got := n.service.lines["id-u-a"]
	kept := len(got) - 2
	if kept < 90 || kept > 110 || got[len(got)-1] != "after a rest" || !strings.HasPrefix(got[len(got)-2], fmt.Sprintf("# %d lines (", 300-kept)) {
		t.Errorf("%d lines, the last ones %q", len(got), got[len(got)-2:])
	}
	if dropped := testutil.ToFloat64(n.c.metrics.lines.WithLabelValues("dropped")); int(dropped) != 300-kept {
		t.Errorf("%v dropped, %d kept", dropped, kept)
	}
}

func TestWhatCannotBeKeptIsToldOf(t *testing.T) {
	t.Parallel()
	n := setup(t)
	n.service.fail = func(*logsv1.PushRequest) error { return apierrors.NewServiceUnavailable("away") }
	for i := range maxFiles + 4 {
		n.write("a", "0.log", fmt.Sprintf("o%d", i))
		n.round()
		n.rotate("a")
	}
	n.write("a", "0.log", "olast")
	n.round()
	n.service.fail = nil
	n.round()
	n.round()
	got := n.service.lines["id-u-a"]
	if len(got) != maxFiles+1 || !strings.HasPrefix(got[0], "# ") || !strings.Contains(got[0], "bytes before this are lost") || got[1] != "5" || got[maxFiles] != "last" {
		t.Errorf("%q", got)
	}
	if testutil.ToFloat64(n.c.metrics.lost) == 0 {
		t.Error("nothing is counted as lost")
	}
}

// TestRun has the collector's own loop send what comes, with a service that is away at first, and stop.
func TestRun(t *testing.T) {
	t.Parallel()
	n := setup(t)
	arrived := make(chan struct{})
	failures := 0
	n.service.fail = func(*logsv1.PushRequest) error {
		if failures++; failures < 3 {
			return apierrors.NewTooManyRequests("slowly", 1)
		}
		close(arrived)
		n.service.fail = nil
		return nil
	}
	n.write("a", "0.log", "oone")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.c.Run(ctx) }()
	deadline := time.After(2 * time.Minute)
	for waiting := true; waiting; {
		select {
		case <-arrived:
			waiting = false
		case <-deadline:
			t.Fatal("nothing arrives")
		case <-time.After(time.Millisecond): // the clock tells nobody that somebody waits
			if n.clock.HasWaiters() {
				n.clock.Step(lookEvery)
			}
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	n.service.has(t, "id-u-a", "one")
	n.restart()
	calls := n.service.calls
	n.round()
	if n.service.has(t, "id-u-a", "one"); n.service.calls > calls+1 {
		t.Errorf("%d more calls", n.service.calls-calls)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"0.log": 0, "12.log": 12, "3.log.20260101-000000.000": 3, "3.log.x.gz": -1, "3.log.x.tmp": -1, "x.log": -1, "-1.log": -1, "01.log": -1, "1.logs": -1, "log": -1} {
		attempt, ok := parseFile(name)
		if ok != (want >= 0) || ok && attempt != want {
			t.Errorf("%s: %d, %v", name, attempt, ok)
		}
	}
	for name, want := range map[string]bool{"ns_p_u": true, "ns_p": false, "_p_u": false, "ns__u": false, "ns_p_u_x": true, "\xff_p_u": false} {
		if _, _, _, ok := parsePod(name); ok != want {
			t.Errorf("%q: %v", name, ok)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("2026-01-01T00:00:00Z stdout P a\n2026-01-01T00:00:00Z stderr F b\n2026-01-01T00:00:00Z stdout F c\n"), 7)
	f.Fuzz(func(t *testing.T, data []byte, split int) {
		gather := func(pieces ...[]byte) (out []string) {
			dir := t.TempDir()
			path := filepath.Join(dir, "0.log")
			r := &run{read: map[string]bool{}}
			last := int64(0)
			emit := func(e *logsv1.Entry) {
				if e.GetPosition() <= last {
					t.Fatalf("position %d follows %d", e.GetPosition(), last)
				}
				last = e.GetPosition()
				out = append(out, mark(e.GetSource())+string(e.GetText()))
			}
			for i, p := range pieces {
				file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = file.Write(p)
				_ = file.Close()
				r.follow(dir, []string{"0.log"}, i)
				r.removed = i == len(pieces)-1
				if _, err := r.gather(make([]byte, block), 1<<30, i+1, 1e12, emit); err != nil {
					t.Fatal(err)
				}
			}
			r.close()
			return out
		}
		split = min(max(split, 0), len(data))
		if whole, parts := gather(data), gather(data[:split], data[split:]); !slices.Equal(whole, parts) {
			t.Errorf("%q, in two pieces %q", whole, parts)
		}
	})
}
