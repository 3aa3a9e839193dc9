package authorities

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/pki/pkitest"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// server answers what it is told to.
type server struct{ answer atomic.Pointer[answer] }

type answer struct {
	text []byte
	err  error
}

func (s *server) Document(_ context.Context, r *apiv1.DocumentRequest, _ ...grpc.CallOption) (*apiv1.DocumentResponse, error) {
	if r.GetPath() != "/howdah/v1/authorities" {
		return nil, errors.New("asked for " + r.GetPath())
	}
	a := s.answer.Load()
	return &apiv1.DocumentResponse{Object: a.text}, a.err
}

// TestTheFileFollows takes a node through the steps by which an authority is replaced, and through what may go wrong between them.
func TestTheFileFollows(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ca.crt")
	synctest.Test(t, func(t *testing.T) {
		old, next := pkitest.Authority(t).PEM(), pkitest.Authority(t).PEM()
		if err := os.WriteFile(file, old, 0o600); err != nil {
			t.Fatal(err)
		}
		var api server
		api.answer.Store(&answer{text: old})
		f := New(Config{File: file, Documents: &api, Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry()})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx) }()

		for _, step := range []struct {
			name string
			text []byte
			err  error
			want []byte
			fail bool
		}{
			{name: "as before", text: old, want: old},
			{name: "the next is added", text: slices.Concat(old, next), want: slices.Concat(old, next)},
			{name: "nobody answers", err: status.Error(codes.Unavailable, "away"), want: slices.Concat(old, next), fail: true},
			{name: "it signs", text: slices.Concat(next, old), want: slices.Concat(next, old)},
			{name: "no certificate", text: []byte("nothing"), want: slices.Concat(next, old), fail: true},
			{name: "nothing", want: slices.Concat(next, old), fail: true},
			{name: "an API server of before", err: apistatus.ToGRPC(apierrors.NewNotFound(schema.GroupResource{}, "")), want: slices.Concat(next, old)},
			{name: "the old one is retired", text: next, want: next},
		} {
			api.answer.Store(&answer{step.text, step.err})
			failed := testutil.ToFloat64(f.errors)
			time.Sleep(time.Minute)
			synctest.Wait()
			got, err := os.ReadFile(file)
			if err != nil || !slices.Equal(got, step.want) {
				t.Errorf("%s: the file has %d bytes, want %d: %v", step.name, len(got), len(step.want), err)
			}
			if fails := testutil.ToFloat64(f.errors) > failed; fails != step.fail {
				t.Errorf("%s: failures were counted: %v, want %v", step.name, fails, step.fail)
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended: %v", err)
		}
	})
}
