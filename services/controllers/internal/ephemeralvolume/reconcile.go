package ephemeralvolume

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/storage/ephemeral"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// Metrics are Kubernetes' own of the claims that are made.
type Metrics struct{ attempts, failures prometheus.Counter }

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		attempts: prometheus.NewCounter(prometheus.CounterOpts{Name: "ephemeral_volume_controller_create_total", Help: "Claims of ephemeral volumes that were to be made."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "ephemeral_volume_controller_create_failures_total", Help: "Claims of ephemeral volumes that could not be made."}),
	}
	registerer.MustRegister(m.attempts, m.failures)
	return m
}

type ephemeralVolumes struct {
	client  *object.Client
	events  record.EventRecorder
	pods    *object.Informer[*corev1.Pod]
	claims  *object.Informer[*corev1.PersistentVolumeClaim]
	queue   *reconcile.Controller
	metrics *Metrics
}

// New returns the controller. metrics may be nil.
func New(env *controller.Env, metrics *Metrics) controller.Unit {
	c := &ephemeralVolumes{
		client: env.Client, events: env.Recorder("ephemeral_volume"), pods: env.Pods(), claims: object.InformerFor(env.Informers, object.PersistentVolumeClaim), metrics: metrics,
	}
	c.queue = reconcile.New(reconcile.Config{Name: "ephemeralvolume", Kind: "Pod", Workers: 4, Reconcile: c.reconcile, Metrics: env.Metrics, Clock: env.Clock})
	controller.Handle(env, c.pods, func(old, new *corev1.Pod) {
		if new != nil && (old == nil || old.UID != new.UID) {
			c.look(new, c.pods.Trace(new))
		}
	})
	controller.Handle(env, c.claims, func(old, new *corev1.PersistentVolumeClaim) {
		if new != nil || old == nil {
			return
		}
		// It may have been taken from a pod, or have stood in the way of one.
		for _, p := range c.pods.ByIndex(controller.ByClaim, object.KeyOf(old)) {
			c.look(p, c.claims.Trace(old))
		}
		if ref := metav1.GetControllerOfNoCopy(old); ref != nil && ref.Kind == "Pod" {
			if p, ok := c.pods.Get(old.Namespace, ref.Name); ok {
				c.look(p, c.claims.Trace(old))
			}
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

func (c *ephemeralVolumes) look(p *corev1.Pod, cause trace.SpanContext) {
	for i := range p.Spec.Volumes {
		if p.Spec.Volumes[i].Ephemeral != nil && p.DeletionTimestamp == nil {
			c.queue.Enqueue(object.KeyOf(p), cause)
			return
		}
	}
}

// reconcile makes the claims that a pod has not got yet. Their names follow from it, so none is made twice.
func (c *ephemeralVolumes) reconcile(ctx context.Context, key string) (time.Duration, error) {
	p, ok := c.pods.GetKey(key)
	if !ok {
		return 0, nil
	}
	claims, blocked := Missing(p, func(name string) *corev1.PersistentVolumeClaim {
		claim, _ := c.claims.Get(p.Namespace, name)
		return claim
	})
	for _, claim := range claims {
		if err := c.create(ctx, p, claim); err != nil && blocked == nil {
			blocked = fmt.Errorf("ephemeral volume %s: %w", strings.TrimPrefix(claim.Name, p.Name+"-"), err)
		}
	}
	if blocked != nil {
		c.events.Event(p, corev1.EventTypeWarning, "FailedBinding", blocked.Error())
	}
	return 0, blocked
}

// create makes a claim of a pod. Where the name is taken, the cache was behind, or the claim is somebody else's.
func (c *ephemeralVolumes) create(ctx context.Context, p *corev1.Pod, claim *corev1.PersistentVolumeClaim) error {
	claims := object.For(c.client, object.PersistentVolumeClaim)
	_, err := claims.Create(ctx, claim)
	if m := c.metrics; m != nil {
		m.attempts.Inc()
		if err != nil {
			m.failures.Inc()
		}
	}
	if apierrors.IsAlreadyExists(err) {
		if made, err := claims.Get(ctx, claim.Namespace, claim.Name); err == nil {
			return ephemeral.VolumeIsForPod(p, made)
		}
	}
	if err != nil {
		return fmt.Errorf("create PVC %s: %w", claim.Name, err)
	}
	return nil
}
