package clients

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	acapps "k8s.io/client-go/applyconfigurations/apps/v1"
	accore "k8s.io/client-go/applyconfigurations/core/v1"
	acmeta "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/tools/record"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"
)

const libraryKind = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shelves.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {plural: shelves, kind: Shelf, shortNames: [SHORT]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {replicas: {type: integer}}}, status: {type: object, properties: {replicas: {type: integer}}}}}}
`

// library uses the packages of client-go that operators rest on, in a namespace of its own and in one encoding.
type library struct {
	*user
	config *rest.Config
	client kubernetes.Interface
	short  string // of the custom kind, whose group ends in its name
}

// TestClientLibrary uses what operators take from client-go beside informers: mapping of names, scales, typed applies, retries, pages, watches, recorders,
// evictions and elections.
func TestClientLibrary(t *testing.T) {
	t.Parallel()
	for encoding, contentType := range map[string]string{"json": runtime.ContentTypeJSON, "protobuf": runtime.ContentTypeProtobuf} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			l := &library{user: newUser(t), short: "shelf" + encoding}
			var err error
			if l.config, err = clientcmd.BuildConfigFromFlags("", l.c.Kubeconfig()); err != nil {
				t.Fatal(err)
			}
			l.config.QPS, l.config.Burst = 200, 400
			custom := rest.CopyConfig(l.config)
			l.config.ContentType, l.config.AcceptContentTypes = contentType, contentType+",application/json"
			l.client = kubernetes.NewForConfigOrDie(l.config)
			l.scales(custom)
			l.applies()
			l.retries()
			l.pages()
			l.watches()
			l.records()
			l.evicts()
			l.elects()
		})
	}
}

func (l *library) check(what string, err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("%s: %v", what, err)
	}
}

// scales finds a custom kind by its short name and scales it, while an informer of metadata follows.
func (l *library) scales(config *rest.Config) {
	ctx, group := l.t.Context(), l.short+".library.example.com"
	l.feed(strings.NewReplacer("GROUP", group, "SHORT", l.short).Replace(libraryKind), "apply", "-f", "-")
	l.t.Cleanup(func() { l.must("delete", "customresourcedefinition", "shelves."+group, "--wait=false") })
	known := memory.NewMemCacheClient(l.client.Discovery())
	deferred := restmapper.NewDeferredDiscoveryRESTMapper(known)
	mapper := restmapper.NewShortcutExpander(deferred, known, nil)
	var found schema.GroupVersionResource
	l.await("the short name", func() bool {
		deferred.Reset()
		var err error
		found, err = mapper.ResourceFor(schema.GroupVersionResource{Resource: l.short})
		return err == nil
	})
	if want := (schema.GroupVersionResource{Group: group, Version: "v1", Resource: "shelves"}); found != want {
		l.t.Fatalf("%s stands for %v", l.short, found)
	}
	informers := metadatainformer.NewFilteredSharedInformerFactory(metadata.NewForConfigOrDie(config), 0, l.namespace, nil)
	follower := informers.ForResource(found)
	informers.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), follower.Informer().HasSynced) {
		l.t.Fatal("the informer did not sync")
	}
	l.feed(`{"apiVersion":"`+group+`/v1","kind":"Shelf","metadata":{"name":"a"},"spec":{"replicas":2}}`, "create", "-f", "-")

	client, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(l.client.Discovery()))
	l.check("a client of scales", err)
	got, err := client.Scales(l.namespace).Get(ctx, found.GroupResource(), "a", metav1.GetOptions{})
	l.check("read the scale", err)
	if got.Spec.Replicas != 2 {
		l.t.Fatalf("the scale is %+v", got)
	}
	stale := got.DeepCopy()
	got.Spec.Replicas = 5
	got, err = client.Scales(l.namespace).Update(ctx, found.GroupResource(), got, metav1.UpdateOptions{})
	l.check("scale", err)
	if _, err := client.Scales(l.namespace).Update(ctx, found.GroupResource(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		l.t.Fatalf("scaled what was stale: %v", err)
	}
	l.await("the informer", func() bool {
		o, err := follower.Lister().ByNamespace(l.namespace).Get("a")
		if err != nil {
			return false
		}
		return o.(*metav1.PartialObjectMetadata).ResourceVersion == got.ResourceVersion
	})
}

// applies makes a Deployment by an apply configuration, and takes out what its manager owns.
func (l *library) applies() {
	pod := accore.PodTemplateSpec().WithLabels(map[string]string{"a": "b"}).WithSpec(accore.PodSpec().WithContainers(accore.Container().WithName("c").WithImage("i")))
	want := acapps.Deployment("d", l.namespace).WithSpec(acapps.DeploymentSpec().WithReplicas(0).WithSelector(acmeta.LabelSelector().WithMatchLabels(map[string]string{"a": "b"})).WithTemplate(pod))
	client := l.client.AppsV1().Deployments(l.namespace)
	made, err := client.Apply(l.t.Context(), want, metav1.ApplyOptions{FieldManager: "one"})
	l.check("apply", err)
	own, err := acapps.ExtractDeployment(made, "one")
	l.check("extract", err)
	if own.Spec == nil || own.Spec.Replicas == nil || *own.Spec.Replicas != 0 || own.Spec.Strategy != nil || len(own.Spec.Template.Spec.Containers) != 1 || own.Spec.Template.Spec.RestartPolicy != nil {
		l.t.Fatalf("the manager owns %+v", own.Spec)
	}
	other := acapps.Deployment("d", l.namespace).WithSpec(acapps.DeploymentSpec().WithReplicas(1))
	if _, err := client.Apply(l.t.Context(), other, metav1.ApplyOptions{FieldManager: "two"}); !apierrors.IsConflict(err) {
		l.t.Fatalf("two managers set one field: %v", err)
	}
}

// retries has eight count together, each after conflicts with the others.
func (l *library) retries() {
	const counters, each = 8, 5
	client := l.client.CoreV1().ConfigMaps(l.namespace)
	_, err := client.Create(l.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "count"}, Data: map[string]string{"n": ""}}, metav1.CreateOptions{})
	l.check("create", err)
	backoff := retry.DefaultRetry
	backoff.Steps = 1000
	failures := make(chan error, counters)
	for range counters {
		go func() {
			for range each {
				err := retry.RetryOnConflict(backoff, func() error {
					c, err := client.Get(l.t.Context(), "count", metav1.GetOptions{})
					if err != nil {
						return err
					}
					c.Data["n"] += "x"
					_, err = client.Update(l.t.Context(), c, metav1.UpdateOptions{})
					return err
				})
				if err != nil {
					failures <- err
					return
				}
			}
			failures <- nil
		}()
	}
	for range counters {
		l.check("count", <-failures)
	}
	c, err := client.Get(l.t.Context(), "count", metav1.GetOptions{})
	l.check("read", err)
	if len(c.Data["n"]) != counters*each {
		l.t.Fatalf("%d counted together to %d", counters, len(c.Data["n"]))
	}
}

// paged are the ConfigMaps that pages makes.
const paged = 25

// pages reads a list in pages, of which the last lose an object meanwhile: it was there when the list was begun.
func (l *library) pages() {
	client := l.client.CoreV1().ConfigMaps(l.namespace)
	for n := range paged {
		_, err := client.Create(l.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%02d", n)}}, metav1.CreateOptions{})
		l.check("create", err)
	}
	p := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) { return client.List(l.t.Context(), o) }))
	p.PageSize, p.PageBufferSize = 4, 0
	var names []string
	err := p.EachListItem(l.t.Context(), metav1.ListOptions{}, func(o runtime.Object) error {
		if name := o.(*corev1.ConfigMap).Name; strings.HasPrefix(name, "p") {
			names = append(names, name)
		}
		if len(names) == 2 {
			if err := client.Delete(l.t.Context(), "p24", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
	l.check("read in pages", err)
	if len(names) != paged || !slices.IsSorted(names) || names[paged-1] != "p24" {
		l.t.Fatalf("the pages have %v", names)
	}
}

// watches follows what pages did, from before it on.
func (l *library) watches() {
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	client := l.client.CoreV1().ConfigMaps(l.namespace)
	one := cache.NewListWatchFromClient(l.client.CoreV1().RESTClient(), "configmaps", l.namespace, fields.OneTermEqualSelector("metadata.name", "p02"))
	_, err := watchtools.UntilWithSync(ctx, one, &corev1.ConfigMap{}, nil, func(e watch.Event) (bool, error) { return e.Type == watch.Added, nil })
	l.check("wait for one", err)

	begun, err := client.Get(ctx, "count", metav1.GetOptions{})
	l.check("read", err)
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, begun.ResourceVersion, &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return client.Watch(ctx, o)
	}})
	l.check("watch", err)
	defer watcher.Stop()
	var got, want []string
	for n := range paged {
		want = append(want, fmt.Sprintf("ADDED p%02d", n))
	}
	want = append(want, "DELETED p24")
	for len(got) < len(want) {
		e, open := <-watcher.ResultChan()
		if !open {
			l.t.Fatalf("the watch ended after %v", got)
		}
		if c, ok := e.Object.(*corev1.ConfigMap); ok && e.Type != watch.Bookmark && strings.HasPrefix(c.Name, "p") {
			got = append(got, string(e.Type)+" "+c.Name)
		}
	}
	if !slices.Equal(got, want) {
		l.t.Fatalf("the watch told %v", got)
	}
}

// records tells the same several times by the recorders of both APIs, which makes one Event each.
func (l *library) records() {
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel()
	about, err := l.client.CoreV1().ConfigMaps(l.namespace).Get(ctx, "count", metav1.GetOptions{})
	l.check("read", err)
	old := record.NewBroadcaster(record.WithContext(ctx))
	defer old.Shutdown()
	old.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: l.client.CoreV1().Events("")})
	for range 5 {
		old.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "library"}).Event(about, "Normal", "Counted", "again")
	}
	young := events.NewBroadcaster(&events.EventSinkImpl{Interface: l.client.EventsV1()})
	defer young.Shutdown()
	l.check("record", young.StartRecordingToSinkWithContext(ctx))
	recorder := young.NewRecorder(scheme.Scheme, "example.com/library")
	for range 3 {
		recorder.Eventf(about, nil, "Warning", "Seen", "Looking", "at %s", about.Name)
	}
	l.await("the Events", func() bool {
		list, err := l.client.CoreV1().Events(l.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(about.UID)})
		l.check("list", err)
		counts := map[string]int32{}
		for _, e := range list.Items {
			counts[e.Reason] += e.Count
			if e.Series != nil {
				counts[e.Reason] += e.Series.Count
			}
		}
		return len(list.Items) == 2 && counts["Counted"] == 5 && counts["Seen"] >= 2
	})
}

// evicts asks for the end of a pod that a budget keeps, and again without the budget.
func (l *library) evicts() {
	ctx := l.t.Context()
	l.must("create", "poddisruptionbudget", "keep", "--selector=keep=me", "--min-available=1")
	l.must("run", "kept", "--image=i", "--labels=keep=me")
	l.await("the budget", func() bool {
		b, err := l.client.PolicyV1().PodDisruptionBudgets(l.namespace).Get(ctx, "keep", metav1.GetOptions{})
		l.check("read", err)
		return b.Status.ObservedGeneration > 0 && b.Status.CurrentHealthy == 1
	})
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "kept", Namespace: l.namespace}}
	if err := l.client.PolicyV1().Evictions(l.namespace).Evict(ctx, eviction); !apierrors.IsTooManyRequests(err) {
		l.t.Fatalf("evicted against the budget: %v", err)
	}
	l.must("delete", "poddisruptionbudget", "keep")
	l.await("the eviction", func() bool {
		err := l.client.PolicyV1().Evictions(l.namespace).Evict(ctx, eviction)
		return err == nil || apierrors.IsNotFound(err)
	})
}

// elects has two lead, one after the other. Who is stopped while it renews cannot give the lease back: the other waits until it is over.
func (l *library) elects() {
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	var ended sync.WaitGroup
	led := make(chan string, 2)
	for _, id := range []string{"one", "two"} {
		lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, l.namespace, "lead", resourcelock.ResourceLockConfig{Identity: id}, l.config, 10*time.Second)
		l.check("a lock", err)
		ctx, stop := context.WithCancel(ctx)
		ended.Go(func() {
			leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
				Lock: lock, ReleaseOnCancel: true, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 100 * time.Millisecond,
				Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { led <- id; stop() }, OnStoppedLeading: func() {}},
			})
		})
	}
	ended.Wait()
	if ctx.Err() != nil || len(led) != 2 {
		l.t.Fatalf("%d of two have led: %v", len(led), ctx.Err())
	}
	lease, err := l.client.CoordinationV1().Leases(l.namespace).Get(l.t.Context(), "lead", metav1.GetOptions{})
	l.check("read the lease", err)
	if *lease.Spec.LeaseTransitions != 1 {
		l.t.Fatalf("the lease is %+v", lease)
	}
}
