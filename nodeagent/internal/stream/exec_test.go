package stream

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	nodev1 "howdah.dev/proto/gen/howdah/node/v1"
)

// caller is one whose frames a test sends.
type caller struct {
	grpc.BidiStreamingServer[nodev1.ConnectRequest, nodev1.ConnectResponse]
	frames chan *apiv1.ConnectFrame
}

func (c caller) Recv() (*nodev1.ConnectRequest, error) {
	frame, ok := <-c.frames
	if !ok {
		return nil, io.EOF
	}
	return &nodev1.ConnectRequest{Message: &nodev1.ConnectRequest_Frame{Frame: frame}}, nil
}

// A command must not speak before its caller listens; nor wait for ever for one that never says so.
func TestACommandWaitsForItsCaller(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		say  func(chan *apiv1.ConnectFrame)
		took time.Duration
	}{
		"a frame":         {func(c chan *apiv1.ConnectFrame) { c <- &apiv1.ConnectFrame{} }, time.Second},
		"the end":         {func(c chan *apiv1.ConnectFrame) { close(c) }, time.Second},
		"an older caller": {func(chan *apiv1.ConnectFrame) {}, callerPatience},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				frames := make(chan *apiv1.ConnectFrame)
				in := newInput(t.Context(), &conn{stream: caller{frames: frames}})
				_, cancel := context.WithCancel(t.Context())
				ran := make(chan struct{})
				go func() { defer close(ran); in.run(cancel) }()
				start := time.Now()
				go func() { time.Sleep(time.Second); test.say(frames) }()
				in.awaitCaller()
				if took := time.Since(start); took != test.took {
					t.Errorf("it waited for %s, not %s", took, test.took)
				}
				if name != "the end" {
					close(frames)
				}
				<-ran
			})
		})
	}
}
