package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/kit/apistatus"

	"howdah.dev/gateway/internal/answer"
	"howdah.dev/gateway/internal/compress"
	"howdah.dev/gateway/internal/feed"
	"howdah.dev/gateway/internal/request"
	"howdah.dev/gateway/internal/socket"
)

// Handler serves the requests that name a resource, but for the streams of Connect.
type Handler struct {
	client  apiv1.ObjectServiceClient
	mux     *runtime.ServeMux
	maxBody int64
	frames  frameCache
	feeds   *feed.Set
	// generated sends every verb through the mux: what direct does must not differ from it.
	generated bool
}

// New returns a handler that calls the client and takes bodies of at most
// maxBody bytes. Its watches share feeds.
func New(client apiv1.ObjectServiceClient, maxBody int64, feeds *feed.Set) (*Handler, error) {
	mux, err := newMux(client)
	if err != nil {
		return nil, err
	}
	return &Handler{client: client, mux: mux, maxBody: maxBody, feeds: feeds}, nil
}

// Framer returns how the frames of a feed are made.
func Framer(contentType string) feed.Frame { return framerFor(contentType).appendFrame }

// Serve answers a request that asks for info; md says who asks.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, info request.Info, md metadata.MD) {
	form, wrong := info.Options(r.URL.Query(), r.Header)
	if info.Verb == request.Watch && socket.Wanted(r) {
		if wrong != nil {
			answer.Error(w, r, wrong)
			return
		}
		h.watchOverWebSocket(w, r, info, md, form)
		return
	}
	var in body
	if !info.ReadOnly() {
		var err error
		if in.data, err = h.read(w, r); err != nil {
			md = withRefusal(md, UnreadKey, err)
			in.data = []byte(unreadBody)
		}
	}
	if len(in.data) == 0 {
		options, err := info.DeleteOptions(r.URL.Query())
		if err != nil { // they stand for a body, and are judged where that would be read
			md, options = withRefusal(md, UnreadKey, err), []byte(unreadBody)
		}
		if in.data = options; len(in.data) > 0 {
			form.Set("contentType", answer.JSON)
		}
	}
	if wrong != nil {
		md = withRefusal(md, WrongKey, wrong)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	x := &exchange{info: info, metadata: md, cancel: cancel}
	out := &writer{ResponseWriter: w, exchange: x, watch: info.Verb == request.Watch, gzip: compress.Accepted(r.Header), stall: newStall(w)}
	defer out.stall.stop()
	if h.generated || !h.direct(ctx, out, x, form, in.data) {
		h.throughMux(ctx, out, r, x, &in, form)
	}
	if x.err != nil {
		h.fail(out, r, x)
		return
	}
	out.finish()
}

// throughMux answers by the generated handlers.
func (h *Handler) throughMux(ctx context.Context, out *writer, r *http.Request, x *exchange, in *body, form url.Values) {
	route := x.info.Route()
	inner := (&http.Request{
		Method: r.Method, Host: r.Host, RemoteAddr: r.RemoteAddr, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor,
		URL: &url.URL{Path: route, RawPath: route},
		// The mux reads metadata from headers; those of the client stay out.
		Header: http.Header{}, Body: in, Form: form, PostForm: url.Values{},
	}).WithContext(withExchange(ctx, x))
	h.mux.ServeHTTP(out, inner)
}

// fail answers what the call failed with. A watch that has begun gets an
// ERROR event and a clean end; or only the end, from which clients resume,
// where the connection behind was lost. A list that has begun is broken off,
// so that nobody takes a part for the whole.
func (h *Handler) fail(out *writer, r *http.Request, x *exchange) {
	if !out.wroteHeader {
		for _, name := range []string{"Content-Type", "Content-Length"} {
			out.Header().Del(name)
		}
		answer.Error(out.ResponseWriter, r, x.err)
		return
	}
	if !out.watch {
		panic(http.ErrAbortHandler)
	}
	if out.gone || r.Context().Err() != nil || interrupted(x.err) {
		out.finish()
		return
	}
	status := answer.Encode(apistatus.Of(x.err), x.framer.encoding())
	frame := x.framer.appendFrame(nil, "ERROR", status)
	x.err = nil // the writer passes nothing on beside an error
	_, _ = out.Write(frame)
	out.finish()
}

func (h *Handler) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	tooLarge := func() error {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", h.maxBody))
	}
	if r.ContentLength > h.maxBody {
		return nil, tooLarge()
	}
	reader := http.MaxBytesReader(w, r.Body, h.maxBody)
	var (
		data []byte
		err  error
	)
	if r.ContentLength >= 0 {
		data = make([]byte, r.ContentLength)
		_, err = io.ReadFull(reader, data)
	} else {
		data, err = io.ReadAll(reader)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge()
	}
	if err != nil && r.Context().Err() != nil {
		return nil, apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest("the body did not arrive whole: " + err.Error())
	}
	return data, nil
}
