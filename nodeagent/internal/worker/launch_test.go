package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// slowRuntime takes its time to start a container, and breaks off where the caller does.
type slowRuntime struct {
	runtimeapi.RuntimeServiceClient
	takes time.Duration
}

func (r slowRuntime) StartContainer(ctx context.Context, _ *runtimeapi.StartContainerRequest, _ ...grpc.CallOption) (*runtimeapi.StartContainerResponse, error) {
	select {
	case <-time.After(r.takes):
		return &runtimeapi.StartContainerResponse{}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// A start that is broken off is one that the runtime takes back: the agent's end must not be that of a container.
func TestStartsOutlastTheAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes, ends time.Duration // after the call's begin; ends 0: never
		want        error
	}{
		"nobody ends":          {takes: time.Minute},
		"ended meanwhile":      {takes: 3 * time.Second, ends: time.Second},
		"ended, and it hangs":  {takes: time.Minute, ends: time.Second, want: context.Canceled},
		"it hangs for ever":    {takes: time.Hour, want: context.Canceled},
		"ended before it came": {takes: startGrace / 2, ends: time.Nanosecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.ends > 0 {
					time.AfterFunc(c.ends, cancel)
				}
				w := &worker{cfg: &Config{Runtime: slowRuntime{takes: c.takes}}}
				began := time.Now()
				if err := w.launch(ctx, "id"); !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				if most := callTimeout + startGrace; time.Since(began) > most {
					t.Errorf("took %v, want at most %v", time.Since(began), most)
				}
			})
		})
	}
}
