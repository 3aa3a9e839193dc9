package storageversion

import (
	"context"
	"fmt"
	"time"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// identities selects the Leases by which API servers show themselves.
const identities = "apiserver.kubernetes.io/identity=kube-apiserver"

var kind = object.Kind[*storageVersion]{
	GVK: apiserverinternalv1alpha1.SchemeGroupVersion.WithKind("StorageVersion"), Resource: "storageversions",
	New: func() *storageVersion { return &storageVersion{} },
}

type collector struct {
	client   *object.Client
	versions *object.Informer[*storageVersion]
	leases   *object.Informer[*coordinationv1.Lease]
	clock    clock.PassiveClock
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &collector{
		client: env.Client, versions: object.InformerFor(env.Informers, kind), clock: env.Clock,
		leases: object.InformerFor(env.Informers, object.Lease, object.Option{LabelSelector: identities}),
	}
	queue := reconcile.New(reconcile.Config{Name: "storageversion", Kind: "StorageVersion", Reconcile: c.reconcile, Metrics: env.Metrics, Clock: env.Clock})
	controller.Handle(env, c.versions, func(_, new *storageVersion) {
		if new != nil {
			queue.Enqueue(new.Name, c.versions.Trace(new))
		}
	})
	controller.Handle(env, c.leases, func(old, new *coordinationv1.Lease) {
		if new != nil {
			return
		}
		for _, sv := range c.versions.List("") {
			for i := range sv.Status.StorageVersions {
				if sv.Status.StorageVersions[i].APIServerID == old.Name {
					queue.Enqueue(sv.Name, c.leases.Trace(old))
					break
				}
			}
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{queue}}
}

// reconcile asks the API for a server that the cache does not have: its Lease may be younger than what it wrote.
func (c *collector) reconcile(ctx context.Context, name string) (time.Duration, error) {
	sv, ok := c.versions.Get("", name)
	if !ok || sv.DeletionTimestamp != nil {
		return 0, nil
	}
	var failed error
	want, empty := Without(sv, func(server string) bool {
		if _, ok := c.leases.Get(metav1.NamespaceSystem, server); ok {
			return true
		}
		lease, err := object.For(c.client, object.Lease).Get(ctx, metav1.NamespaceSystem, server)
		if err != nil && !apierrors.IsNotFound(err) {
			failed = fmt.Errorf("read Lease %s: %w", server, err)
		}
		return err == nil && lease.Labels["apiserver.kubernetes.io/identity"] == "kube-apiserver"
	}, metav1.NewTime(c.clock.Now()))
	var err error
	switch versions := object.For(c.client, kind); {
	case failed != nil:
		return 0, failed
	case empty:
		err = versions.Delete(ctx, "", name, metav1.DeleteOptions{Preconditions: object.AsSeen(sv)})
	case want != nil:
		_, err = versions.UpdateStatus(ctx, want)
	}
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return 0, err
}
