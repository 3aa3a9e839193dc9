package garbage

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/discovery"
)

// discoverEvery is how often new kinds are looked for.
const discoverEvery = 30 * time.Second

// ignored resources are neither owners nor worth collecting: events are many
// and end by themselves.
var ignored = map[schema.GroupResource]bool{
	{Resource: "events"}:                         true,
	{Group: "events.k8s.io", Resource: "events"}: true,
}

// follow keeps an informer of metadata for every kind that the API serves,
// until ctx ends.
func (c *collector) follow(ctx context.Context) error {
	kinds := followed{collector: c, running: map[schema.GroupResource]informing{}}
	defer kinds.Wait()
	first := true
	ticker := c.clock.NewTicker(discoverEvery)
	defer ticker.Stop()
	for {
		resources, err := discovery.Resources(ctx, c.client)
		if err != nil {
			c.metrics.missed(ctx)
			slog.WarnContext(ctx, "some kinds are not discovered: what they own is not collected", "err", err)
		}
		kinds.are(ctx, resources, err == nil)
		c.setResources(resources)
		// Owners of kinds that are not discovered keep their dependents, so it is
		// safe to begin with what there is.
		if first && len(resources) > 0 {
			first = false
			close(c.discovered)
		}
		wait := ticker.C()
		if first {
			wait = c.clock.After(time.Second)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wait:
		}
	}
}

// followed are the kinds that are followed.
type followed struct {
	*collector
	sync.WaitGroup
	running map[schema.GroupResource]informing
}

// informing is an informer of a kind in one of its versions.
type informing struct {
	of   schema.GroupVersionKind
	stop context.CancelFunc
}

// are has the resources followed, and others no longer where these are all that there are. One that is served in another version is followed in that: of a
// version that is not served any more nothing is heard.
func (f *followed) are(ctx context.Context, resources []discovery.Resource, all bool) {
	served := map[schema.GroupResource]bool{}
	for _, res := range resources {
		gr := res.GroupResource()
		if !res.Can("list", "watch", "delete") || ignored[gr] {
			continue
		}
		served[gr] = true
		was, known := f.running[gr]
		if known && was.of == res.GVK {
			continue
		}
		informers, inf := f.informer(res)
		ctx, stop := context.WithCancel(ctx)
		f.running[gr] = informing{res.GVK, stop}
		f.Go(func() { _ = informers.Run(ctx) })
		if known {
			was.stop()
			f.Go(func() { f.miss(ctx, res, informers, inf) })
		} else if !res.Remote { // one server that hangs must not keep the whole cluster's garbage
			f.addSynced(informers.Wait)
		}
	}
	for gr, is := range f.running {
		if !served[gr] && all {
			is.stop()
			delete(f.running, gr)
		}
	}
}

// miss notes the ends of objects that went while nobody followed their kind, between two of its versions.
func (c *collector) miss(ctx context.Context, res discovery.Resource, informers *object.Informers, inf *object.Informer[*metav1.PartialObjectMetadata]) {
	if !informers.Wait(ctx) {
		return
	}
	for _, n := range c.graph.ofKind(res) {
		if is, ok := inf.Get(n.meta.Namespace, n.meta.Name); !ok || is.UID != n.meta.UID {
			c.changed(res, n.meta, nil, func(*metav1.PartialObjectMetadata) trace.SpanContext { return trace.SpanContext{} })
		}
	}
}

// informer returns the set with the resource's informer, which feeds the graph.
func (c *collector) informer(res discovery.Resource) (*object.Informers, *object.Informer[*metav1.PartialObjectMetadata]) {
	informers := object.NewInformers(c.client)
	inf := object.InformerFor(informers, res.Metadata(), object.Option{Slim: slim})
	inf.AddHandler(func(old, new *metav1.PartialObjectMetadata) {
		c.changed(res, old, new, func(m *metav1.PartialObjectMetadata) trace.SpanContext { return inf.Trace(m) })
	})
	return informers, inf
}

// slim drops what ownership does not need.
func slim(m object.Object) {
	m.SetManagedFields(nil)
	m.SetLabels(nil)
	m.SetAnnotations(nil)
}

// changed puts a change into the graph and asks for what follows from it.
func (c *collector) changed(res discovery.Resource, old, new *metav1.PartialObjectMetadata, by func(*metav1.PartialObjectMetadata) trace.SpanContext) {
	if new == nil {
		if !c.graph.remove(res, old.UID) {
			return
		}
		c.ask(absentKey(old.UID), by(old))
		for _, ref := range old.OwnerReferences {
			c.ownerChanged(ref, by(old))
		}
		return
	}
	if old != nil && old.UID != new.UID {
		c.changed(res, old, nil, by)
		old = nil
	}
	if !c.graph.put(res, new) {
		return
	}
	n := c.graph.get(new.UID)
	if old == nil || len(old.OwnerReferences) != len(new.OwnerReferences) || !sameRefs(old, new) {
		for _, ref := range new.OwnerReferences {
			if owner := c.graph.get(ref.UID); owner == nil || !owner.is(ref, new.Namespace) || owner.foreground() {
				c.ask(itemKey(new.UID), by(new))
				break
			}
		}
		if old != nil { // owners that were let go may have waited for this one
			for _, ref := range old.OwnerReferences {
				c.ownerChanged(ref, by(new))
			}
		}
	}
	if (n.foreground() || n.orphaning()) && (old == nil || old.DeletionTimestamp == nil || len(old.Finalizers) != len(new.Finalizers)) {
		c.ask(itemKey(new.UID), by(new))
	}
}

// ownerChanged wakes an owner that waits for its dependents.
func (c *collector) ownerChanged(ref metav1.OwnerReference, by trace.SpanContext) {
	if owner := c.graph.get(ref.UID); owner != nil && (owner.foreground() || owner.orphaning()) {
		c.ask(itemKey(ref.UID), by)
	}
}

func sameRefs(a, b *metav1.PartialObjectMetadata) bool {
	return fmt.Sprint(refKeys(a.OwnerReferences)) == fmt.Sprint(refKeys(b.OwnerReferences))
}

// refKeys are the parts of references that matter here.
func refKeys(refs []metav1.OwnerReference) []string {
	keys := make([]string, 0, len(refs))
	for _, r := range refs {
		keys = append(keys, fmt.Sprintf("%s/%v", r.UID, r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion))
	}
	return keys
}
