package apistatus

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	tests := []struct {
		name string
		err  *apierrors.StatusError
		code codes.Code
	}{
		{"not found", apierrors.NewNotFound(pods, "a"), codes.NotFound},
		{"conflict", apierrors.NewConflict(pods, "a", errors.New("moved on")), codes.Aborted},
		{"exists shares conflict's HTTP code", apierrors.NewAlreadyExists(pods, "a"), codes.Aborted},
		{"invalid keeps its causes", apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", field.ErrorList{field.Required(field.NewPath("spec"), "needed")}), codes.InvalidArgument},
		{"expired", apierrors.NewResourceExpired("too old"), codes.OutOfRange},
		{"too many", apierrors.NewTooManyRequests("later", 3), codes.ResourceExhausted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wire := ToGRPC(fmt.Errorf("wrapped: %w", tt.err))
			if got := status.Code(wire); got != tt.code {
				t.Errorf("code %v, want %v", got, tt.code)
			}
			want := tt.err.ErrStatus
			want.Kind, want.APIVersion = "Status", "v1"
			if diff := cmp.Diff(want, FromGRPC(wire).(*apierrors.StatusError).ErrStatus); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLostConnectionIsRetriable(t *testing.T) {
	t.Parallel()
	err := FromGRPC(status.Error(codes.Unavailable, "connection reset"))
	if !apierrors.IsServiceUnavailable(err) {
		t.Fatalf("got %v", err)
	}
	if s, ok := apierrors.SuggestsClientDelay(err); !ok || s != 1 {
		t.Fatalf("no retry delay in %v", err)
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	if got := Of(context.DeadlineExceeded).Code; got != 504 {
		t.Errorf("deadline: %d", got)
	}
	if got := Of(errors.New("boom")); got.Code != 500 || got.Reason != "InternalError" {
		t.Errorf("plain error: %+v", got)
	}
}
