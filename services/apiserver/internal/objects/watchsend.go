package objects

import (
	"context"
	"errors"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
)

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
		w.sizes.Observe(float64(len(b)))
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
	if w.load(ctx, events) && ctx.Err() != nil { // its time was up while a webhook converted
		return w.fail(context.Canceled)
	}
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
			w.sizes.Observe(float64(len(b)))
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
	if !w.selects() {
		return e.Type.String(), now
	}
	if previous != nil {
		previous = previous.In(w.r.res.Kind)
	}
	before := previous != nil && w.matches(previous)
	after := e.Type != cache.Deleted && w.matches(now)
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

// selects reports whether the watch leaves objects out by what they are.
func (w *watch) selects() bool { return w.query.Label != nil || w.query.Field != nil || w.hides }

// matches reports whether the watch shows an object.
func (w *watch) matches(item *codec.Item) bool {
	return item.Matches(w.query.Label, w.query.Field) && !(w.hides && w.server.Initializers.Hides(item))
}

// load has what is needed of custom objects converted in one go, and reports whether that may have taken time.
func (w *watch) load(ctx context.Context, events []*cache.Event) bool {
	kind := w.r.res.Kind
	if !remote(kind) {
		return false
	}
	items := make([]*codec.Item, 0, len(events))
	for _, e := range events {
		items = append(items, e.Item)
		if e.Previous != nil && w.selects() {
			items = append(items, e.Previous)
		}
	}
	codec.Load(ctx, kind, items)
	return true
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
	b, err := codec.Bookmark(w.r.res, revision, annotations, w.form, w.columns)
	if err != nil {
		return err
	}
	w.marked, w.columns = revision, false
	w.told.Inc()
	w.sizes.Observe(float64(len(b)))
	return w.stream.Send(&apiv1.WatchResponse{Events: []*apiv1.WatchEvent{{Type: "BOOKMARK", Object: b, Revision: revision}}})
}

// errFailed is what is left to say of a watch that has failed: the caller was told why.
var errFailed = errors.New("the watch has failed")

// fail ends the watch with an ERROR event, or without one where something was given up because it ends. What follows the event that was told last is told
// to whoever resumes there.
func (w *watch) fail(err error) error {
	w.failed = true
	if errors.Is(err, context.Canceled) {
		return errFailed
	}
	status := apistatus.Of(err)
	form := w.form
	form.As = codec.Whole
	b, _, encodeErr := codec.Any(&status, statusGVK, form)
	if encodeErr != nil {
		return err
	}
	if err := w.stream.Send(&apiv1.WatchResponse{Events: []*apiv1.WatchEvent{{Type: "ERROR", Object: b}}}); err != nil {
		return err
	}
	return errFailed
}
