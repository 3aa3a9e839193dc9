package object

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

const (
	// pieceSize is how much of a request's body one message carries, in bytes.
	pieceSize = 32 << 10
	// maxAnswer bounds the answer to a request that is no watch, in bytes.
	maxAnswer = 64 << 20
	// bodyChannel is that of a request's body.
	bodyChannel = 0
)

// tunnel sends HTTP requests to what extension API servers serve through the API's Connect, which authorizes them and tells
// the server who asks. What Connect refuses is an answer with its Status.
// A server that has let a request wait for hangTime is not asked again for hangPause, so that it takes no caller's time but that of one.
type tunnel struct {
	api apiv1.ObjectServiceClient

	mu   sync.Mutex
	away map[schema.GroupVersion]time.Time // until when servers that hang are not asked
}

const (
	hangTime  = 4 * time.Second
	hangPause = 5 * time.Second
)

// RoundTrip implements http.RoundTripper.
func (t *tunnel) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	open, err := openOf(r)
	if err != nil {
		return nil, err
	}
	gv, begun := schema.GroupVersion{Group: open.GetGroup(), Version: open.GetVersion()}, time.Now()
	if t.hangs(gv, begun) {
		return refused(r, apierrors.NewServiceUnavailable(gv.String()+" does not answer"))
	}
	ctx, cancel := context.WithCancel(r.Context())
	stream, accepted, err := t.open(ctx, r, open)
	if err != nil {
		cancel()
		if now := time.Now(); errors.Is(r.Context().Err(), context.DeadlineExceeded) && now.Sub(begun) >= hangTime {
			t.hung(gv, now)
		}
		if cause := r.Context().Err(); cause != nil {
			return nil, cause
		}
		return refused(r, err)
	}
	answer := &answer{stream: stream, cancel: cancel, left: maxAnswer}
	if r.URL.Query().Get("watch") != "" {
		answer.left = -1
	}
	response := &http.Response{
		Status: strconv.Itoa(int(accepted.GetCode())) + " " + http.StatusText(int(accepted.GetCode())), StatusCode: int(accepted.GetCode()),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, ContentLength: -1, Request: r, Body: answer,
	}
	for _, h := range accepted.GetHeaders() {
		response.Header.Add(h.GetName(), h.GetValue())
	}
	return response, nil
}

func (t *tunnel) hangs(gv schema.GroupVersion, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	until, noted := t.away[gv]
	if noted && !now.Before(until) {
		delete(t.away, gv)
		return false
	}
	return noted
}

func (t *tunnel) hung(gv schema.GroupVersion, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away[gv] = now.Add(hangPause)
}

// open sends the request and returns when the answer has begun.
func (t *tunnel) open(ctx context.Context, r *http.Request, open *apiv1.ConnectOpen) (grpc.BidiStreamingClient[apiv1.ConnectRequest, apiv1.ConnectResponse], *apiv1.ConnectAccepted, error) {
	stream, err := t.api.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err = send(stream, r, open); err != nil && !errors.Is(err, io.EOF) { // after EOF, Recv says why
		return nil, nil, err
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, nil, err
	}
	if first.GetAccepted() == nil {
		return nil, nil, errors.New("the stream of an answer began with a piece of it")
	}
	return stream, first.GetAccepted(), nil
}

func send(stream grpc.BidiStreamingClient[apiv1.ConnectRequest, apiv1.ConnectResponse], r *http.Request, open *apiv1.ConnectOpen) error {
	if err := stream.Send(&apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Open{Open: open}}); err != nil {
		return err
	}
	for r.Body != nil {
		piece := make([]byte, pieceSize) // the stream keeps it after Send
		n, err := io.ReadFull(r.Body, piece)
		if n > 0 {
			frame := &apiv1.ConnectFrame{Channel: bodyChannel, Data: piece[:n]}
			if err := stream.Send(&apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Frame{Frame: frame}}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	return stream.CloseSend()
}

// openOf describes a request by what it is authorized as.
func openOf(r *http.Request) (*apiv1.ConnectOpen, error) {
	open := &apiv1.ConnectOpen{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) < 4 || parts[0] != "apis" {
		return nil, fmt.Errorf("%s names no resource of an extension API server", r.URL.Path)
	}
	open.Group, open.Version, parts = parts[1], parts[2], parts[3:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		open.Namespace, parts = parts[1], parts[2:]
	}
	for i, field := range []*string{&open.Resource, &open.Name, &open.Subresource} {
		if i < len(parts) {
			*field = parts[i]
		}
	}
	for name, values := range r.Header {
		for _, v := range values {
			open.Headers = append(open.Headers, &apiv1.Header{Name: name, Value: v})
		}
	}
	if r.ContentLength > 0 {
		open.Headers = append(open.Headers, &apiv1.Header{Name: "Content-Length", Value: strconv.FormatInt(r.ContentLength, 10)})
	}
	return open, nil
}

// refused is the answer to a request that did not come through.
func refused(r *http.Request, cause error) (*http.Response, error) {
	status := apistatus.Of(apistatus.FromGRPC(cause))
	body, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	kind := "application/json"
	if status.Code == http.StatusNotFound && (status.Details == nil || status.Details.Kind == "") {
		// No such path is served: the answer to that is no Status, and clients make one themselves that says what they asked for.
		kind, body = "text/plain; charset=utf-8", []byte("404 page not found\n")
	}
	return &http.Response{
		Status: strconv.Itoa(int(status.Code)), StatusCode: int(status.Code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {kind}}, ContentLength: int64(len(body)), Request: r, Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}

// answer is the body of an answer. Close ends the request.
type answer struct {
	stream interface {
		Recv() (*apiv1.ConnectResponse, error)
	}
	cancel context.CancelFunc
	rest   []byte
	left   int // bytes that may still come; negative is no bound
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		m, err := a.stream.Recv()
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, apistatus.FromGRPC(err)
		}
		a.rest = m.GetFrame().GetData()
		if a.left >= 0 {
			if a.left -= len(a.rest); a.left < 0 {
				return 0, fmt.Errorf("the answer of an extension API server is longer than %d bytes", maxAnswer)
			}
		}
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (a *answer) Close() error {
	a.cancel()
	return nil
}
