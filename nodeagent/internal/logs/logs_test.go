package logs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/fakecri"
)

var base = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// raw is a line as the runtime writes it, second seconds after base.
func raw(second int, stream, tag, text string) string {
	return fmt.Sprintf("%s %s %s %s\n", base.Add(time.Duration(second)*time.Second).Format(time.RFC3339Nano), stream, tag, text)
}

func write(t *testing.T, path string, lines ...string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(strings.Join(lines, "")); err != nil {
		t.Fatal(err)
	}
}

func number(n int64) *int64 { return &n }

func TestRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "0.log")
	write(t, path+".20260101-000000.000", raw(0, "stdout", "F", "old"))
	write(t, path, raw(1, "stdout", "F", "one"), raw(2, "stderr", "F", "two"), raw(3, "stdout", "P", "thr"), raw(4, "stdout", "F", "ee"), "garbage\n", raw(5, "stdout", "F", ""))
	for name, test := range map[string]struct {
		o    Options
		want string
	}{
		"all":              {Options{}, "old\none\ntwo\nthree\n\n"},
		"stdout":           {Options{Stream: "Stdout"}, "old\none\nthree\n\n"},
		"stderr":           {Options{Stream: "Stderr"}, "two\n"},
		"times":            {Options{Stream: "Stderr", Timestamps: true}, "2026-01-01T00:00:02Z two\n"},
		"since":            {Options{Since: base.Add(4 * time.Second)}, "ee\n\n"},
		"tail":             {Options{Tail: number(1)}, "\n"},
		"tail of none":     {Options{Tail: number(0)}, ""},
		"tail of all":      {Options{Tail: number(100)}, "old\none\ntwo\nthree\n\n"},
		"tail over files":  {Options{Tail: number(7)}, "old\none\ntwo\nthree\n\n"},
		"tail of one file": {Options{Tail: number(6)}, "one\ntwo\nthree\n\n"},
		"limit":            {Options{Limit: number(6)}, "old\non"},
	} {
		var out bytes.Buffer
		if err := NewReader(NewWatcher()).Read(t.Context(), path, test.o, &out, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if out.String() != test.want {
			t.Errorf("%s: %q, want %q", name, out.String(), test.want)
		}
	}
}

func TestTailOfALongFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "0.log")
	var lines []string
	for i := range 20_000 {
		lines = append(lines, raw(i, "stdout", "F", fmt.Sprintf("line %d", i)))
	}
	write(t, path, lines...)
	for _, n := range []int64{1, 2, 1000, 19_999, 20_000, 30_000} {
		var out bytes.Buffer
		if err := NewReader(NewWatcher()).Read(t.Context(), path, Options{Tail: &n}, &out, nil); err != nil {
			t.Fatal(err)
		}
		got := strings.Count(out.String(), "\n")
		if want := min(int(n), 20_000); got != want || !strings.HasSuffix(out.String(), "line 19999\n") {
			t.Errorf("tail of %d: %d lines", n, got)
		}
	}
	if got := LastLines(path, 2, 1000); got != "line 19998\nline 19999\n" {
		t.Errorf("last lines: %q", got)
	}
	if got := LastLines(path, 2, 5); got != "9999\n" {
		t.Errorf("last bytes: %q", got)
	}
}

type safe struct {
	mu  sync.Mutex
	out bytes.Buffer
	got chan struct{}
}

func (s *safe) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Write(p)
	select {
	case s.got <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (s *safe) await(t *testing.T, want string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		s.mu.Lock()
		now := s.out.String()
		s.mu.Unlock()
		if now == want {
			return
		}
		select {
		case <-s.got:
		case <-deadline:
			t.Fatalf("read %q, want %q", now, want)
		}
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "0.log")
	write(t, path, raw(1, "stdout", "F", "one"))
	watcher := NewWatcher()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = watcher.Run(ctx) }()
	var alive atomic.Bool
	alive.Store(true)
	out := &safe{got: make(chan struct{}, 1)}
	done := make(chan error, 1)
	go func() {
		done <- NewReader(watcher).Read(ctx, path, Options{Follow: true}, out, func(context.Context) bool { return alive.Load() })
	}()
	out.await(t, "one\n")
	half := raw(2, "stdout", "F", "two")
	write(t, path, half[:len(half)-3])
	write(t, path, half[len(half)-3:])
	out.await(t, "one\ntwo\n")
	// Rotation: the last words of the old file come first.
	write(t, path, raw(3, "stdout", "F", "three"))
	if err := os.Rename(path, path+".aside"); err != nil {
		t.Fatal(err)
	}
	write(t, path, raw(4, "stdout", "F", "four"))
	out.await(t, "one\ntwo\nthree\nfour\n")
	write(t, path, raw(5, "stdout", "F", "five"))
	alive.Store(false)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	out.await(t, "one\ntwo\nthree\nfour\nfive\n")
}

func TestRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "0.log")
	runtime := fakecri.New()
	created, err := runtime.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{Config: &runtimeapi.ContainerConfig{LogPath: path}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: created.GetContainerId()}); err != nil {
		t.Fatal(err)
	}
	bounds := Bounds{Size: 1000, Files: 3, Workers: 2, Every: DefaultBounds.Every}
	r := NewRotator(runtime, bounds, clock.RealClock{})
	for i := range 7 {
		if err := os.WriteFile(path, make([]byte, int(bounds.Size)+i), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.rotateAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Fatalf("round %d: the log was not put aside", i)
		}
		time.Sleep(2 * time.Millisecond) // names are by the millisecond
	}
	aside := Files(path)
	if len(aside) != bounds.Files { // and path itself, which the runtime would have made
		t.Errorf("%d files: %v", len(aside), aside)
	}
	if err := os.WriteFile(path, make([]byte, 10), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.rotateAll(t.Context()); err != nil || len(Files(path)) != bounds.Files {
		t.Errorf("a small log was rotated (%v)", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(raw(1, "stdout", "F", "x")))
	f.Add([]byte("2026-01-01T00:00:00Z stderr P"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if l, err := parse(data); err == nil && l.stream != "stdout" && l.stream != "stderr" {
			t.Errorf("stream %q", l.stream)
		}
	})
}

func TestRemoveTakesWhatWasPutAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"1.log", "1.log.20260101-000000.000", "11.log", "2.log"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := Remove(filepath.Join(dir, "1.log")); err != nil {
			t.Fatal(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 || filepath.Base(left[0]) != "11.log" || filepath.Base(left[1]) != "2.log" {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := Remove(""); err != nil {
		t.Error(err)
	}
}
