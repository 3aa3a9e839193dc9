// Package webhook calls HTTPS webhooks: admission, conversion, and whoever else posts JSON and expects JSON.
//
// A webhook is a URL or a Service of this cluster. Connections are kept and used again; every call has a deadline, a bound on
// its answer, a span, and passes the trace on.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/obs"
	"howdah.dev/services/apiserver/internal/weakcert"
)

// DefaultTimeout bounds a call that names no timeout; MaxAnswer an answer, in bytes, where the call names no bound.
const (
	DefaultTimeout = 10 * time.Second
	MaxAnswer      = 8 << 20
)

var tracer = otel.Tracer("howdah.dev/services/apiserver/webhook")

// Target is where a webhook listens: either URL or Service is set.
type Target struct {
	// URL is https://host[:port]/path.
	URL     string
	Service *Service
	// CABundle is PEM; the roots of the system where it is empty.
	CABundle []byte
	// Client is how the apiserver shows who it is; nil shows nothing.
	Client *Client
}

// Client is what an apiserver shows a webhook.
type Client struct {
	// Certificate and Key are PEM, for TLS; Token is a bearer token; Username and Password are those of basic authentication, for
	// which no token may be set. Each may be empty.
	Certificate, Key   []byte
	Token              string
	Username, Password string
	// ServerName that the webhook's certificate is to be for; empty is the URL's host.
	ServerName string
}

// Service is a webhook behind a Service. Its certificate must be for <name>.<namespace>.svc.
type Service struct {
	Namespace, Name string
	// Path of the request; empty is "/".
	Path string
	// Port of the Service; 0 is 443.
	Port int32
}

// Call is one request.
type Call struct {
	// Purpose is a label of the metrics and of the span, as "admission" or "conversion".
	Purpose string
	Target  Target
	Body    []byte
	// Timeout of the whole call, which the webhook is told as ?timeout=10s; 0 is DefaultTimeout.
	Timeout time.Duration
	// MaxAnswer bounds the answer, in bytes; 0 is the constant.
	MaxAnswer int64
}

// Config is what a Caller needs.
type Config struct {
	// Dialer reaches Services.
	Dialer Dialer
	// Registerer takes the metrics; nil registers them nowhere.
	Registerer prometheus.Registerer
}

// Caller calls webhooks.
type Caller struct {
	transports transports
	durations  *prometheus.HistogramVec
}

// New returns a Caller; it starts nothing.
func New(cfg Config) *Caller {
	c := &Caller{
		transports: transports{dialer: cfg.Dialer, weaknesses: weakcert.New(cfg.Registerer, "apiserver_webhooks")},
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "howdah_webhook_call_seconds", Help: "Time of calls to webhooks, by purpose and HTTP code; 0 is no answer.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12),
		}, []string{"purpose", "code"}),
	}
	if cfg.Registerer != nil {
		c.durations = obs.Register(cfg.Registerer, c.durations) // an apiserver may have several callers, which count together
	}
	return c
}

// Close lets go of the connections that are kept.
func (c *Caller) Close() { c.transports.close() }

// left is how much time there is before the context's deadline, in whole seconds, rounded up: less than a webhook has where the request that it is called for
// has less.
func left(ctx context.Context) time.Duration {
	deadline, _ := ctx.Deadline()
	whole := time.Until(deadline).Truncate(time.Second)
	if time.Until(deadline) > whole {
		whole += time.Second
	}
	return max(whole, time.Second)
}

// Post sends a body of JSON and returns that of the answer, which has the code 200 or 201. Errors are those of net/http, as in
// `Post "https://…": context deadline exceeded`, or say what the webhook answered.
func (c *Caller) Post(ctx context.Context, call Call) (answer []byte, err error) {
	if call.Timeout <= 0 {
		call.Timeout = DefaultTimeout
	}
	if call.MaxAnswer <= 0 {
		call.MaxAnswer = MaxAnswer
	}
	ctx, cancel := context.WithTimeout(ctx, call.Timeout)
	defer cancel()
	ctx, span := tracer.Start(ctx, "webhook."+call.Purpose, trace.WithSpanKind(trace.SpanKindClient))
	start, code := time.Now(), 0
	defer func() {
		c.durations.WithLabelValues(call.Purpose, strconv.Itoa(code)).Observe(time.Since(start).Seconds())
		obs.End(span, err)
	}()
	to, err := call.Target.url()
	if err != nil {
		return nil, err
	}
	to.RawQuery = url.Values{"timeout": {left(ctx).String()}}.Encode()
	span.SetAttributes(attribute.String("url.full", to.String()))
	client, err := c.transports.client(&call.Target)
	if err != nil {
		return nil, &ConfigError{err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(call.Body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, */*")
	request.Header.Set("User-Agent", "kube-apiserver-admission")
	if c := call.Target.Client; c != nil {
		c.authenticate(request)
	}
	// Webhooks may be called again: a request that fell over a connection that had gone stale is sent once more. The header, whose
	// value is empty, tells net/http so and is not sent.
	request.Header["Idempotency-Key"] = []string{}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(request.Header))
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	code = response.StatusCode
	answer, err = io.ReadAll(io.LimitReader(response.Body, call.MaxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w", err)
	}
	if int64(len(answer)) > call.MaxAnswer {
		return nil, fmt.Errorf("the answer of the webhook is larger than %d bytes", call.MaxAnswer)
	}
	if code != http.StatusOK && code != http.StatusCreated {
		return nil, refused(code, response.Header.Get("Content-Type"), answer)
	}
	if len(answer) == 0 { // in the words of Kubernetes' client, which takes what is not said for what it asked for
		return nil, fmt.Errorf("0-length response with status code: %d and content type: %s", code, cmp.Or(response.Header.Get("Content-Type"), "application/json"))
	}
	return answer, nil
}

func (c *Client) authenticate(request *http.Request) {
	switch {
	case c.Token != "":
		request.Header.Set("Authorization", "Bearer "+c.Token)
	case c.Username != "" || c.Password != "":
		request.SetBasicAuth(c.Username, c.Password)
	}
}

// ConfigError is why a webhook cannot even be tried, as a CA bundle that is none.
type ConfigError struct{ cause error }

// Error is the cause's.
func (e *ConfigError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.cause }

// refused is the error of an answer that is no success, in the words of Kubernetes' clients: a Status speaks for itself, and
// text is quoted.
func refused(code int, contentType string, body []byte) error {
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" && status.Status != metav1.StatusSuccess {
		return &apierrors.StatusError{ErrStatus: status}
	}
	said := "unknown"
	if media, _, err := mime.ParseMediaType(contentType); contentType == "" || err == nil && strings.HasPrefix(media, "text/") {
		said = strings.TrimSpace(string(body[:min(len(body), maxQuoted)]))
	}
	return apierrors.NewGenericServerResponse(code, "post", schema.GroupResource{}, "", said, 0, true)
}

// maxQuoted bounds what an error quotes of an answer, in bytes.
const maxQuoted = 2048

// url returns where the target is called.
func (t *Target) url() (*url.URL, error) {
	switch {
	case t.Service != nil:
		port := t.Service.Port
		if port == 0 {
			port = 443
		}
		to := &url.URL{Scheme: "https", Host: t.Service.host() + ":" + strconv.Itoa(int(port)), Path: t.Service.Path}
		if to.Path == "" {
			to.Path = "/"
		}
		return to, nil
	case t.URL != "":
		to, err := url.Parse(t.URL)
		if err != nil {
			return nil, err
		}
		if to.Scheme != "https" || to.Host == "" {
			return nil, fmt.Errorf("the URL %q of a webhook must be https://host/path", t.URL)
		}
		return to, nil
	}
	return nil, errors.New("webhook configuration must have either service or URL")
}

func (s *Service) host() string { return s.Name + "." + s.Namespace + ".svc" }
