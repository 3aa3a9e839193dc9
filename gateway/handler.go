package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/answer"
	"howdah.dev/gateway/internal/causality"
	"howdah.dev/gateway/internal/console"
	"howdah.dev/gateway/internal/document"
	"howdah.dev/gateway/internal/feed"
	"howdah.dev/gateway/internal/identity"
	"howdah.dev/gateway/internal/logs"
	"howdah.dev/gateway/internal/outcome"
	"howdah.dev/gateway/internal/past"
	"howdah.dev/gateway/internal/remote"
	"howdah.dev/gateway/internal/report"
	"howdah.dev/gateway/internal/request"
	"howdah.dev/gateway/internal/rest"
	"howdah.dev/gateway/internal/role"
	"howdah.dev/gateway/internal/stream"
	"howdah.dev/gateway/internal/telemetry"
	"howdah.dev/kit/stack"
)

// router sends each request to what serves it.
type router struct {
	config     Config
	slots      chan struct{} // one an in-flight request
	identifier identity.Identifier
	identity   *identity.Resolver
	objects    *rest.Handler
	documents  *document.Handler
	remote     *remote.Set
	streams    *stream.Handler
	roles      *role.Handler
	past       *past.Handler
	console    *console.Handler // nil is none
	logs       *logs.Handler    // nil where nobody keeps any
	discovery  apiv1.DiscoveryServiceClient
	began      time.Time
}

// spacelessKey is the metadata by which the API server learns that the path has an empty part where a namespace is named.
const spacelessKey = "howdah-spaceless"

// remoteKey marks the context of a request that an extension API server serves, with its group and version.
type remoteKey struct{}

// newHandler builds the handler.
func newHandler(config Config, elsewhere *remote.Set, reporter *report.Reporter, feeds *feed.Set) (http.Handler, error) {
	conn := report.Conn{ClientConnInterface: outcome.Conn{ClientConnInterface: causality.New(config.APIServer)}}
	client := apiv1.NewObjectServiceClient(conn)
	discovery := apiv1.NewDiscoveryServiceClient(conn)
	objects, err := rest.New(client, config.MaxBody, feeds)
	if err != nil {
		return nil, err
	}
	roles, err := role.New(config.Scheduler, config.Controllers)
	if err != nil {
		return nil, err
	}
	rt := &router{
		remote:     elsewhere,
		config:     config,
		slots:      make(chan struct{}, config.MaxInFlight),
		identifier: config.identifier(),
		identity:   identity.NewResolver(discovery),
		objects:    objects,
		documents:  document.New(discovery),
		streams:    stream.New(client),
		roles:      roles,
		past:       past.New(conn, config.MaxBody),
		discovery:  discovery,
		began:      time.Now(),
	}
	if config.Console != nil {
		if rt.console, err = console.New(console.Config{TraceURL: config.Console.TraceURL}); err != nil {
			return nil, err
		}
	}
	if config.Logs != nil {
		rt.logs = logs.New(config.Logs, rt.identity)
	}
	metrics := telemetry.NewMetrics(config.Registerer)
	inner := telemetry.Trace(http.HandlerFunc(rt.serve), config.UntracedReads)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stack.Deepen()
		info := request.Resolve(r.Method, r.URL)
		recorder := telemetry.Record(w)
		end := metrics.Begin(info)
		fate := &report.Request{}
		defer func() {
			p := recover()
			broken := p == http.ErrAbortHandler || p != nil && panicked(recorder, r, p)
			end(recorder.Code())
			reporter.Done(fate, r.Method, r.URL.Path, info, recorder.Code())
			if broken {
				metrics.Aborted(info, recorder.Code())
				panic(http.ErrAbortHandler) // net/http breaks the connection off
			}
		}()
		if config.CBOR {
			r = r.WithContext(answer.WithCBOR(r.Context()))
		}
		recorder.Header().Set("Cache-Control", "no-cache, private")
		config.Connections.announce(recorder.Header(), r)
		inner.ServeHTTP(recorder, r.WithContext(telemetry.WithInfo(report.With(r.Context(), fate), info)))
	}), nil
}

// expiration observes how long clients' certificates are still good, as alerts for Kubernetes read it.
func expiration(registerer prometheus.Registerer) prometheus.Observer {
	const minute, hour, day = 60, 3600, 86400
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "apiserver_client_certificate_expiration_seconds", Help: "Seconds that the certificates of requests are still good.",
		Buckets: []float64{0, 30 * minute, hour, 2 * hour, 6 * hour, 12 * hour, day, 2 * day, 4 * day, 7 * day, 30 * day, 90 * day, 180 * day, 360 * day},
	})
	if registerer != nil {
		registerer.MustRegister(h)
	}
	return h
}

// panicked logs a panic and answers 500. Where an answer has begun it reports that this must be broken off.
func panicked(w *telemetry.Recorder, r *http.Request, p any) (broken bool) {
	slog.ErrorContext(r.Context(), "panic in a handler", "path", r.URL.Path, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
	if w.Begun() {
		return true
	}
	answer.Error(w, r, apierrors.NewInternalError(fmt.Errorf("this request caused the gateway to panic")))
	return false
}

// serve bounds a request in time and number, and finds out who calls.
func (rt *router) serve(w http.ResponseWriter, r *http.Request) {
	info := telemetry.InfoOf(r.Context())
	if info.Incomplete {
		answer.Incomplete(w, r)
		return
	}
	if rt.console != nil && console.Is(r.URL.Path) {
		rt.console.ServeHTTP(w, r) // whoever asks: the files tell nothing
		return
	}
	caller, err := rt.identifier.Of(r)
	if err != nil {
		caller = identity.Caller{} // nobody: the credentials are not readable
	}
	if caller.Warning != "" {
		answer.Warnings(w.Header(), metadata.Pairs("warning", caller.Warning))
	}
	if err == nil && forged(r, caller) {
		answer.Error(w, r, errForged)
		return
	}
	asking := asking{caller, withOrigin(caller.Metadata(), w, r), err}
	if fate := report.From(r.Context()); fate != nil {
		fate.Metadata = asking.md
	}
	if !rt.remote.Await(r.Context(), r.URL.Path) {
		answer.Error(w, r, errEarly)
		return
	}
	group, version, elsewhere := rt.remote.Match(r.URL.Path)
	if elsewhere {
		r = r.WithContext(context.WithValue(r.Context(), remoteKey{}, [2]string{group, version}))
	}
	if info.LongRunning() || elsewhere && stream.Upgrades(r) {
		ctx, cancel := untilStreamsEnd(r.Context())
		defer cancel()
		rt.route(w, r.WithContext(ctx), info, asking)
		return
	}
	if !document.Health(r.URL.Path) {
		select {
		case rt.slots <- struct{}{}:
			defer func() { <-rt.slots }()
		default:
			answer.Error(w, r, apierrors.NewTooManyRequests("Too many requests, please try again later.", 1))
			return
		}
	}
	timeout, err := requestTimeout(r, rt.config.RequestTimeout)
	if err != nil {
		answer.Error(w, r, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	if r.ContentLength != 0 { // the body must arrive in that time too
		defer boundBody(ctx, w, r, timeout)()
	}
	rt.route(w, r.WithContext(ctx), info, asking)
}

// boundBody ends the reading of the body when ctx does, until the function that it returns is called.
func boundBody(ctx context.Context, w http.ResponseWriter, r *http.Request, timeout time.Duration) (stop func()) {
	if r.ProtoMajor > 1 {
		// A deadline would cost two rounds through the loop of the connection.
		body := r.Body
		stopped := context.AfterFunc(ctx, func() { _ = body.Close() })
		return func() { stopped() }
	}
	controller := http.NewResponseController(w)
	_ = controller.SetReadDeadline(time.Now().Add(timeout)) // not every server supports it
	return func() { _ = controller.SetReadDeadline(time.Time{}) }
}

// asking is who makes a request; err says that it cannot be told.
type asking struct {
	caller identity.Caller
	md     metadata.MD
	err    error
}

func (rt *router) route(w http.ResponseWriter, r *http.Request, info request.Info, who asking) {
	if who.err != nil {
		slog.InfoContext(r.Context(), "credentials refused", "err", who.err)
		answer.Status(w, r, answer.Unauthorized())
		return
	}
	caller, md := who.caller, who.md
	if info.Spaceless {
		md.Set(spacelessKey, "true")
	}
	gv, elsewhere := r.Context().Value(remoteKey{}).([2]string)
	switch {
	case elsewhere:
		rt.streams.Remote(w, r, info, gv[0], gv[1], md)
	case info.IsResource() && info.Verb == "":
		if !rt.permitted(w, r, info, caller) {
			return
		}
		taken, err := rt.documents.Unusable(r, info, md)
		if err != nil {
			answer.Error(w, r, err)
			return
		}
		rt.objects.Serve(w, r, taken, withAgent(md, r.UserAgent()))
	case info.Verb == request.Connect:
		rt.streams.Serve(w, r, info, md)
	case info.IsResource() && info.ReadOnly():
		rt.objects.Serve(w, r, info, md)
	case info.IsResource():
		rt.objects.Serve(w, r, info, withAgent(md, r.UserAgent()))
	case document.Is(r.URL.Path):
		rt.documents.Serve(w, r, md)
	case past.Is(r.URL.Path):
		rt.past.Serve(w, r, withAgent(md, r.UserAgent()))
	case r.URL.Path == logs.Path && rt.logs != nil:
		rt.logs.Serve(w, r, caller)
	default:
		rt.serveOwn(w, r, caller, md)
	}
}

// permitted reports whether the caller may do what will be refused for another reason; if not, it has answered that.
func (rt *router) permitted(w http.ResponseWriter, r *http.Request, info request.Info, caller identity.Caller) bool {
	access := &apiv1.Access{
		Verb: info.Authorized(r.Method, r.URL), Group: info.Group, Version: info.Version, Resource: info.Resource, Subresource: info.Subresource,
		Namespace: info.Namespace, Name: info.Name,
	}
	var told metadata.MD
	_, err := rt.identity.Resolve(r.Context(), caller, access, grpc.Header(&told))
	answer.Classified(w.Header(), told)
	if err != nil {
		answer.Error(w, r, err)
		return false
	}
	return true
}

// errEarly answers a request for a group version while it is not known who serves it, in Kubernetes' words.
var errEarly = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
	Message: "the request has been made before all known HTTP paths have been installed, please try again",
	Details: &metav1.StatusDetails{RetryAfterSeconds: 5},
}}
