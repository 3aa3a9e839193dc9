package storagemigration

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/discovery"
)

const (
	// page is how many objects are listed at a time.
	page = 500
	// again is when a resource that is not served is looked for again.
	again = 10 * time.Second
)

var kind = object.Kind[*storagemigrationv1beta1.StorageVersionMigration]{
	GVK: storagemigrationv1beta1.SchemeGroupVersion.WithKind("StorageVersionMigration"), Resource: "storageversionmigrations",
	New: func() *storagemigrationv1beta1.StorageVersionMigration {
		return &storagemigrationv1beta1.StorageVersionMigration{}
	},
}

type migrator struct {
	client     *object.Client
	migrations *object.Informer[*storagemigrationv1beta1.StorageVersionMigration]
	clock      clock.PassiveClock
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &migrator{client: env.Client, migrations: object.InformerFor(env.Informers, kind), clock: env.Clock}
	queue := reconcile.New(reconcile.Config{Name: "storagemigration", Kind: "StorageVersionMigration", Reconcile: c.reconcile, Metrics: env.Metrics})
	controller.Handle(env, c.migrations, func(_, new *storagemigrationv1beta1.StorageVersionMigration) {
		if new != nil && Next(new) != Nothing {
			queue.Enqueue(object.KeyOf(new), c.migrations.Trace(new))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{queue}}
}

func (c *migrator) reconcile(ctx context.Context, key string) (time.Duration, error) {
	m, ok := c.migrations.GetKey(key)
	if !ok || Next(m) == Nothing {
		return 0, nil
	}
	m = m.DeepCopy()
	resource, found, err := c.find(ctx, schema.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource})
	if err != nil {
		return 0, err
	}
	objects := object.For(c.client, resource.Metadata())
	if Next(m) == Begin && (found || !meta.IsStatusConditionTrue(m.Status.Conditions, string(storagemigrationv1beta1.MigrationRunning))) {
		revision := ""
		if found {
			_, list, err := objects.List(ctx, "", metav1.ListOptions{Limit: 1})
			if err != nil {
				return 0, err
			}
			revision = list.ResourceVersion
		}
		begun(m, revision)
		if m, err = object.For(c.client, kind).UpdateStatus(ctx, m); err != nil {
			return 0, settled(err)
		}
	}
	if left := waits(m, c.clock.Now()); !found && left > 0 {
		return min(left, again), nil
	}
	if found {
		if err := migrate(ctx, objects, m.Status.ResourceVersion); err != nil {
			return 0, err
		}
		succeeded(m)
	} else {
		failed(m, "resource does not exist in discovery")
	}
	_, err = object.For(c.client, kind).UpdateStatus(ctx, m)
	return 0, settled(err)
}

// find looks a resource up that can be migrated: listed and patched.
func (c *migrator) find(ctx context.Context, gr schema.GroupResource) (discovery.Resource, bool, error) {
	all, err := discovery.Resources(ctx, c.client)
	for _, r := range all {
		if r.GroupResource() == gr && !r.Remote && r.Can("list", "patch") {
			return r, true, nil
		}
	}
	return discovery.Resource{}, false, err
}

// migrate writes the objects anew that were last written up to a revision.
func migrate(ctx context.Context, objects object.Resource[*metav1.PartialObjectMetadata], limit string) error {
	options := metav1.ListOptions{Limit: page}
	for {
		items, list, err := objects.List(ctx, "", options)
		if err != nil {
			return err
		}
		for _, item := range items {
			if !old(item, limit) {
				continue
			}
			if err := rewrite(ctx, objects, item); err != nil {
				return err
			}
		}
		if list.Continue == "" {
			return nil
		}
		options.Continue = list.Continue
	}
}

// rewrite changes nothing of an object: the apiserver stores it anew where it would be stored otherwise now. Who has written it meanwhile
// has done so, too.
func rewrite(ctx context.Context, objects object.Resource[*metav1.PartialObjectMetadata], item *metav1.PartialObjectMetadata) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": item.UID, "resourceVersion": item.ResourceVersion}})
	if err != nil {
		return err
	}
	_, err = objects.Patch(ctx, item.Namespace, item.Name, types.MergePatchType, patch, "")
	if err = settled(err); err != nil {
		return fmt.Errorf("%s %s/%s: %w", item.Kind, item.Namespace, item.Name, err)
	}
	return nil
}

// settled leaves out that an object has gone, or was written by another.
func settled(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
