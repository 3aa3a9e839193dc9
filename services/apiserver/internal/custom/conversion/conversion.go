// Package conversion converts custom objects between versions by webhooks.
package conversion

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/obs"
	"howdah.dev/services/apiserver/internal/custom"
	"howdah.dev/services/apiserver/internal/webhook"
)

// Bounds on one call. A list is converted by as many as it takes.
const (
	timeout    = 30 * time.Second
	maxObjects = 500
	maxBytes   = 4 << 20
	maxAnswer  = 32 << 20
)

// invalidObject is what a call failed by, in metrics, whose answer has an object that cannot be taken.
const invalidObject = "conversion_webhook_invalid_converted_object_failure"

var tracer = otel.Tracer("howdah.dev/services/apiserver/conversion")

// Poster calls webhooks.
type Poster interface {
	Post(ctx context.Context, call webhook.Call) ([]byte, error)
}

// Webhooks makes the converters of definitions.
type Webhooks struct {
	poster    Poster
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	// kinds is the same by definition and versions.
	kinds *prometheus.HistogramVec
}

// New returns the maker of converters that call by the poster. A nil registerer registers no metrics.
func New(poster Poster, registerer prometheus.Registerer) *Webhooks {
	w := &Webhooks{
		poster: poster,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_conversion_webhook_request_total", Help: "Calls to conversion webhooks, by result and by what failed.",
		}, []string{"result", "failure_type"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_conversion_webhook_duration_seconds", Help: "Time of calls to conversion webhooks, by result and by what failed.",
			Buckets: []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 45, 60},
		}, []string{"result", "failure_type"}),
		kinds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_crd_conversion_webhook_duration_seconds", Help: "Time of calls to conversion webhooks, by definition and versions.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"crd_name", "from_version", "to_version", "succeeded"}),
	}
	if registerer != nil {
		registerer.MustRegister(w.requests, w.durations, w.kinds)
	}
	return w
}

// For returns the converter of a definition whose conversion strategy is Webhook.
func (w *Webhooks) For(d *apiextensionsv1.CustomResourceDefinition) custom.Converter {
	c := &converter{Webhooks: w, name: d.Name}
	hook := d.Spec.Conversion.Webhook
	if hook == nil || hook.ClientConfig == nil { // validation has kept it out
		return c
	}
	c.target = targetOf(hook.ClientConfig)
	for _, version := range hook.ConversionReviewVersions {
		if version == "v1" || version == "v1beta1" { // the first that is understood
			c.version = version
			break
		}
	}
	return c
}

func targetOf(in *apiextensionsv1.WebhookClientConfig) webhook.Target {
	t := webhook.Target{}
	if len(bytes.TrimSpace(in.CABundle)) > 0 {
		t.CABundle = bytes.Clone(in.CABundle)
	}
	if in.URL != nil {
		t.URL = *in.URL
	}
	if s := in.Service; s != nil {
		t.Service = &webhook.Service{Namespace: s.Namespace, Name: s.Name}
		if s.Path != nil {
			t.Service.Path = *s.Path
		}
		if s.Port != nil {
			t.Service.Port = *s.Port
		}
	}
	return t
}

// converter converts the objects of one definition.
type converter struct {
	*Webhooks
	name    string
	version string // of ConversionReview
	target  webhook.Target
}

// Convert implements custom.Converter.
func (c *converter) Convert(ctx context.Context, objects []*unstructured.Unstructured, to schema.GroupVersion) ([]*unstructured.Unstructured, error) {
	out := make([]*unstructured.Unstructured, 0, len(objects))
	if len(objects) == 1 && empty(objects[0]) {
		u := objects[0].DeepCopy()
		u.SetAPIVersion(to.String())
		return append(out, u), nil
	}
	for len(objects) > 0 {
		piece, bodies, err := cut(objects)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		converted, err := c.piece(ctx, piece, bodies, to)
		if err != nil {
			return nil, custom.Failed(err)
		}
		out, objects = append(out, converted...), objects[len(piece):]
	}
	return out, nil
}

// empty reports whether an object says of which kind and version it is, and nothing else: what is left of one whose fields all belong to somebody who
// drops them. No webhook is asked about it.
func empty(u *unstructured.Unstructured) bool {
	return len(u.Object) == 2 && u.Object["apiVersion"] != nil && u.Object["kind"] != nil
}

// cut takes as many objects from the front as one call may carry, and encodes them.
func cut(objects []*unstructured.Unstructured) (piece []*unstructured.Unstructured, bodies []json.RawMessage, err error) {
	size := 0
	for n, u := range objects {
		body, err := json.Marshal(u.Object)
		if err != nil {
			return nil, nil, err
		}
		if size += len(body); n > 0 && (n == maxObjects || size > maxBytes) {
			return objects[:n], bodies, nil
		}
		bodies = append(bodies, body)
	}
	return objects, bodies, nil
}

// piece converts what goes into one call.
func (c *converter) piece(ctx context.Context, in []*unstructured.Unstructured, bodies []json.RawMessage, to schema.GroupVersion) (out []*unstructured.Unstructured, err error) {
	ctx, span := tracer.Start(ctx, "convert", trace.WithAttributes(
		attribute.String("custom-resource-definition", c.name), attribute.String("desired-api-version", to.String()),
		attribute.Int("object-count", len(in))))
	start, failure := time.Now(), ""
	defer func() {
		result := "success"
		if err != nil {
			result = "failure"
		}
		took := time.Since(start).Seconds()
		c.requests.WithLabelValues(result, failure).Inc()
		c.durations.WithLabelValues(result, failure).Observe(took)
		c.kinds.WithLabelValues(c.name, in[0].GroupVersionKind().Version, to.Version, strconv.FormatBool(err == nil)).Observe(took)
		obs.End(span, err)
	}()
	kind := in[0].GroupVersionKind()
	request, err := c.request(bodies, to)
	if err != nil {
		failure = "conversion_webhook_call_failure"
		return nil, err
	}
	answer, err := c.poster.Post(ctx, webhook.Call{Purpose: "conversion", Target: c.target, Body: request.body, Timeout: timeout, MaxAnswer: maxAnswer})
	if err != nil {
		failure = "conversion_webhook_call_failure"
		return nil, fmt.Errorf("conversion webhook for %v failed: %w", kind, err)
	}
	converted, err := request.answered(answer)
	if err != nil {
		failure = "conversion_webhook_malformed_response_failure"
		return nil, fmt.Errorf("conversion webhook for %v failed: %w", kind, err)
	}
	if len(converted) != len(in) {
		failure = "conversion_webhook_partial_response_failure"
		return nil, fmt.Errorf("conversion webhook for %v returned %d objects, expected %d", kind, len(converted), len(in))
	}
	for n, raw := range converted {
		u, err := decode(raw)
		switch {
		case err == nil:
			err = accept(n, in[n], u, to)
		case len(in) == 1: // of what is converted alone Kubernetes says no more
			failure = invalidObject
			return nil, err
		default:
			err = fmt.Errorf("returned invalid converted object at index %d: %w", n, err)
		}
		if err != nil {
			failure = invalidObject
			return nil, fmt.Errorf("conversion webhook for %v %w", kind, err)
		}
		out = append(out, u)
	}
	return out, nil
}
