package objects

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/flow"
)

const (
	// bookmarkEvery is the time between bookmarks, to a tenth more or less.
	bookmarkEvery = time.Minute
	// bookmarkBefore is how long before a watch's time is up it has a last bookmark, from which the next watch goes on.
	bookmarkBefore = 2 * time.Second
	// responseBytes is about the most that one response carries; a transaction is never split.
	responseBytes = 1 << 20
	// maxGather is the longest that a watch may wait for more to tell at once.
	maxGather = 10 * time.Second
	// responseEvents is the most events of the initial state that one response carries.
	responseEvents = 1000
)

// Watch implements apiv1.ObjectServiceServer.
func (s *Server) Watch(req *apiv1.WatchRequest, stream grpc.ServerStreamingServer[apiv1.WatchResponse]) (err error) {
	if m, is := s.made(req); is {
		return s.madeWatch(stream.Context(), req, m)
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
	w, err := s.newWatch(stream, r, req)
	if err != nil {
		return err
	}
	r.header(ctx)
	if timeout := s.lifetime(req); timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	defer w.measure()()
	return w.serve(ctx, req)
}

// newWatch reads what is to be watched, and how it is to be told.
func (s *Server) newWatch(stream grpc.ServerStreamingServer[apiv1.WatchResponse], r *request, req *apiv1.WatchRequest) (*watch, error) {
	if err := r.offered(req.GetAccept()); err != nil {
		return nil, err
	}
	if err := validateWatch(req); err != nil {
		return nil, err
	}
	fieldSelector, err := naming(req.GetName(), req.GetFieldSelector())
	if err != nil {
		return nil, err
	}
	w := &watch{server: s, r: r, stream: stream, bookmarks: req.GetAllowWatchBookmarks(), columns: !req.GetFeed(), giver: rpc.GiverOf(stream.Context())}
	var some bool
	if w.query, w.scope, some, err = selectors(r.res, req.GetNamespace(), req.GetLabelSelector(), fieldSelector); err != nil {
		return nil, err
	}
	if !some {
		w.scope = nothing
	}
	w.gathering = time.Duration(req.GetGatherMilliseconds()) * time.Millisecond
	w.hides = s.Initializers != nil && !req.GetIncludeUninitialized()
	if _, err := parseRevision(req.GetResourceVersion()); err != nil {
		return nil, err
	}
	w.form, err = r.form(req.GetAccept(), "", req.GetIncludeObject())
	return w, err
}

// lifetime is what the client asks for, or a time of the server's choice: from its shortest to twice that, so that watches which began together do not end
// together. 0 is for ever.
func (s *Server) lifetime(req *apiv1.WatchRequest) time.Duration {
	if timeout := time.Duration(req.GetTimeoutSeconds()) * time.Second; timeout > 0 {
		return timeout
	}
	if s.MinWatch <= 0 {
		return 0
	}
	return s.MinWatch + rand.N(s.MinWatch)
}

// measure counts the watch as open until what it returns is called.
func (w *watch) measure() (closed func()) {
	m, res := w.server.Metrics, w.r.res
	streaming := m.streaming(w.r)
	w.told = m.watchEvents.WithLabelValues(res.GVR.Group, res.GVR.Version, res.GVR.Resource)
	w.sizes = m.watchSizes.WithLabelValues(res.GVR.Group, res.GVR.Version, res.GVR.Resource)
	open := m.watchers.WithLabelValues(res.GVK.Group, res.GVK.Version, res.GVK.Kind)
	open.Inc()
	return func() {
		open.Dec()
		streaming()
	}
}

// serve begins the watch and tells of events until ctx ends, or it has failed and told so. A client that leaves while it is told something ends it, too.
func (w *watch) serve(ctx context.Context, req *apiv1.WatchRequest) error {
	if err := w.tell(ctx, req); !w.failed && !(w.opened && w.stream.Context().Err() != nil) {
		return err
	}
	return nil
}

func (w *watch) tell(ctx context.Context, req *apiv1.WatchRequest) error {
	if req.GetTimeoutSeconds() < 0 { // its time was up before it began
		return w.open()
	}
	if err := w.start(ctx, req); err != nil {
		if err := w.open(); err != nil {
			return err
		}
		if ctx.Err() != nil || w.failed { // its time was up while it read the log, or what it read was not to be told
			return nil
		}
		return w.fail(err)
	}
	defer func() { w.watcher.Stop() }()
	flow.Release(ctx) // from here on it costs next to nothing
	if w.join = req.GetJoinAfter(); w.join > 0 {
		// Where it takes longer, the hand-over is tried again with each event.
		_ = w.server.Cache.WaitFor(ctx, w.join)
	}
	return w.run(ctx)
}

// open tells the caller that the watch has begun: whatever the caller does from then on is told.
func (w *watch) open() error {
	if w.opened {
		return nil
	}
	w.opened = true
	return w.stream.Send(&apiv1.WatchResponse{ContentType: w.form.ContentType()})
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
	if gather := req.GetGatherMilliseconds(); gather < 0 || gather > maxGather.Milliseconds() {
		return apierrors.NewBadRequest(fmt.Sprintf("gather_milliseconds is %d, and must be from 0 to %d", gather, maxGather.Milliseconds()))
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
	opened    bool  // the caller was told that it has begun
	failed    bool  // the caller was told that it has failed: nothing may follow
	columns   bool  // tables: the columns were not told yet
	sent      int64 // revision of the last event or bookmark
	marked    int64 // revision of the last bookmark
	hides     bool  // what waits for initializers
	told      prometheus.Counter
	sizes     prometheus.Observer // of events' objects
	join      int64               // the caller has what follows this revision from a feed; 0: it does not, or the watch was handed over already
	gathering time.Duration       // how long changes of an object are waited for and told as one; 0: each is told at once
	giver     *rpc.Giver          // of objects themselves, to clients in this process that take them; nil: to none
}

// start registers the watcher and sends the initial state where it is asked for.
func (w *watch) start(ctx context.Context, req *apiv1.WatchRequest) error {
	resource := w.server.Cache.For(w.r.res.Kind)
	rv, initial := req.GetResourceVersion(), req.GetSendInitialEvents()
	explicit := initial == "true" || initial == "1"
	marks := w.bookmarks && (explicit || rv == "" || rv == "0") // it began with the state, and is told where that ends
	if from, err := parseRevision(rv); err == nil && from == 0 && rv != "" {
		rv = "0" // as 00, which Kubernetes reads as any state, but not as the wish for one
	}
	since := !explicit && rv != "" && rv != "0" // what follows a revision is told whenever the watch begins
	if since {
		if err := w.open(); err != nil {
			return err
		}
	}
	if err := w.server.reach(ctx, w.r.res.Kind, rv); err != nil {
		return storeError(err, w.r.res.GroupResource(), "", "watch")
	}
	if since || !explicit && initial != "" {
		from, err := parseRevision(rv)
		if err != nil {
			return err
		}
		if from == 0 { // sendInitialEvents=false without a revision: from now on
			from = w.server.Cache.Applied()
		}
		if err := w.open(); err != nil {
			return err
		}
		w.sent = from
		if req.GetFeed() { // before any event
			if err := w.stream.Send(&apiv1.WatchResponse{Through: from}); err != nil {
				return err
			}
		}
		w.watcher, err = resource.Resume(ctx, w.scope, from, w.selects(), func(events []*cache.Event) error { return w.replayed(ctx, events) })
		return storeError(err, w.r.res.GroupResource(), "", "watch")
	}
	var page cache.Page
	query, selects := converted(w.r.res.Kind, w.query)
	w.watcher, page = resource.WatchList(w.scope, query)
	if w.scope == nothing {
		page.Items = nil
	}
	if w.hides {
		page.Items = w.server.initialized(page.Items)
	}
	resource.Began(page)
	w.sent = page.Revision
	if err := w.open(); err != nil {
		w.watcher.Stop()
		return err
	}
	if err := w.initial(selects(codec.Load(ctx, w.r.res.Kind, page.Items))); err != nil {
		w.watcher.Stop()
		return err
	}
	if explicit {
		gvr := w.r.res.GVR
		w.server.Metrics.watchLists.WithLabelValues(gvr.Group, gvr.Version, gvr.Resource, scopeOf(w.r)).Observe(time.Since(w.r.start).Seconds())
	}
	if marks {
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

// initial sends the state that a watch begins with.
func (w *watch) initial(items []*codec.Item) error {
	for batch := range slices.Chunk(items, responseEvents) {
		// Receivers may keep what they are sent: a batch's events are in one piece of memory, but no two batches are.
		events, told, size := make([]apiv1.WatchEvent, len(batch)), make([]*apiv1.WatchEvent, 0, len(batch)), 0
		for n, item := range batch {
			b, err := w.encode(item)
			if err != nil {
				return err
			}
			w.told.Inc()
			w.sizes.Observe(float64(len(b)))
			e := &events[n]
			e.Type, e.Object, e.Revision = "ADDED", b, item.Revision
			told = append(told, e)
			if size += len(b); size < responseBytes && n < len(batch)-1 {
				continue
			}
			if err := w.stream.Send(&apiv1.WatchResponse{Events: told}); err != nil {
				return err
			}
			told, size = told[len(told):], 0
		}
	}
	return nil
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
			events, ended := w.take(ctx)
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

// take returns what is to be told now, and the reason where the watcher has ended.
func (w *watch) take(ctx context.Context) ([]*cache.Event, error) {
	if w.gathering == 0 {
		return w.watcher.Take()
	}
	ctx, cancel := context.WithTimeout(ctx, w.gathering)
	defer cancel()
	for ctx.Err() == nil && !w.watcher.Pressing() {
		select {
		case <-w.watcher.Signal():
		case <-ctx.Done():
		}
	}
	events, ended := w.watcher.Take()
	return cache.Merge(events), ended
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
