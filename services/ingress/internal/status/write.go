package status

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
)

// Config is what a writer needs.
type Config struct {
	Ingresses *object.Informer[*networkingv1.Ingress]
	Objects   object.Resource[*networkingv1.Ingress]
	// Own reports whether an Ingress is ours, Addresses where ours are reached.
	Own       func(*networkingv1.Ingress) bool
	Addresses func() []networkingv1.IngressLoadBalancerIngress
	Metrics   *reconcile.Metrics
	Clock     clock.WithTicker
}

// Writer keeps the addresses in Ingresses' status.
type Writer struct {
	cfg     Config
	current atomic.Pointer[reconcile.Controller] // nil while another process leads
}

// NewWriter returns a writer that follows Ingresses; it writes in Run.
func NewWriter(cfg Config) *Writer {
	w := &Writer{cfg: cfg}
	cfg.Ingresses.AddHandler(func(_, i *networkingv1.Ingress) {
		if c := w.current.Load(); i != nil && c != nil {
			c.Enqueue(object.KeyOf(i), cfg.Ingresses.Trace(i))
		}
	})
	return w
}

// All looks at every Ingress again: what is ours, or where it is reached, may have changed.
func (w *Writer) All() {
	c := w.current.Load()
	if c == nil {
		return
	}
	for _, i := range w.cfg.Ingresses.List("") {
		c.Enqueue(object.KeyOf(i), trace.SpanContext{})
	}
}

// Run writes until ctx ends. It may run again afterwards.
func (w *Writer) Run(ctx context.Context) error {
	c := reconcile.New(reconcile.Config{
		Name: "ingress-status", Kind: "Ingress", Workers: 2, Reconcile: w.reconcile, Metrics: w.cfg.Metrics, Clock: w.cfg.Clock,
	})
	w.current.Store(c)
	defer w.current.Store(nil)
	w.All()
	return c.Run(ctx)
}

func (w *Writer) reconcile(ctx context.Context, key string) (time.Duration, error) {
	i, ok := w.cfg.Ingresses.GetKey(key)
	if !ok || i.DeletionTimestamp != nil {
		return 0, nil
	}
	addresses, change := plan(i, w.cfg.Own(i), w.cfg.Addresses())
	if !change {
		return 0, nil
	}
	i = i.DeepCopy()
	i.Status.LoadBalancer.Ingress = addresses
	_, err := w.cfg.Objects.UpdateStatus(ctx, i)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return 0, err
}
