package objects

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/flow"
)

const (
	// watchMin is the shortest watch that the server itself ends; it lasts up to twice that, so that watches which
	// began together do not end together.
	watchMin = 30 * time.Minute
	// bookmarkEvery is the time between bookmarks, to a tenth more or less.
	bookmarkEvery = time.Minute
	// bookmarkBefore is how long before a watch's time is up it has a last bookmark, from which the next watch goes on.
	bookmarkBefore = 2 * time.Second
	// responseBytes is about the most that one response carries; a transaction is never split.
	responseBytes = 1 << 20
)

// Watch implements apiv1.ObjectServiceServer.
func (s *Server) Watch(req *apiv1.WatchRequest, stream grpc.ServerStreamingServer[apiv1.WatchResponse]) (err error) {
	if res, ok := s.components(req); ok {
		return s.componentWatch(stream.Context(), req, res)
	}
	ctx, r, err := s.begin(stream.Context(), "watch", req, req.GetName(), "", req.GetFieldSelector())
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return err
	}
	if !s.watches.enter(r.user.Name) {
		return apierrors.NewTooManyRequests(fmt.Sprintf("user %q has %d watches open at this API server, and may have no more", r.user.Name, s.MaxWatches), 1)
	}
	defer s.watches.leave(r.user.Name)
	if err := r.offered(req.GetAccept()); err != nil {
		return err
	}
	if err := validateWatch(req); err != nil {
		return err
	}
	fieldSelector, err := naming(req.GetName(), req.GetFieldSelector())
	if err != nil {
		return err
	}
	w := &watch{server: s, r: r, stream: stream, bookmarks: req.GetAllowWatchBookmarks(), columns: !req.GetFeed(), giver: rpc.GiverOf(stream.Context())}
	var some bool
	if w.query, w.scope, some, err = selectors(r.res, req.GetNamespace(), req.GetLabelSelector(), fieldSelector); err != nil {
		return err
	}
	if !some {
		w.scope = nothing
	}
	if _, err := parseRevision(req.GetResourceVersion()); err != nil {
		return err
	}
	if w.form, err = r.form(req.GetAccept(), "", req.GetIncludeObject()); err != nil {
		return err
	}
	r.header(ctx)
	timeout := time.Duration(req.GetTimeoutSeconds()) * time.Second
	if timeout <= 0 {
		timeout = watchMin + rand.N(watchMin)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	defer s.Metrics.streaming(r)()
	w.told = s.Metrics.watchEvents.WithLabelValues(r.res.GVR.Group, r.res.GVR.Version, r.res.GVR.Resource)
	gauge := s.Metrics.watchers.WithLabelValues(r.res.GVK.Group, r.res.GVK.Version, r.res.GVK.Kind)
	gauge.Inc()
	defer gauge.Dec()
	if err := stream.Send(&apiv1.WatchResponse{ContentType: w.form.ContentType()}); err != nil {
		return err
	}
	if req.GetTimeoutSeconds() < 0 { // its time was up before it began
		return nil
	}
	if err := w.start(ctx, req); err != nil {
		if ctx.Err() != nil { // its time was up while it read the log
			return nil
		}
		return w.fail(err)
	}
	defer func() { w.watcher.Stop() }()
	flow.Release(ctx) // from here on it costs next to nothing
	if req.GetFeed() {
		if err := stream.Send(&apiv1.WatchResponse{Through: w.sent}); err != nil {
			return err
		}
	}
	if w.join = req.GetJoinAfter(); w.join > 0 {
		// Where it takes longer, the hand-over is tried again with each event.
		_ = s.Cache.WaitFor(ctx, w.join)
	}
	return w.run(ctx)
}

// naming is the field selector of a watch of the object with the name, if it has one: any other selection has to name it, too.
func naming(name, fieldSelector string) (string, error) {
	if name == "" {
		return fieldSelector, nil
	}
	if fieldSelector == "" {
		return "metadata.name=" + name, nil
	}
	selector, err := fields.ParseSelector(fieldSelector)
	if err != nil {
		return "", apierrors.NewBadRequest(err.Error())
	}
	if only, named := selector.RequiresExactMatch("metadata.name"); !named || only != name {
		return "", apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
	}
	return fieldSelector, nil
}

// nothing is the scope of no object.
var nothing = cache.Scope{Name: "\x00"}

func validateWatch(req *apiv1.WatchRequest) error {
	options := &internalversion.ListOptions{
		Watch: true, ResourceVersion: req.GetResourceVersion(), ResourceVersionMatch: metav1.ResourceVersionMatch(req.GetResourceVersionMatch()),
	}
	if text := req.GetSendInitialEvents(); text != "" {
		value := text == "true" || text == "1"
		options.SendInitialEvents = &value
	}
	if errs := listvalidation.ValidateListOptions(options, true); len(errs) > 0 {
		return invalidOptions(req.GetLabelSelector(), req.GetFieldSelector(), errs)
	}
	return nil
}

// watch is one stream.
type watch struct {
	server    *Server
	r         *request
	form      codec.Form
	stream    grpc.ServerStreamingServer[apiv1.WatchResponse]
	query     cache.Query
	scope     cache.Scope
	watcher   *cache.Watcher
	bookmarks bool
	columns   bool  // tables: the columns were not told yet
	sent      int64 // revision of the last event or bookmark
	marked    int64 // revision of the last bookmark
	told      prometheus.Counter
	join      int64      // the caller has what follows this revision from a feed; 0: it does not, or the watch was handed over already
	giver     *rpc.Giver // of objects themselves, to clients in this process that take them; nil: to none
}

// start registers the watcher and sends the initial state where it is asked for.
func (w *watch) start(ctx context.Context, req *apiv1.WatchRequest) error {
	resource := w.server.Cache.For(w.r.res.Kind)
	rv, initial := req.GetResourceVersion(), req.GetSendInitialEvents()
	explicit := initial == "true" || initial == "1"
	if err := w.server.reach(ctx, rv); err != nil {
		return storeError(err, w.r.res.GroupResource(), "", "watch")
	}
	if !explicit && (initial != "" || rv != "" && rv != "0") {
		from, err := parseRevision(rv)
		if err != nil {
			return err
		}
		if from == 0 { // sendInitialEvents=false without a revision: from now on
			from = w.server.Cache.Applied()
		}
		w.sent = from
		filtered := w.query.Label != nil || w.query.Field != nil
		w.watcher, err = resource.Resume(ctx, w.scope, from, filtered, func(events []*cache.Event) error { return w.replayed(ctx, events) })
		return storeError(err, w.r.res.GroupResource(), "", "watch")
	}
	var page cache.Page
	query, selects := converted(w.r.res.Kind, w.query)
	w.watcher, page = resource.WatchList(w.scope, query)
	if w.scope == nothing {
		page.Items = nil
	}
	w.sent = page.Revision
	if err := w.initial(selects(codec.Load(ctx, w.r.res.Kind, page.Items))); err != nil {
		w.watcher.Stop()
		return err
	}
	if w.bookmarks { // it began with the state, whether that was asked for or not
		if err := w.bookmark(page.Revision, map[string]string{metav1.InitialEventsAnnotationKey: "true"}); err != nil {
			w.watcher.Stop()
			return err
		}
	}
	return nil
}

// replayed sends events of the past. Whoever reads them slowly must not keep others from being served: the number of
// reads is bounded by the cache.
func (w *watch) replayed(ctx context.Context, events []*cache.Event) error {
	flow.Release(ctx)
	return w.send(ctx, events)
}

func (w *watch) initial(items []*codec.Item) error {
	response := &apiv1.WatchResponse{}
	size := 0
	for _, item := range items {
		b, err := w.encode(item)
		if err != nil {
			return err
		}
		response.Events = append(response.Events, &apiv1.WatchEvent{Type: "ADDED", Object: b, Revision: item.Revision})
		if size += len(b); size >= responseBytes {
			if err := w.stream.Send(response); err != nil {
				return err
			}
			response, size = &apiv1.WatchResponse{}, 0
		}
	}
	if len(response.Events) == 0 {
		return nil
	}
	return w.stream.Send(response)
}

// run sends events until the watch ends. Ends by time, shutdown and slowness are clean: the client resumes.
func (w *watch) run(ctx context.Context) error {
	jittered := func() time.Duration { return bookmarkEvery*9/10 + rand.N(bookmarkEvery/5) }
	ticker := time.NewTimer(beforeEnd(ctx, jittered()))
	defer ticker.Stop()
	for {
		if err := w.handOver(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			ticker.Reset(beforeEnd(ctx, jittered()))
			if revision, ok := w.watcher.Progress(); ok && w.bookmarks && revision > w.marked {
				if err := w.bookmark(revision, nil); err != nil {
					return err
				}
				w.sent = max(w.sent, revision)
			}
		case <-w.watcher.Signal():
			events, ended := w.watcher.Take()
			if err := w.send(ctx, events); err != nil {
				return err
			}
			if ended != nil {
				if cache.IsTooOld(ended) {
					return w.fail(apierrors.NewResourceExpired(ended.Error()))
				}
				return nil
			}
		}
	}
}

// beforeEnd is the time to the next bookmark: that of the last one of a watch, if it comes first, or else the usual.
func beforeEnd(ctx context.Context, usual time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if left := time.Until(deadline) - bookmarkBefore; ok && left > 0 && left < usual {
		return left
	}
	return usual
}

// handOver leaves what follows to the caller's feed, once the caller has everything that came before the feed's part. A table has to
// have told its columns, which feeds leave out. From then on the watch only learns when it ends.
func (w *watch) handOver() error {
	if w.join == 0 || w.form.As == codec.Table && w.columns {
		return nil
	}
	revision, ok := w.watcher.Progress()
	if !ok || revision < w.join {
		return nil
	}
	bare, err := w.server.Cache.For(w.r.res.Kind).Watch(nothing, revision)
	if err != nil { // the cache was loaded anew: the watch is told so
		return nil
	}
	w.watcher.Stop()
	w.watcher, w.join, w.bookmarks = bare, 0, false
	return w.stream.Send(&apiv1.WatchResponse{Through: revision})
}

// single is a response of one event, as most are, in one piece of memory.
type single struct {
	response apiv1.WatchResponse
	event    apiv1.WatchEvent
	events   [1]*apiv1.WatchEvent
}

// one sends a single event.
func (w *watch) one(e *cache.Event) error {
	kind, item := w.seen(e)
	if kind == "" {
		return nil
	}
	value := w.value(item)
	var b []byte
	if value == nil {
		var err error
		if b, err = w.encode(item); err != nil {
			return w.fail(err)
		}
	}
	s := &single{}
	s.event.Type, s.event.Object, s.event.Revision, s.event.Traceparent = kind, b, e.Revision, e.Trace
	s.events[0] = &s.event
	w.told.Inc()
	s.response.Events = s.events[:]
	w.sent = e.Revision
	if value != nil {
		w.giver.Give([]any{value})
	}
	return w.stream.Send(&s.response)
}

func (w *watch) send(ctx context.Context, events []*cache.Event) error {
	w.load(ctx, events)
	if len(events) == 1 {
		return w.one(events[0])
	}
	response := &apiv1.WatchResponse{}
	var values []any
	size, group := 0, int64(0)
	for _, e := range events {
		if size >= responseBytes && e.Group != group {
			if err := w.deliver(response, values); err != nil {
				return err
			}
			response, values, size = &apiv1.WatchResponse{}, nil, 0
		}
		group = e.Group
		kind, item := w.seen(e)
		if kind == "" {
			continue
		}
		value := w.value(item)
		var b []byte
		if value == nil {
			var err error
			if b, err = w.encode(item); err != nil {
				return w.fail(err)
			}
			size += len(b)
		} else {
			size += item.Size()
		}
		if w.giver != nil {
			values = append(values, value)
		}
		response.Events = append(response.Events, &apiv1.WatchEvent{Type: kind, Object: b, Revision: e.Revision, Traceparent: e.Trace})
		w.told.Inc()
		w.sent = e.Revision
	}
	return w.deliver(response, values)
}

// deliver sends a response, unless it is empty, with the values that stand for its events' objects.
func (w *watch) deliver(response *apiv1.WatchResponse, values []any) error {
	if len(response.Events) == 0 {
		return nil
	}
	if w.giver != nil {
		w.giver.Give(values)
	}
	return w.stream.Send(response)
}

// value returns the object of an event itself where the client takes it: it is in this process and neither has it encoded nor
// decodes it. nil: it takes bytes.
func (w *watch) value(item *codec.Item) any {
	if w.giver == nil || w.r.res.Version != nil || item.Kind.Custom != nil && w.form.As != codec.PartialMetadata {
		return nil
	}
	var (
		obj any
		err error
	)
	switch w.form.As {
	case codec.Whole:
		obj, err = item.Object()
	case codec.PartialMetadata:
		obj, err = item.Metadata(w.form.Beta)
	}
	if err != nil || !w.giver.Takes(obj) {
		return nil // the encoding tells of the error
	}
	return obj
}

// seen returns what the watch's selector makes of a change: an object that leaves the selection is DELETED, one that enters it is
// ADDED, and one that is outside before and after is nothing.
func (w *watch) seen(e *cache.Event) (string, *codec.Item) {
	now, previous := e.Item.In(w.r.res.Kind), e.Previous
	if w.query.Label == nil && w.query.Field == nil {
		return e.Type.String(), now
	}
	if previous != nil {
		previous = previous.In(w.r.res.Kind)
	}
	before := previous != nil && previous.Matches(w.query.Label, w.query.Field)
	after := e.Type != cache.Deleted && now.Matches(w.query.Label, w.query.Field)
	switch {
	case before && after:
		return "MODIFIED", now
	case after:
		return "ADDED", now
	case !before:
		return "", nil
	case e.Type == cache.Deleted:
		return "DELETED", now
	}
	return "DELETED", previous.At(e.Revision)
}

// load has what is needed of custom objects converted in one go.
func (w *watch) load(ctx context.Context, events []*cache.Event) {
	kind := w.r.res.Kind
	if kind.Custom == nil || !kind.Custom.Remote() {
		return
	}
	items := make([]*codec.Item, 0, len(events))
	for _, e := range events {
		items = append(items, e.Item)
		if e.Previous != nil && (w.query.Label != nil || w.query.Field != nil) {
			items = append(items, e.Previous)
		}
	}
	codec.Load(ctx, kind, items)
}

func (w *watch) encode(item *codec.Item) ([]byte, error) {
	if w.form.As == codec.Table {
		b, err := codec.TableEvent(w.r.res, item, w.form, w.columns)
		w.columns = false
		return b, err
	}
	b, err := item.Encoded(w.r.res, w.form)
	if n := len(b); err == nil && w.form.Media == codec.JSON && n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	return b, err
}

func (w *watch) bookmark(revision int64, annotations map[string]string) error {
	b, err := codec.Bookmark(w.r.res, revision, annotations, w.form)
	if err != nil {
		return err
	}
	w.marked = revision
	return w.stream.Send(&apiv1.WatchResponse{Events: []*apiv1.WatchEvent{{Type: "BOOKMARK", Object: b, Revision: revision}}})
}

// fail ends the watch with an ERROR event.
func (w *watch) fail(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	status := apistatus.Of(err)
	form := w.form
	form.As = codec.Whole
	b, _, encodeErr := codec.Any(&status, statusGVK, form)
	if encodeErr != nil {
		return err
	}
	return w.stream.Send(&apiv1.WatchResponse{Events: []*apiv1.WatchEvent{{Type: "ERROR", Object: b}}})
}
