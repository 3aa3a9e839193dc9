package object

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

const (
	// remoteTimeout bounds a request for remote objects, also where its caller has more time, as for many such: a server may hang.
	remoteTimeout = 15 * time.Second
	// watchGrace is how much longer than it was asked to a watch of remote objects may last.
	watchGrace = 30 * time.Second
	// maxRemote is how many writes of a batch go to extension API servers at the same time.
	maxRemote = 8
)

// newRemote returns what makes, once, the client of the metadata that extension API servers keep.
func newRemote(way *tunnel, manager string) func() (metadata.Interface, error) {
	return sync.OnceValues(func() (metadata.Interface, error) {
		// The API's own back-pressure bounds what is asked; QPS below zero adds no other.
		config := metadata.ConfigFor(&rest.Config{Host: "https://apiserver", QPS: -1, UserAgent: manager})
		return metadata.NewForConfigAndClient(config, &http.Client{Transport: way})
	})
}

// Extensions is the configuration of clients of extension API servers: the API leads their requests there, and tells the servers who
// asks. A request may take 15 s.
func (c *Client) Extensions() *rest.Config {
	return &rest.Config{Host: "https://apiserver", QPS: -1, UserAgent: c.manager, Timeout: remoteTimeout, Transport: c.tunnel}
}

// remote returns the client of the kind's objects.
func (r Resource[T]) remote(namespace string) (metadata.ResourceInterface, error) {
	client, err := r.client.remote()
	if err != nil {
		return nil, fmt.Errorf("reach extension API servers: %w", err)
	}
	resource := client.Resource(r.kind.GVK.GroupVersion().WithResource(r.kind.Resource))
	if namespace == "" {
		return resource, nil
	}
	return resource.Namespace(namespace), nil
}

// metadataOf is what an extension API server told of an object as a kind's; only kinds of metadata are remote.
func metadataOf[T Object](meta *metav1.PartialObjectMetadata, err error) (T, error) {
	var none T
	if err != nil {
		return none, err
	}
	obj, ok := any(meta).(T)
	if !ok {
		return none, fmt.Errorf("an extension API server's objects are known by their metadata, not as %T", none)
	}
	return obj, nil
}

func (r Resource[T]) remoteGet(ctx context.Context, namespace, name string) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	objects, err := r.remote(namespace)
	if err != nil {
		var none T
		return none, err
	}
	return metadataOf[T](objects.Get(ctx, name, metav1.GetOptions{}))
}

func (r Resource[T]) remoteList(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	objects, err := r.remote(namespace)
	if err != nil {
		return nil, err
	}
	return objects.List(ctx, options)
}

func (r Resource[T]) remoteWatch(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error) {
	objects, err := r.remote(namespace)
	if err != nil {
		return nil, err
	}
	if options.TimeoutSeconds == nil {
		return objects.Watch(ctx, options)
	}
	// A server that hangs does not end its watches.
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*options.TimeoutSeconds)*time.Second+watchGrace)
	w, err := objects.Watch(ctx, options)
	if err != nil {
		cancel()
		return nil, err
	}
	return &endingWatch{Interface: w, end: cancel}, nil
}

// endingWatch lets go of its deadline when it is stopped.
type endingWatch struct {
	watch.Interface
	end context.CancelFunc
}

// Stop implements watch.Interface.
func (w *endingWatch) Stop() {
	w.Interface.Stop()
	w.end()
}

func (r Resource[T]) remotePatch(ctx context.Context, namespace, name string, patchType types.PatchType, patch []byte, subresource string) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	objects, err := r.remote(namespace)
	if err != nil {
		var none T
		return none, err
	}
	options := metav1.PatchOptions{FieldManager: r.client.manager}
	if subresource == "" {
		return metadataOf[T](objects.Patch(ctx, name, patchType, patch, options))
	}
	return metadataOf[T](objects.Patch(ctx, name, patchType, patch, options, subresource))
}

func (r Resource[T]) remoteDelete(ctx context.Context, namespace, name string, options metav1.DeleteOptions) error {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	objects, err := r.remote(namespace)
	if err != nil {
		return err
	}
	return objects.Delete(ctx, name, options)
}

// DeleteCollection deletes the objects of a namespace that options select, where an extension API server keeps them. Those of
// this API are better listed and deleted in batches, which tells what became of each.
func (r Resource[T]) DeleteCollection(ctx context.Context, namespace string, options metav1.DeleteOptions, which metav1.ListOptions) error {
	if !r.kind.Remote {
		return apierrors.NewMethodNotSupported(r.kind.GroupResource(), "deletecollection")
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	objects, err := r.remote(namespace)
	if err != nil {
		return err
	}
	return objects.DeleteCollection(ctx, options, which)
}

// notRemote refuses what kinds of metadata have no form for.
func (r Resource[T]) notRemote(verb string) error {
	if r.kind.Remote {
		return apierrors.NewMethodNotSupported(r.kind.GroupResource(), verb)
	}
	return nil
}

// apart sends those of the items that go to extension API servers, each by itself, into their places of results. When a server
// does not answer, what is left of the batch is not tried: it would take a deadline each.
func (c *Client) apart(ctx context.Context, items []Item, results []Result) {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		lost error
	)
	places := make(chan int)
	for range min(maxRemote, len(items)) {
		wg.Go(func() {
			for i := range places {
				mu.Lock()
				err := lost
				mu.Unlock()
				if err == nil {
					err = items[i].remote(ctx)
				}
				results[i] = Result{Err: err}
				if err != nil && unanswered(err) {
					mu.Lock()
					lost = err
					mu.Unlock()
				}
			}
		})
	}
	for i, item := range items {
		if item.remote != nil {
			places <- i
		}
	}
	close(places)
	wg.Wait()
}

// unanswered reports whether an error is not an answer of the server that was asked.
func unanswered(err error) bool {
	return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err)
}
