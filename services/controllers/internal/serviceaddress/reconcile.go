package serviceaddress

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/servicecidr"
)

type addresses struct {
	client   *object.Client
	services *object.Informer[*corev1.Service]
	objects  *object.Informer[*networkingv1.IPAddress]
	cidrs    *object.Informer[*networkingv1.ServiceCIDR]
	events   record.EventRecorder
	clock    clock.PassiveClock
	ofSvc    *reconcile.Controller
	ofAddr   *reconcile.Controller
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &addresses{
		client: env.Client, services: object.InformerFor(env.Informers, object.Service),
		objects: object.InformerFor(env.Informers, servicecidr.AddressKind), cidrs: object.InformerFor(env.Informers, servicecidr.Kind),
		events: env.Recorder("ipallocator-repair-controller"), clock: env.Clock,
	}
	c.ofSvc = reconcile.New(reconcile.Config{Name: "serviceaddress", Kind: "Service", Reconcile: c.service, Metrics: env.Metrics})
	c.ofAddr = reconcile.New(reconcile.Config{Name: "ipaddress", Kind: "IPAddress", Reconcile: c.address, Metrics: env.Metrics})
	controller.Handle(env, c.services, func(old, new *corev1.Service) {
		if new != nil {
			c.ofSvc.Enqueue(object.KeyOf(new), c.services.Trace(new))
		}
		if old != nil { // what it had may be nobody's now
			for _, text := range old.Spec.ClusterIPs {
				if ip, ok := parse(text); ok {
					c.ofAddr.Enqueue(ip.String(), c.services.Trace(old))
				}
			}
		}
	})
	controller.Handle(env, c.objects, func(old, new *networkingv1.IPAddress) {
		if new != nil {
			c.ofAddr.Enqueue(object.KeyOf(new), c.objects.Trace(new))
		}
		if old != nil && ofService(old.Spec.ParentRef) {
			if s, ok := c.services.Get(old.Spec.ParentRef.Namespace, old.Spec.ParentRef.Name); ok {
				c.ofSvc.Enqueue(object.KeyOf(s), c.objects.Trace(old))
			}
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.ofSvc, c.ofAddr}}
}

// view reads as of now: a Service and its addresses come in one transaction, but reach the caches one after the other.
func (c *addresses) view(ctx context.Context) (v View, failed *error) {
	failed = new(error)
	get := func(err error) bool {
		if err != nil && !apierrors.IsNotFound(err) {
			*failed = err
		}
		return err == nil
	}
	return View{
		Address: func(name string) *networkingv1.IPAddress {
			a, err := object.For(c.client, servicecidr.AddressKind).Get(ctx, "", name)
			if !get(err) {
				return nil
			}
			return a
		},
		Service: func(namespace, name string) *corev1.Service {
			s, err := object.For(c.client, object.Service).Get(ctx, namespace, name)
			if !get(err) {
				return nil
			}
			return s
		},
		CIDRs: c.cidrs.List(""),
	}, failed
}

// known is what the caches have, in which most is as it should be.
func (c *addresses) known() View {
	return View{
		Address: func(name string) *networkingv1.IPAddress {
			a, _ := c.objects.Get("", name)
			return a
		},
		Service: func(namespace, name string) *corev1.Service {
			s, _ := c.services.Get(namespace, name)
			return s
		},
		CIDRs: c.cidrs.List(""),
	}
}

func (c *addresses) service(ctx context.Context, key string) (time.Duration, error) {
	s, ok := c.services.GetKey(key)
	if !ok || len(c.known().ForService(s)) == 0 {
		return 0, nil
	}
	now, failed := c.view(ctx)
	if s = now.Service(s.Namespace, s.Name); s == nil {
		return 0, *failed
	}
	repairs := now.ForService(s)
	stands := len(repairs) == 0 || now.Stands(s)
	if *failed != nil || !stands {
		return 0, *failed // what has changed meanwhile has an event of its own
	}
	resource := object.For(c.client, servicecidr.AddressKind)
	for _, r := range repairs {
		c.events.Event(s, corev1.EventTypeWarning, r.Reason, r.Message)
		if r.Replace != nil {
			err := resource.Delete(ctx, "", r.Replace.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &r.Replace.UID}})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return 0, err
			}
		}
		if r.Create != nil {
			if _, err := resource.Create(ctx, r.Create); err != nil && !apierrors.IsAlreadyExists(err) {
				return 0, err
			}
		}
	}
	return 0, nil
}

func (c *addresses) address(ctx context.Context, key string) (time.Duration, error) {
	a, ok := c.objects.GetKey(key)
	if !ok {
		return 0, nil
	}
	reason, _, after := c.known().Unused(a, c.clock.Now())
	if reason == "" || after > 0 {
		return after, nil
	}
	now, failed := c.view(ctx)
	if a = now.Address(a.Name); a == nil {
		return 0, *failed
	}
	reason, message, after := now.Unused(a, c.clock.Now())
	if *failed != nil || reason == "" || after > 0 {
		return after, *failed
	}
	c.events.Event(a, corev1.EventTypeWarning, reason, message)
	err := object.For(c.client, servicecidr.AddressKind).Delete(ctx, "", a.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.UID}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = nil // the next event tells
	}
	return 0, err
}
