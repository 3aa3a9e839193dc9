// Package controller is what every controller is made from and made of: the
// environment that it is given, and the loops that it returns.
package controller

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/pod"
	"howdah.dev/services/controllers/internal/written"
)

// Unit is a controller, ready to run. Its caches fill from the start; queues
// and loops run only while the process leads.
type Unit struct {
	Queues []*reconcile.Controller
	// Loops run beside the queues until their context ends.
	Loops []func(ctx context.Context) error
	// Always run from the start, on a standby too: caches of the controller's own.
	Always []func(ctx context.Context) error
	// Ready, where set, waits for what the shared informers do not cover.
	Ready func(ctx context.Context) error
}

// Env is what a controller works with. Informers are made while controllers
// are built and start after the last one.
type Env struct {
	Client    *object.Client
	Informers *object.Informers
	Clock     clock.WithTicker
	Metrics   *reconcile.Metrics
	// Recorder returns the recorder of events whose source is the component.
	Recorder func(component string) record.EventRecorder

	handlers  []func()
	pods      *object.Informer[*corev1.Pod]
	sets      *object.Informer[*appsv1.ReplicaSet]
	revisions *object.Informer[*appsv1.ControllerRevision]
	jobs      *object.Informer[*batchv1.Job]
	written   map[schema.GroupKind]*written.Versions
}

// Handle calls change for every object that the informer has when the process
// begins to lead, and for every change from then on. A standby's queues stay
// empty: they would fill with the keys of what comes and goes.
func Handle[T object.Object](env *Env, informer *object.Informer[T], change func(old, new T)) {
	env.handlers = append(env.handlers, func() { informer.AddHandler(change) })
}

// Leading returns a loop that says when the process begins to lead, and when it has ceased to.
func Leading(say func(leads bool)) func(context.Context) error {
	return func(ctx context.Context) error {
		say(true)
		defer say(false)
		<-ctx.Done()
		return ctx.Err()
	}
}

// Lead begins to call the handlers. The informers have synced.
func (e *Env) Lead() {
	for _, add := range e.handlers {
		add()
	}
}

// Names of the indexes of Pods and Sets.
const (
	// ByController files an object under its controller's uid, or under
	// OrphansOf its namespace.
	ByController = "controller"
	// ByNode files a pod under the name of its node, "" while it has none.
	ByNode = "node"
	// ByLabel files a pod under each of its labels, see Selected.
	ByLabel = "label"
	// ByClaim files a pod that has no node yet under the keys of the claims that its volumes are.
	ByClaim = "claim"
)

// OrphansOf is the ByController value of a namespace's objects that have no controller.
func OrphansOf(namespace string) string { return "orphans/" + namespace }

// Written are the versions of a kind's objects that controllers of this process have written and that its cache may be yet to show: where two of them write the
// same objects, as a Deployment's sets and their statuses, each knows what the other's writes have made.
func (e *Env) Written(kind schema.GroupKind) *written.Versions {
	if e.written == nil {
		e.written = map[schema.GroupKind]*written.Versions{}
	}
	if e.written[kind] == nil {
		e.written[kind] = written.New(e.Clock)
	}
	return e.written[kind]
}

// Pods returns the informer of all pods, by namespace, controller, node and labels.
// Its objects come without managedFields, which no controller reads.
func (e *Env) Pods() *object.Informer[*corev1.Pod] {
	if e.pods == nil {
		e.pods = object.InformerFor(e.Informers, object.Pod, object.Option{
			Indexers: cache.Indexers{
				ByController: byController,
				ByNode: func(o any) ([]string, error) {
					return []string{o.(*corev1.Pod).Spec.NodeName}, nil
				},
				ByClaim: byClaim,
				ByLabel: byLabel,
			},
			Slim: func(p object.Object) { p.SetManagedFields(nil) },
		})
	}
	return e.pods
}

// Sets returns the informer of all ReplicaSets, by namespace and controller.
func (e *Env) Sets() *object.Informer[*appsv1.ReplicaSet] {
	if e.sets == nil {
		e.sets = object.InformerFor(e.Informers, object.ReplicaSet, object.Option{
			Indexers: cache.Indexers{ByController: byController},
		})
	}
	return e.sets
}

// Revisions returns the informer of all ControllerRevisions, by namespace and controller.
func (e *Env) Revisions() *object.Informer[*appsv1.ControllerRevision] {
	if e.revisions == nil {
		e.revisions = object.InformerFor(e.Informers, object.ControllerRevision, object.Option{
			Indexers: cache.Indexers{ByController: byController},
		})
	}
	return e.revisions
}

// Jobs returns the informer of all Jobs, by namespace and controller.
func (e *Env) Jobs() *object.Informer[*batchv1.Job] {
	if e.jobs == nil {
		e.jobs = object.InformerFor(e.Informers, object.Job, object.Option{
			Indexers: cache.Indexers{ByController: byController},
		})
	}
	return e.jobs
}

func byClaim(o any) ([]string, error) {
	p := o.(*corev1.Pod)
	if p.Spec.NodeName != "" || pod.Terminal(p) {
		return nil, nil
	}
	var keys []string
	for _, name := range pod.Claims(p) {
		keys = append(keys, object.Key(p.Namespace, name))
	}
	return keys, nil
}

func byController(o any) ([]string, error) {
	m := o.(metav1.Object)
	if ref := metav1.GetControllerOfNoCopy(m); ref != nil {
		return []string{string(ref.UID)}, nil
	}
	return []string{OrphansOf(m.GetNamespace())}, nil
}
