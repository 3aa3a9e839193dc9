package nodestatus

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/fakecri"
)

// slowRuntime takes its time to say how it is.
type slowRuntime struct {
	*fakecri.Runtime
	takes time.Duration
	asked atomic.Int32
}

// Status implements runtimeapi.RuntimeServiceClient.
func (s *slowRuntime) Status(ctx context.Context, req *runtimeapi.StatusRequest, opts ...grpc.CallOption) (*runtimeapi.StatusResponse, error) {
	s.asked.Add(1)
	select {
	case <-time.After(s.takes):
		return s.Runtime.Status(ctx, req, opts...)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestSlowRuntime: a runtime that takes longer than a report waits is heard by the next, and down only where it says nothing for half a minute.
func TestSlowRuntime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes time.Duration
		down  bool
	}{
		"prompt": {time.Millisecond, false},
		"slow":   {12 * time.Second, false},
		"hangs":  {time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				runtime := &slowRuntime{Runtime: fakecri.New()}
				r := New(Config{Clock: clock.RealClock{}, Runtime: &cri.Client{Runtime: runtime, Images: runtime}})
				r.ask(t.Context())
				runtime.takes = c.takes
				runtime.asked.Store(0)
				began, down := time.Now(), false
				for time.Since(began) < time.Minute {
					before := time.Now()
					if r.ask(t.Context()); time.Since(before) > askTimeout {
						t.Errorf("a report waited %v", time.Since(before))
					}
					down = down || len(r.engine.problems(time.Now())) > 0
					time.Sleep(DefaultPace.Look)
				}
				if down != c.down {
					t.Errorf("it is down: %v (%v)", down, r.engine.err)
				}
				if asked := runtime.asked.Load(); c.down && asked != 1 {
					t.Errorf("it was asked %d times while it was silent", asked)
				}
			})
		})
	}
}
