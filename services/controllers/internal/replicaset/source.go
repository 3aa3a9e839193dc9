package replicaset

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
)

// Source is where the sets are read from and their status is written to. A kind that keeps replicas as ReplicaSets do is
// shown in their form; its own kind is in their TypeMeta, for events.
type Source interface {
	// Handle makes every change call change, with nil for what is not there.
	Handle(env *controller.Env, change func(old, new *appsv1.ReplicaSet))
	// GetKey, List and ControlledBy read the cache: by namespace and name, by namespace, and by the controller's uid.
	GetKey(key string) (*appsv1.ReplicaSet, bool)
	List(namespace string) []*appsv1.ReplicaSet
	ControlledBy(uid types.UID) []*appsv1.ReplicaSet
	// Trace is that of the write which made the object what it is.
	Trace(rs *appsv1.ReplicaSet) trace.SpanContext
	// Live reads past the cache.
	Live(ctx context.Context, namespace, name string) (*appsv1.ReplicaSet, error)
	// WriteStatus returns what is stored then, nil where nothing was to be written.
	WriteStatus(ctx context.Context, rs *appsv1.ReplicaSet) (metav1.Object, error)
}

// replicaSetSource is the source of ReplicaSets themselves.
type replicaSetSource struct {
	*object.Informer[*appsv1.ReplicaSet]
	client *object.Client
}

func (s replicaSetSource) Handle(env *controller.Env, change func(old, new *appsv1.ReplicaSet)) {
	controller.Handle(env, s.Informer, change)
}

func (s replicaSetSource) ControlledBy(uid types.UID) []*appsv1.ReplicaSet {
	return s.ByIndex(controller.ByController, string(uid))
}

func (s replicaSetSource) Live(ctx context.Context, namespace, name string) (*appsv1.ReplicaSet, error) {
	return object.For(s.client, object.ReplicaSet).Get(ctx, namespace, name)
}

func (s replicaSetSource) WriteStatus(ctx context.Context, rs *appsv1.ReplicaSet) (metav1.Object, error) {
	return object.For(s.client, object.ReplicaSet).UpdateStatus(ctx, rs)
}
