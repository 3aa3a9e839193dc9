package worker

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ended returns with how much grace a container was stopped.
func (w *world) ended(name string) string {
	for _, call := range w.runtime.Calls() {
		if rest, ok := strings.CutPrefix(call, "StopContainer "+name+" "); ok {
			return rest
		}
	}
	return ""
}

func TestPodsLeaveTheirServicesBeforeTheyEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		served := make(chan struct{})
		w.serving = map[types.UID]chan struct{}{"uid-web": served, "uid-stuck": make(chan struct{}), "uid-hasty": make(chan struct{})}
		m, _ := w.start()
		for _, name := range []string{"web", "stuck", "hasty", "job"} {
			m.Update(newPod(name, name))
			w.eventually(name+" ready", w.ready(types.UID("uid-"+name)))
		}
		began := time.Now()
		m.Update(endingPod(newPod("web", "web"), 5))
		m.Update(endingPod(newPod("job", "job"), 5))
		m.Update(endingPod(newPod("hasty", "hasty"), 0))
		w.eventually("job ended", func() bool { return w.ended("job") == "5" })
		w.eventually("hasty ended", func() bool { return w.ended("hasty") == "0" })
		if took := time.Since(began); took > leaveTimeout/2 {
			t.Errorf("a pod without services and one without grace took %v to hear of their end", took)
		}
		if got := w.ended("web"); got != "" {
			t.Fatalf("web was ended with grace %s while a service had it", got)
		}
		close(served)
		w.eventually("web ended", func() bool { return w.ended("web") == "5" })

		began = time.Now()
		m.Update(endingPod(newPod("stuck", "stuck"), 5))
		w.eventually("stuck ended", func() bool { return w.ended("stuck") != "" })
		if took := time.Since(began); took < leaveTimeout || w.ended("stuck") != "4" {
			t.Errorf("a pod that never left its service ended after %v with grace %s, want %v and 4", took, w.ended("stuck"), leaveTimeout)
		}
		w.eventually("all gone", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			slices.Sort(w.deleted)
			return slices.Equal(w.deleted, []string{"hasty", "job", "stuck", "web"})
		})
	})
}

func TestLessPatienceEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.serving = map[types.UID]chan struct{}{"uid-p": make(chan struct{})}
		m, _ := w.start()
		m.Update(newPod("p", "c"))
		w.eventually("ready", w.ready("uid-p"))
		began := time.Now()
		m.Update(endingPod(newPod("p", "c"), 30))
		m.Update(endingPod(newPod("p", "c"), 1))
		w.eventually("ended", func() bool { return w.ended("c") == "1" })
		if took := time.Since(began); took > leaveTimeout-100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}
