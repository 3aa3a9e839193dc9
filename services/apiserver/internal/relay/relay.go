// Package relay passes an HTTP request that came as a stream on to where a round tripper leads, and the answer back: what
// proxies to pods, services and nodes, and extension API servers, are reached by.
package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/audit"
)

// Channels of a proxied request.
const (
	requestBody  = 0
	responseBody = 1
)

// pieceSize is the most that one frame carries, in bytes.
const pieceSize = 32 << 10

// Caller is the stream of whoever made the request. Its first message has been received.
type Caller = grpc.BidiStreamingServer[apiv1.ConnectRequest, apiv1.ConnectResponse]

// Serve sends the request of open to the target and the answer to the caller, upgraded connections included. It returns when
// the answer has ended, with a Status where there is none. change, which may be nil, is called with the request before it is sent.
func Serve(ctx context.Context, caller Caller, open *apiv1.ConnectOpen, target *url.URL, transport http.RoundTripper, change func(*http.Request)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, feed := io.Pipe()
	defer body.Close()
	request, err := newRequest(ctx, open, target, body)
	if err != nil {
		return err
	}
	if change != nil {
		change(request)
	}
	go receive(caller, feed) // ends with the caller's stream, which ends when this returns
	response, err := transport.RoundTrip(request)
	if err != nil {
		return unreachable(err)
	}
	defer response.Body.Close()
	if err := caller.Send(&apiv1.ConnectResponse{Message: &apiv1.ConnectResponse_Accepted{Accepted: &apiv1.ConnectAccepted{
		Code: int32(response.StatusCode), Headers: headers(response.Header),
	}}}); err != nil {
		return err
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		conn, ok := response.Body.(io.ReadWriteCloser)
		if !ok {
			return apierrors.NewInternalError(errors.New("the upgraded connection cannot be written to"))
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer stop()
		go func() { // ends with the connection or the caller's stream
			_, _ = io.Copy(conn, body)
			_ = conn.Close()
		}()
		_ = send(caller, conn) // however it ended, bytes had passed
		return nil
	}
	if err := send(caller, response.Body); err != nil {
		audit.From(ctx).Panicked() // as Kubernetes' proxy does, of which its audit log tells
		return brokenOff{err}
	}
	return nil
}

// brokenOff is why an answer ended before it was whole.
type brokenOff struct{ cause error }

func (e brokenOff) Error() string { return fmt.Sprintf("the answer broke off: %v", e.cause) }

func (e brokenOff) Unwrap() error { return e.cause }

// Status is what Kubernetes' audit log has of it; no client sees it.
func (e brokenOff) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "APIServer panic'd: net/http: abort Handler"}
}

// BrokeOff reports whether an error of Serve is of an answer that had begun.
func BrokeOff(err error) bool {
	var e brokenOff
	return errors.As(err, &e)
}

// unreachable is the 503 of a target that gave no answer.
func unreachable(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf("error trying to reach service: %v", err))
}

func newRequest(ctx context.Context, open *apiv1.ConnectOpen, target *url.URL, body *io.PipeReader) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, open.GetMethod(), target.String(), body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	request.ContentLength = -1
	for _, h := range open.GetHeaders() {
		if name := http.CanonicalHeaderKey(h.GetName()); name != "Content-Length" {
			request.Header.Add(name, h.GetValue())
			continue
		}
		if request.ContentLength, err = strconv.ParseInt(h.GetValue(), 10, 64); err != nil || request.ContentLength < 0 {
			return nil, apierrors.NewBadRequest("malformed Content-Length")
		}
	}
	if request.Header.Get("User-Agent") == "" {
		request.Header["User-Agent"] = nil // not this program's
	}
	if request.ContentLength == 0 || request.Header.Get("Upgrade") != "" || request.ContentLength < 0 && bodyless(open.GetMethod()) {
		request.Body, request.ContentLength = http.NoBody, 0
	}
	return request, nil
}

// Verbs are what requests that are passed on are authorized as, by HTTP method. A method that is none of Kubernetes' has no verb, as there.
var Verbs = map[string]string{
	http.MethodGet: "get", http.MethodHead: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
	http.MethodDelete: "delete",
}

// Verb is what a request for a resource is authorized and recorded as, and the objects of it that it selects by field.
func Verb(open *apiv1.ConnectOpen) (verb, fieldSelector string) {
	query, _ := url.ParseQuery(open.GetQuery()) // what cannot be parsed is for the server to refuse
	verb, fieldSelector = Verbs[cmp.Or(open.GetMethod(), http.MethodGet)], query.Get("fieldSelector")
	if open.GetName() != "" {
		return verb, fieldSelector
	}
	switch verb {
	case "get":
		verb = "list"
		if watch, ok := query["watch"]; ok && watch[0] != "false" && watch[0] != "0" {
			verb = "watch"
		}
	case "delete":
		verb = "deletecollection"
	}
	return verb, fieldSelector
}

// bodyless are the methods whose requests have no body unless they tell its length.
func bodyless(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions || method == http.MethodDelete
}

func headers(h http.Header) []*apiv1.Header {
	var out []*apiv1.Header
	for name, values := range h {
		for _, v := range values {
			out = append(out, &apiv1.Header{Name: name, Value: v})
		}
	}
	return out
}

// receive writes the caller's frames to the request's body.
func receive(caller Caller, body *io.PipeWriter) {
	for {
		m, err := caller.Recv()
		if errors.Is(err, io.EOF) {
			_ = body.Close()
			return
		}
		if err != nil {
			_ = body.CloseWithError(err)
			return
		}
		frame := m.GetFrame()
		if frame.GetChannel() != requestBody {
			continue
		}
		if len(frame.GetData()) > 0 {
			// A target that reads no more is no reason to stop: its answer is still to come.
			_, _ = body.Write(frame.GetData())
		}
		if frame.GetClose() {
			_ = body.Close()
		}
	}
}

// send carries what a reader gives, as it comes, to the caller.
func send(caller Caller, from io.Reader) error {
	for {
		piece := make([]byte, pieceSize) // the stream keeps it after Send
		n, err := from.Read(piece)
		if n > 0 {
			frame := &apiv1.ConnectFrame{Channel: responseBody, Data: piece[:n]}
			if err := caller.Send(&apiv1.ConnectResponse{Message: &apiv1.ConnectResponse_Frame{Frame: frame}}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Name is a proxied object's: [scheme:]name[:port]. ok is false for what is none.
func Name(text string) (scheme, name, port string, ok bool) {
	parts := strings.Split(text, ":")
	switch len(parts) {
	case 1:
		name = parts[0]
	case 2:
		name, port = parts[0], parts[1]
	case 3:
		scheme, name, port = parts[0], parts[1], parts[2]
	default:
		return "", "", "", false
	}
	return scheme, name, port, name != "" && (scheme == "" || scheme == "http" || scheme == "https")
}
