// Package controllertest runs a controller against an object API in memory.
package controllertest

import (
	"context"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
)

// patience bounds every wait of a test.
const patience = time.Minute

// Cluster is an API with a controller that leads.
type Cluster struct {
	*testing.T
	API    *objecttest.Server
	Client *object.Client
	Events *record.FakeRecorder
}

// Start runs the controller until the test ends. prepare, where not nil, sees
// the API before anyone uses it.
func Start(t *testing.T, c clock.WithTicker, prepare func(*Cluster), build func(*controller.Env) (controller.Unit, error)) *Cluster {
	t.Helper()
	cluster := &Cluster{T: t, API: objecttest.New(), Events: record.NewFakeRecorder(100_000)}
	cluster.API.Now = c.Now
	cluster.Client = cluster.API.Serve(t)
	if prepare != nil {
		prepare(cluster)
	}
	informers := object.NewInformers(cluster.Client)
	env := &controller.Env{
		Client: cluster.Client, Informers: informers, Clock: c,
		Recorder: func(string) record.EventRecorder { return cluster.Events },
	}
	unit, err := build(env)
	if err != nil {
		t.Fatal(err)
	}
	cluster.Go(informers.Run)
	for _, part := range unit.Always {
		cluster.Go(part)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !informers.Wait(ctx) {
		t.Fatal("the caches do not fill")
	}
	if unit.Ready != nil {
		if err := unit.Ready(ctx); err != nil {
			t.Fatal(err)
		}
	}
	env.Lead()
	for _, loop := range unit.Loops {
		cluster.Go(loop)
	}
	for _, q := range unit.Queues {
		cluster.Go(q.Run)
	}
	return cluster
}

// Go runs f until the test ends.
func (c *Cluster) Go(f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = f(ctx) }()
	c.Cleanup(func() { cancel(); <-done })
}

// Create stores an object, or ends the test.
func Create[T object.Object](c *Cluster, kind object.Kind[T], obj T) T {
	c.Helper()
	made, err := object.For(c.Client, kind).Create(context.Background(), obj)
	if err != nil {
		c.Fatalf("create %s %s: %v", kind.GVK.Kind, obj.GetName(), err)
	}
	return made
}

// UpdateStatus stores an object's status, or ends the test.
func UpdateStatus[T object.Object](c *Cluster, kind object.Kind[T], obj T) T {
	c.Helper()
	stored, err := object.For(c.Client, kind).UpdateStatus(context.Background(), obj)
	if err != nil {
		c.Fatalf("update status of %s %s: %v", kind.GVK.Kind, obj.GetName(), err)
	}
	return stored
}

// Delete deletes an object, or ends the test.
func Delete[T object.Object](c *Cluster, kind object.Kind[T], namespace, name string, options metav1.DeleteOptions) {
	c.Helper()
	if err := object.For(c.Client, kind).Delete(context.Background(), namespace, name, options); err != nil {
		c.Fatalf("delete %s %s: %v", kind.GVK.Kind, name, err)
	}
}

// List returns all objects of a kind.
func List[T object.Object](c *Cluster, kind object.Kind[T]) []T {
	c.Helper()
	list, _, err := object.For(c.Client, kind).List(context.Background(), "", metav1.ListOptions{})
	if err != nil {
		c.Fatalf("list %s: %v", kind.Resource, err)
	}
	return list
}

// Await returns the objects of a kind when they satisfy ok; it looks again at
// every change of one of them.
func Await[T object.Object](c *Cluster, kind object.Kind[T], what string, ok func([]T) bool) []T {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resource := object.For(c.Client, kind)
	for {
		list, m, err := resource.List(ctx, "", metav1.ListOptions{})
		if err != nil {
			c.Fatalf("wait for %s: %v", what, err)
		}
		if ok(list) {
			return list
		}
		w, err := resource.Watch(ctx, "", metav1.ListOptions{ResourceVersion: m.ResourceVersion})
		if err != nil {
			c.Fatalf("wait for %s: %v", what, err)
		}
		select {
		case <-w.ResultChan():
			w.Stop()
		case <-ctx.Done():
			for _, o := range list {
				c.Logf("%s %s: %+v", kind.GVK.Kind, object.KeyOf(o), o)
			}
			c.Fatalf("no %s in time", what)
		}
	}
}

// Gone awaits that no object of a kind is left.
func Gone[T object.Object](c *Cluster, kind object.Kind[T]) {
	c.Helper()
	Await(c, kind, "end of all "+kind.Resource, func(l []T) bool { return len(l) == 0 })
}

// Soon awaits what no object tells of, such as what is counted once a write has returned.
func Soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

// Lead runs a controller on an API that has others, or had them, until the function that it returns is called.
func Lead(t *testing.T, client *object.Client, c clock.WithTicker, build func(*controller.Env) (controller.Unit, error)) (end func()) {
	t.Helper()
	informers := object.NewInformers(client)
	env := &controller.Env{
		Client: client, Informers: informers, Clock: c, Recorder: func(string) record.EventRecorder { return &record.FakeRecorder{} },
	}
	unit, err := build(env)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	run := func(part func(context.Context) error) { parts.Go(func() { _ = part(ctx) }) }
	run(informers.Run)
	for _, part := range unit.Always {
		run(part)
	}
	wait, stop := context.WithTimeout(ctx, patience)
	defer stop()
	if !informers.Wait(wait) {
		t.Fatal("the caches do not fill")
	}
	env.Lead()
	for _, loop := range unit.Loops {
		run(loop)
	}
	for _, q := range unit.Queues {
		run(q.Run)
	}
	end = sync.OnceFunc(func() { cancel(); parts.Wait() })
	t.Cleanup(end)
	return end
}

// Freeze fills caches and then leaves them behind: what is written from now on they never show.
func Freeze(t *testing.T, informers *object.Informers) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = informers.Run(ctx) }()
	filled := informers.Wait(ctx)
	stop()
	<-ended
	if !filled {
		t.Fatal("the caches do not fill")
	}
}

// TellsNothing reconciles a key that has something to write, in a process that ends before it is written: the write fails, which is no news
// about any object. build makes the reconcile function.
func TellsNothing(c *Cluster, key string, build func(*controller.Env) func(ctx context.Context, key string) (time.Duration, error)) {
	c.Helper()
	informers, events := object.NewInformers(c.Client), record.NewFakeRecorder(10)
	reconcile := build(&controller.Env{
		Client: c.Client, Informers: informers, Clock: clock.RealClock{}, Recorder: func(string) record.EventRecorder { return events },
	})
	Freeze(c.T, informers)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := reconcile(ctx, key); err == nil {
		c.Fatal("a write succeeds though its context has ended")
	}
	select {
	case e := <-events.Events:
		c.Errorf("told of: %s", e)
	default:
	}
}
