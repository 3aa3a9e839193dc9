package resourceclaim

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

var (
	claimKind = object.Kind[*resourcev1.ResourceClaim]{
		GVK: resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"), Resource: "resourceclaims", Namespaced: true,
		New: func() *resourcev1.ResourceClaim { return &resourcev1.ResourceClaim{} },
	}
	templateKind = object.Kind[*resourcev1.ResourceClaimTemplate]{
		GVK: resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate"), Resource: "resourceclaimtemplates", Namespaced: true,
		New: func() *resourcev1.ResourceClaimTemplate { return &resourcev1.ResourceClaimTemplate{} },
	}
)

const (
	// byTemplate and byClaim are indexes of pods, by the keys of the templates and of the claims that they name.
	byTemplate = "pods by resource claim template"
	byClaim    = "pods by resource claim"
)

type resourceClaims struct {
	client    *object.Client
	events    record.EventRecorder
	pods      *object.Informer[*corev1.Pod]
	claims    *object.Informer[*resourcev1.ResourceClaim]
	templates *object.Informer[*resourcev1.ResourceClaimTemplate]
	ofPod     *reconcile.Controller
	ofClaim   *reconcile.Controller
	metrics   *Metrics
}

// New returns the controller. metrics may be nil.
func New(env *controller.Env, metrics *Metrics) controller.Unit {
	c := &resourceClaims{
		metrics: metrics,
		client:  env.Client, events: env.Recorder("resource_claim"), pods: env.Pods(),
		claims: object.InformerFor(env.Informers, claimKind), templates: object.InformerFor(env.Informers, templateKind),
	}
	object.InformerFor(env.Informers, object.Pod, object.Option{Indexers: cache.Indexers{byTemplate: templatesOf, byClaim: claimsOf}})
	c.ofPod = reconcile.New(reconcile.Config{Name: "resourceclaimpod", Kind: "Pod", Workers: 4, Reconcile: c.pod, Metrics: env.Metrics, Clock: env.Clock})
	c.ofClaim = reconcile.New(reconcile.Config{Name: "resourceclaim", Kind: "ResourceClaim", Workers: 4, Reconcile: c.claim, Metrics: env.Metrics, Clock: env.Clock})
	controller.Handle(env, c.pods, c.podChanged)
	controller.Handle(env, c.claims, c.claimChanged)
	controller.Handle(env, c.templates, func(_, new *resourcev1.ResourceClaimTemplate) {
		if new == nil {
			return
		}
		for _, p := range c.pods.ByIndex(byTemplate, object.KeyOf(new)) {
			c.ofPod.Enqueue(object.KeyOf(p), c.templates.Trace(new))
		}
	})
	counts := controller.Leading(func(leads bool) {
		if leads {
			metrics.follow(c.claims)
		} else {
			metrics.follow(nil)
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.ofPod, c.ofClaim}, Loops: []func(context.Context) error{counts}}
}

func (c *resourceClaims) podChanged(old, new *corev1.Pod) {
	for _, p := range []*corev1.Pod{old, new} {
		if p == nil || !claims(p) || p == old && new != nil && new.UID == old.UID {
			continue
		}
		cause := c.pods.Trace(p)
		if p == new {
			c.ofPod.Enqueue(object.KeyOf(p), cause)
		}
		if p == old || done(p) {
			c.lookAtClaims(p, cause)
		}
	}
}

// claims reports whether a pod has claims of devices: those that it names, or the one that a scheduler made for its extended resources.
func claims(p *corev1.Pod) bool {
	return len(p.Spec.ResourceClaims) > 0 || p.Status.ExtendedResourceClaimStatus != nil
}

// lookAtClaims is for a pod that uses its claims no more.
func (c *resourceClaims) lookAtClaims(p *corev1.Pod, cause trace.SpanContext) {
	keys, _ := claimsOf(p)
	for _, key := range keys {
		c.ofClaim.Enqueue(key, cause)
	}
}

func (c *resourceClaims) claimChanged(old, new *resourcev1.ResourceClaim) {
	claim := new
	if claim == nil {
		claim = old
	}
	cause := c.claims.Trace(claim)
	if new != nil {
		c.ofClaim.Enqueue(object.KeyOf(new), cause)
	}
	// Its pod may wait for it to be noted, to be reserved, or to be made anew.
	if ref := metav1.GetControllerOfNoCopy(claim); ref != nil && ref.Kind == "Pod" {
		c.ofPod.Enqueue(object.Key(claim.Namespace, ref.Name), cause)
	}
	for _, p := range c.pods.ByIndex(byClaim, object.KeyOf(claim)) {
		c.ofPod.Enqueue(object.KeyOf(p), cause)
	}
}

func templatesOf(o any) ([]string, error) {
	p := o.(*corev1.Pod)
	var keys []string
	for i := range p.Spec.ResourceClaims {
		if name := p.Spec.ResourceClaims[i].ResourceClaimTemplateName; name != nil {
			keys = append(keys, object.Key(p.Namespace, *name))
		}
	}
	return slices.Compact(keys), nil
}

func claimsOf(o any) ([]string, error) {
	p := o.(*corev1.Pod)
	var keys []string
	for i := range p.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(p, &p.Spec.ResourceClaims[i]); err == nil && name != nil {
			keys = append(keys, object.Key(p.Namespace, *name))
		}
	}
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		keys = append(keys, object.Key(p.Namespace, s.ResourceClaimName))
	}
	return keys, nil
}
