// Package report tells the API server of the requests that the gateway answers by itself, so that its audit log has them.
package report

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/request"
)

const (
	// waiting is how many reports may wait; more are lost, and counted.
	waiting = 1000
	// timeout bounds a report.
	timeout = 5 * time.Second
	// senders is how many reports are on their way at a time.
	senders = 4
)

// Request is what becomes of one request.
type Request struct {
	// Metadata says who asks, and from where; nil where that was never found out.
	Metadata metadata.MD
	reached  atomic.Bool
	status   atomic.Pointer[metav1.Status]
}

type key struct{}

// With returns a context that carries a request's fate.
func With(ctx context.Context, r *Request) context.Context { return context.WithValue(ctx, key{}, r) }

// From returns the request of a context, or nil.
func From(ctx context.Context) *Request {
	r, _ := ctx.Value(key{}).(*Request)
	return r
}

// Refused notes what the gateway answered.
func Refused(ctx context.Context, status *metav1.Status) {
	if r := From(ctx); r != nil {
		r.status.Store(status)
	}
}

// Conn is a connection to the API server that notes which requests have reached it: those are in its log already.
type Conn struct{ grpc.ClientConnInterface }

// Invoke implements grpc.ClientConnInterface.
func (c Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	reached(ctx, method)
	return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (c Conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	reached(ctx, method)
	return c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
}

// reached notes a call, unless it only asks who somebody is.
func reached(ctx context.Context, method string) {
	if r := From(ctx); r != nil && method != apiv1.DiscoveryService_Authenticate_FullMethodName {
		r.reached.Store(true)
	}
}

// Reporter sends reports.
type Reporter struct {
	client apiv1.DiscoveryServiceClient
	queue  chan report
	lost   prometheus.Counter
}

type report struct {
	metadata metadata.MD
	message  *apiv1.ReportRequest
}

// New returns a reporter that sends nothing before Run. A nil registerer registers no metrics.
func New(client apiv1.DiscoveryServiceClient, registerer prometheus.Registerer) *Reporter {
	r := &Reporter{client: client, queue: make(chan report, waiting), lost: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "howdah_gateway_reports_lost_total", Help: "Requests that the gateway answered by itself and that the audit log does not have.",
	})}
	if registerer != nil {
		registerer.MustRegister(r.lost)
	}
	return r
}

// Done reports a request that was answered with the code, unless the API server knows of it.
func (r *Reporter) Done(req *Request, method string, path string, info request.Info, code int) {
	if req.reached.Load() || req.Metadata == nil {
		return
	}
	access := &apiv1.Access{Verb: strings.ToLower(method), Path: path}
	if info.IsResource() {
		access = &apiv1.Access{
			Verb: verbOf(info, method), Group: info.Group, Version: info.Version, Resource: info.Resource, Subresource: info.Subresource,
			Namespace: info.Namespace, Name: info.Name,
		}
	}
	message := &apiv1.ReportRequest{Access: access, Code: int32(code)}
	if status := req.status.Load(); status != nil {
		message.Status, _ = json.Marshal(status) // a Status holds nothing that JSON cannot
	}
	select {
	case r.queue <- report{req.Metadata, message}:
	default:
		r.lost.Inc()
	}
}

// verbOf is the verb as the log has it: streams, and what is not allowed, are known by their method.
func verbOf(info request.Info, method string) string {
	if info.Verb != request.Connect && info.Verb != "" {
		return info.Verb
	}
	switch method {
	case http.MethodGet, http.MethodHead:
		if info.Name == "" {
			return request.List
		}
		return request.Get
	case http.MethodPut:
		return request.Update
	case http.MethodPatch:
		return request.Patch
	case http.MethodDelete:
		if info.Name == "" {
			return request.DeleteCollection
		}
		return request.Delete
	case http.MethodPost:
		return request.Create
	}
	return ""
}

// Run sends reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	done := make(chan struct{})
	for range senders {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				select {
				case <-ctx.Done():
					return
				case next := <-r.queue:
					r.send(ctx, next)
				}
			}
		}()
	}
	for range senders {
		<-done
	}
}

func (r *Reporter) send(ctx context.Context, next report) {
	ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(ctx, next.metadata), timeout)
	defer cancel()
	if _, err := r.client.Report(ctx, next.message); err != nil && ctx.Err() == nil {
		r.lost.Inc()
		slog.WarnContext(ctx, "report a request to the audit log", "err", err)
	}
}
