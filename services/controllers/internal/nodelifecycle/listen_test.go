package nodelifecycle

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/object"
)

// wire leads to an API that has no nodes, or to nobody.
type wire struct{ away bool }

func (w *wire) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	if w.away {
		return status.Error(codes.Unavailable, "nobody answers")
	}
	return apistatus.ToGRPC(apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "n"))
}

func (w *wire) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.New("there are no streams")
}

// TestSilenceWhileTheAPIIsAway: nodes that could not be heard are not silent, and have their whole grace when they can be heard again.
func TestSilenceWhileTheAPIIsAway(t *testing.T) {
	t.Parallel()
	clock, api := testclock.NewFakeClock(now), &wire{}
	c := &nodeLifecycle{
		cfg: Config{Period: 5 * time.Second, Grace: 40 * time.Second, Startup: time.Minute}, client: object.NewClient(api, "test"), clock: clock,
		known: map[string]*health{"spoke": {heard: now}, "new": {heard: now}},
	}
	spoke, fresh := newNode("spoke", "", ready(corev1.ConditionTrue)), newNode("new", "")
	fresh.Status.Conditions, fresh.CreationTimestamp.Time = nil, now
	for _, step := range []struct {
		after        time.Duration
		away         bool
		spoke, fresh bool // are silent
	}{
		{after: 30 * time.Second},
		{after: 5 * time.Second, away: true},
		{after: 300 * time.Second, away: true},
		{after: 5 * time.Second},
		{after: 40 * time.Second},
		{after: time.Second, spoke: true},
		{after: 20 * time.Second, spoke: true, fresh: true},
		{after: 5 * time.Second, away: true}, // of what was silent before, nobody knows
		{after: 5 * time.Second},
	} {
		clock.Step(step.after)
		api.away = step.away
		c.listen(t.Context(), "spoke")
		if got := c.silent(spoke); got != step.spoke {
			t.Errorf("%v later, with the API away: %v, a node is silent: %v", clock.Since(now), step.away, got)
		}
		if got := c.silent(fresh); got != step.fresh {
			t.Errorf("%v later, with the API away: %v, a node that never spoke is silent: %v", clock.Since(now), step.away, got)
		}
	}
}
