package causality

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// server answers every call with a header, and keeps what it was told.
type server struct {
	header metadata.MD
	told   []string
}

func (s *server) hear(ctx context.Context) {
	sent, _ := metadata.FromOutgoingContext(ctx)
	s.told = sent.Get(knowKey)
}

func (s *server) Invoke(ctx context.Context, _ string, _, _ any, opts ...grpc.CallOption) error {
	s.hear(ctx)
	for _, o := range opts {
		if h, ok := o.(grpc.HeaderCallOption); ok {
			*h.HeaderAddr = s.header
		}
	}
	return nil
}

func (s *server) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	s.hear(ctx)
	return nil, nil
}

func TestWhatWasDecidedIsTold(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s := &server{}
	c := New(s)
	c.now = func() time.Time { return now }
	call := func(method string, revisions ...string) {
		t.Helper()
		s.header = metadata.MD{decisiveKey: revisions}
		if err := c.Invoke(t.Context(), method, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	told := func(want string) {
		t.Helper()
		for _, streamed := range []bool{false, true} {
			if streamed {
				_, _ = c.NewStream(t.Context(), nil, apiv1.ObjectService_Watch_FullMethodName)
			} else {
				call(apiv1.ObjectService_Get_FullMethodName)
			}
			if want == "" && len(s.told) > 0 || want != "" && (len(s.told) != 1 || s.told[0] != want) {
				t.Errorf("told %q, want %q", s.told, want)
			}
		}
	}
	told("")
	call(apiv1.ObjectService_Create_FullMethodName)
	told("")
	call(apiv1.ObjectService_Create_FullMethodName, "7")
	told("7")
	call(apiv1.ObjectService_Get_FullMethodName, "100") // reads decide nothing
	told("7")
	call(apiv1.ObjectService_DeleteCollection_FullMethodName, "9", "12", "x", "11")
	told("12")
	call(apiv1.ObjectService_Delete_FullMethodName, "8") // answered late
	told("12")
	now = now.Add(remembered + time.Second)
	told("")
	call(apiv1.ObjectService_Patch_FullMethodName, "3") // of a database that was set back
	told("3")
}
