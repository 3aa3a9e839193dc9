package manifest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// heard is what a source told.
type heard struct {
	t     *testing.T
	pods  chan []string
	mu    sync.Mutex
	wrong map[string]string
}

func hear(t *testing.T, run func(ctx context.Context, tell func([]*corev1.Pod)) error, h *heard) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = run(ctx, func(pods []*corev1.Pod) {
			names := []string{}
			for _, p := range pods {
				names = append(names, p.Name+" "+p.Spec.Containers[0].Image)
			}
			select {
			case h.pods <- names:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func newHeard(t *testing.T) *heard {
	return &heard{t: t, pods: make(chan []string), wrong: map[string]string{}}
}

func (h *heard) report(place string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.wrong, filepath.Base(place))
	if err != nil {
		h.wrong[filepath.Base(place)] = err.Error()
	}
}

func (h *heard) problem(place string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wrong[place]
}

// await waits until the pods that are told are those.
func (h *heard) await(want ...string) {
	h.t.Helper()
	limit := time.After(time.Minute)
	var last []string
	for {
		select {
		case last = <-h.pods:
			if slices.Equal(last, want) {
				return
			}
		case <-limit:
			h.t.Fatalf("told %q, want %q", last, want)
		}
	}
}

func manifestOf(name, image string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: c, image: %q}]}}", name, image)
}

func TestFolderIsFollowed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "manifests")
	h := newHeard(t)
	clk := clocktesting.NewFakeClock(time.Unix(1, 0))
	// The looks after a while are the fake clock's; those after changes as well, so it is moved while we wait.
	files := &Files{Path: dir, Node: "n", Every: 20 * time.Second, Clock: clk, Report: h.report}
	hear(t, files.Run, h)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				clk.Step(time.Second)
			}
		}
	}()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.await() // there is no folder
	if err := os.MkdirAll(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	put("b.yaml", manifestOf("b", "i:1"))
	put("a.json", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}`)
	put(".hidden.yaml", manifestOf("hidden", "i:1"))
	h.await("a-n i:1", "b-n i:1")
	put("b.yaml", manifestOf("b", "i:2"))
	h.await("a-n i:1", "b-n i:2")
	put("b.yaml", "kind: [")
	put("c.yaml", manifestOf("c", "i:1"))
	h.await("a-n i:1", "b-n i:2", "c-n i:1") // what runs from a file that is wrong runs on
	if text := h.problem("b.yaml"); text == "" {
		t.Error("nobody is told of the file that is wrong")
	}
	put("d.yaml", manifestOf("c", "i:9"))
	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	h.await("a-n i:1", "c-n i:1")
	if text := h.problem("b.yaml"); text != "" {
		t.Errorf("a file that is gone is still wrong: %s", text)
	}
	h.await("a-n i:1", "c-n i:1")
	if text := h.problem("d.yaml"); !strings.Contains(text, "is that of") {
		t.Errorf("the second manifest of a pod: %q", text)
	}
}

func TestChangeIsHeardOf(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "one.yaml")
	if err := os.WriteFile(path, []byte(manifestOf("a", "i:1")), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newHeard(t)
	files := &Files{Path: path, Node: "n", Every: time.Hour, Clock: clock.RealClock{}, Report: h.report}
	hear(t, files.Run, h)
	h.await("a-n i:1")
	next := path + ".new"
	if err := os.WriteFile(next, []byte(manifestOf("a", "i:2")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil { // as editors do
		t.Fatal(err)
	}
	h.await("a-n i:2")
}

func TestURLIsAsked(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	status, text := http.StatusOK, manifestOf("a", "i:1")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("X-Key") != "secret" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	answer := func(code int, body string) {
		mu.Lock()
		defer mu.Unlock()
		status, text = code, body
	}
	h := newHeard(t)
	asked := make(chan error, 1000)
	u := &URL{
		URL: server.URL, Header: http.Header{"X-Key": {"secret"}}, Node: "n", Every: time.Millisecond, Clock: clock.RealClock{}, Client: server.Client(),
		Report: func(_ string, err error) { asked <- err },
	}
	hear(t, u.Run, h)
	h.await("a-n i:1")
	answer(http.StatusOK, "{apiVersion: v1, kind: PodList, items: ["+manifestOf("a", "i:2")+", "+manifestOf("b", "i:1")+"]}")
	h.await("a-n i:2", "b-n i:1")
	answer(http.StatusInternalServerError, manifestOf("c", "i:1"))
	for err := range asked {
		if err != nil {
			break
		}
		select {
		case <-h.pods:
		default:
		}
	}
	answer(http.StatusOK, "{apiVersion: v1, kind: PodList, items: []}")
	h.await()
}

// TestManifestThatComesBack: a pod ends with its manifest, also where the same one is there again before anybody has looked.
func TestManifestThatComesBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	put := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(manifestOf(strings.TrimSuffix(filepath.Base(path), ".yaml"), "i:1")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(path)
	put(filepath.Join(dir, "b.yaml"))
	h := newHeard(t)
	files := &Files{Path: dir, Node: "n", Every: time.Hour, Clock: clock.RealClock{}, Report: h.report}
	hear(t, files.Run, h)
	h.await("a-n i:1", "b-n i:1")
	for _, away := range []func() error{
		func() error { return os.Remove(path) },
		func() error { return os.Rename(path, filepath.Join(dir, ".a.yaml")) },
	} {
		if err := away(); err != nil {
			t.Fatal(err)
		}
		put(path)
		h.await("b-n i:1")
		h.await("a-n i:1", "b-n i:1")
	}
}
