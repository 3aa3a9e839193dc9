package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Watch follows the objects that options select from options.ResourceVersion
// on. The watch ends when ctx does, when Stop is called, or when the server
// ends it or is lost; resume from the last object's resourceVersion.
func (r Resource[T]) Watch(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error) {
	return r.watch(ctx, namespace, options, nil)
}

// follower is an informer, which changes nothing of the objects that it is given but for what slim takes out of its own.
type follower struct {
	traces *traces
	slim   func(runtime.Object)
	pace   *pace
}

func (r Resource[T]) watch(ctx context.Context, namespace string, options metav1.ListOptions, by *follower, call ...grpc.CallOption) (watch.Interface, error) {
	if r.kind.Remote {
		w, err := r.remoteWatch(ctx, namespace, options)
		if err != nil || by == nil {
			return w, err
		}
		return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
			by.slim(e.Object)
			return e, true
		}), nil
	}
	request := &apiv1.WatchRequest{
		Group: r.kind.GVK.Group, Version: r.kind.GVK.Version, Resource: r.kind.Resource, Namespace: namespace,
		LabelSelector: options.LabelSelector, FieldSelector: options.FieldSelector,
		ResourceVersion: options.ResourceVersion, ResourceVersionMatch: string(options.ResourceVersionMatch),
		AllowWatchBookmarks: options.AllowWatchBookmarks, Accept: accept(r.kind),
	}
	if options.TimeoutSeconds != nil {
		request.TimeoutSeconds = *options.TimeoutSeconds
	}
	if options.SendInitialEvents != nil {
		request.SendInitialEvents = "false"
		if *options.SendInitialEvents {
			request.SendInitialEvents = "true"
		}
	}
	w := &watcher[T]{kind: r.kind, api: r.client.api, request: request, call: call, by: by, results: make(chan watch.Event, 256)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	if err := w.open(); err != nil {
		w.cancel()
		return nil, apistatus.FromGRPC(err)
	}
	go w.receive()
	return w, nil
}

// watcher turns streams, one after the other, into a watch.Interface. receive owns the goroutine; it ends with the stream, unless the pace
// has changed: then the next one begins where this one ends.
type watcher[T Object] struct {
	kind    Kind[T]
	api     apiv1.ObjectServiceClient
	request *apiv1.WatchRequest // what follows its revision is still to be told
	call    []grpc.CallOption
	stream  grpc.ServerStreamingClient[apiv1.WatchResponse]
	paced   context.Context // of the stream: ends with the pace that it has
	values  *rpc.Values     // nil: none are taken
	by      *follower       // nil: no informer
	results chan watch.Event
	ctx     context.Context
	cancel  context.CancelFunc
	once    sync.Once
}

func (w *watcher[T]) Stop()                          { w.once.Do(w.cancel) }
func (w *watcher[T]) ResultChan() <-chan watch.Event { return w.results }

// open begins a stream, and another one where the pace changes meanwhile.
func (w *watcher[T]) open() error {
	for {
		if err := w.begin(); err == nil || w.paced.Err() == nil || w.ctx.Err() != nil {
			return err
		}
	}
}

// begin begins a stream. What it leaves behind when it fails ends with the watch.
func (w *watcher[T]) begin() error {
	request, call := proto.CloneOf(w.request), w.call
	w.paced = w.ctx
	if w.by != nil {
		w.values = rpc.TakeValues(w.kind.New())
		call = append(slices.Clip(call), w.values)
		gather, changed := w.by.pace.now()
		request.GatherMilliseconds = gather.Milliseconds()
		w.paced = while(w.ctx, changed)
	}
	stream, err := w.api.Watch(w.paced, request, call...)
	if err != nil {
		return err
	}
	w.stream = stream
	_, err = stream.Recv() // the empty first response: the watch stands
	return err
}

func (w *watcher[T]) receive() {
	defer close(w.results)
	defer w.Stop()
	for {
		response, err := w.stream.Recv()
		if err != nil && w.paced.Err() != nil && w.ctx.Err() == nil {
			if err = w.open(); err == nil {
				continue
			}
		}
		if err != nil {
			w.fail(apistatus.FromGRPC(err))
			return
		}
		var values []any
		if w.values != nil {
			values = w.values.Last()
		}
		for n, e := range response.GetEvents() {
			var event watch.Event
			if n < len(values) && values[n] != nil {
				event = w.shared(e, values[n])
			} else {
				event = w.decode(e)
			}
			if !w.send(event) {
				return
			}
		}
		w.resumeAfter(response.GetEvents())
	}
}

// resumeAfter has the next stream begin after the events that were told.
func (w *watcher[T]) resumeAfter(told []*apiv1.WatchEvent) {
	for _, e := range slices.Backward(told) {
		if e.GetRevision() > 0 {
			w.request.ResourceVersion, w.request.SendInitialEvents, w.request.ResourceVersionMatch = strconv.FormatInt(e.GetRevision(), 10), "", ""
			return
		}
	}
}

// fail tells of an error that ended the stream. The loss of the server is
// none: the channel is closed, as that of a watch over HTTP would be, so that
// who watches resumes where it is and need not list anew.
func (w *watcher[T]) fail(err error) {
	if errors.Is(err, io.EOF) || w.ctx.Err() != nil || apierrors.IsServiceUnavailable(err) {
		return
	}
	status := apistatus.Of(err)
	w.send(watch.Event{Type: watch.Error, Object: &status})
}

func (w *watcher[T]) send(event watch.Event) bool {
	select {
	case w.results <- event:
		return true
	case <-w.ctx.Done():
		return false
	}
}

func (w *watcher[T]) decode(e *apiv1.WatchEvent) watch.Event {
	if e.GetType() == string(watch.Error) {
		status, err := decodeStatus(w.kind.Custom, e.GetObject())
		if err != nil {
			s := apistatus.Of(err)
			status = &s
		}
		return watch.Event{Type: watch.Error, Object: status}
	}
	obj, err := Decode(w.kind, e.GetObject())
	if err != nil {
		s := apistatus.Of(err)
		return watch.Event{Type: watch.Error, Object: &s}
	}
	if w.by != nil {
		w.by.slim(obj)
	}
	return w.traced(e, obj)
}

// shared is the event of an object that the server itself and others have as well: nobody may change it. Metadata alone was made for
// this watch, though what it consists of is shared.
func (w *watcher[T]) shared(e *apiv1.WatchEvent, value any) watch.Event {
	obj, ok := value.(T)
	if !ok {
		s := apistatus.Of(fmt.Errorf("the server gave a %T", value))
		return watch.Event{Type: watch.Error, Object: &s}
	}
	if isMetadata(obj) {
		w.by.slim(obj)
	}
	return w.traced(e, obj)
}

func (w *watcher[T]) traced(e *apiv1.WatchEvent, obj T) watch.Event {
	if w.by != nil && e.GetTraceparent() != "" {
		w.by.traces.put(obj, e.GetTraceparent())
	}
	return watch.Event{Type: watch.EventType(e.GetType()), Object: obj}
}
