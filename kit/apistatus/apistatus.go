// Package apistatus is the one place where errors change their form: a
// metav1.Status at the API, a gRPC code with that Status as its detail on
// the wire, and a Go error inside.
package apistatus

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Undecided is what a 500 begins with that is answered as text, as Kubernetes does where an authorizer has failed.
const Undecided = "Internal Server Error: \""

// PageNotFound is the message of the 404 that is answered as text, as Kubernetes does where no API is behind a path.
const PageNotFound = "404 page not found"

// TooManyRequests is the message of the 429 that is answered as text, as Kubernetes does where requests are refused before they are looked at.
const TooManyRequests = "Too many requests, please try again later."

// typeURL names the detail that carries a protobuf-encoded metav1.Status.
const typeURL = "type.howdah.dev/k8s.io.apimachinery.pkg.apis.meta.v1.Status"

// ToGRPC turns err into a gRPC status error that carries the whole
// metav1.Status. Errors that are gRPC status errors already pass unchanged;
// errors that are no API errors become 500 InternalError, or 504 and 499
// where the context ended.
func ToGRPC(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok && !isAPI(err) {
		return err
	}
	s := Of(err)
	raw, merr := s.Marshal()
	if merr != nil {
		return status.Error(codes.Internal, merr.Error())
	}
	p := status.New(code(int(s.Code)), s.Message).Proto()
	p.Details = append(p.Details, &anypb.Any{TypeUrl: typeURL, Value: raw})
	return status.ErrorProto(p)
}

// FromGRPC turns a gRPC status error back into the *apierrors.StatusError
// that it carries. A gRPC error without one is mapped by its code, so that a
// lost connection is 503 ServiceUnavailable and retriable.
func FromGRPC(err error) error {
	if err == nil || isAPI(err) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	g, ok := status.FromError(err)
	if !ok {
		return err
	}
	for _, d := range g.Proto().GetDetails() {
		if d.GetTypeUrl() != typeURL {
			continue
		}
		var s metav1.Status
		if s.Unmarshal(d.GetValue()) == nil {
			s.Kind, s.APIVersion = "Status", "v1" // protobuf leaves the type out
			return &apierrors.StatusError{ErrStatus: s}
		}
	}
	return &apierrors.StatusError{ErrStatus: fromCode(g)}
}

// Of returns the Status that the API answers err with; that of no error is a success.
func Of(err error) metav1.Status {
	if err == nil {
		return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusOK}
	}
	var api apierrors.APIStatus
	switch {
	case errors.As(err, &api):
		s := api.Status()
		s.Kind, s.APIVersion = "Status", "v1"
		return s
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("the request did not finish in time", 1).Status()
	case errors.Is(err, context.Canceled):
		return metav1.Status{Status: metav1.StatusFailure, Code: 499, Reason: metav1.StatusReasonTimeout, Message: "the client closed the request"}
	}
	if g, ok := status.FromError(err); ok {
		if s, ok := errors.AsType[*apierrors.StatusError](FromGRPC(g.Err())); ok {
			return s.ErrStatus
		}
	}
	return apierrors.NewInternalError(err).Status()
}

func isAPI(err error) bool {
	var api apierrors.APIStatus
	return errors.As(err, &api)
}

// code maps HTTP to gRPC. Many HTTP codes share one gRPC code, which is why
// the way back reads the Status and never the code.
func code(httpCode int) codes.Code {
	switch httpCode {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusNotAcceptable:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound:
		return codes.NotFound
	case http.StatusConflict:
		return codes.Aborted
	case http.StatusGone:
		return codes.OutOfRange
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return codes.Unimplemented
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	case http.StatusGatewayTimeout:
		return codes.DeadlineExceeded
	case 499:
		return codes.Canceled
	}
	return codes.Internal
}

func fromCode(g *status.Status) metav1.Status {
	s := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Message: g.Message(),
		Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
	}
	set := func(code int32, reason metav1.StatusReason) { s.Code, s.Reason = code, reason }
	switch g.Code() {
	case codes.Unavailable:
		set(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
		s.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	case codes.DeadlineExceeded:
		set(http.StatusGatewayTimeout, metav1.StatusReasonTimeout)
	case codes.ResourceExhausted:
		set(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
		s.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	case codes.Unauthenticated:
		set(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
	case codes.PermissionDenied:
		set(http.StatusForbidden, metav1.StatusReasonForbidden)
	case codes.NotFound:
		set(http.StatusNotFound, metav1.StatusReasonNotFound)
	case codes.InvalidArgument:
		set(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	case codes.Unimplemented:
		set(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed)
	}
	return s
}
