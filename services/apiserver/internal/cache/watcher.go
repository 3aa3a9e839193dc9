package cache

import (
	"errors"
	"sync"
)

// maxBuffer is the number of events that may wait for one watcher. One that falls further behind is ended: it resumes
// from the last revision it saw.
const maxBuffer = 16384

// ErrSlow ends a watcher that does not keep up.
var ErrSlow = errors.New("the watcher does not keep up")

// ErrGone ends the watchers of a kind that is not served any more, or not as it was.
var ErrGone = errors.New("the kind is not served any more")

// Scope says which events concern a watcher; the narrowest of its parts indexes it. What a selector says
// beyond it is for the watcher to evaluate.
type Scope struct {
	Namespace, Name string
	// Field and Value are one "field = value" of the field selector.
	Field, Value string
}

// Watcher receives the events of one kind within a scope.
type Watcher struct {
	resource *Resource
	scope    Scope
	signal   chan struct{}

	pending []*Event // of the piece of the log that is being applied; under resource.mu

	mu     sync.Mutex
	buffer []*Event
	err    error
}

// Watch starts a watcher at a revision: it gets every later event, oldest first. It fails with *TooOldError.
// The caller waits first until the cache has reached the revision.
func (r *Resource) Watch(scope Scope, from int64) (*Watcher, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	events, err := r.ring.after(from)
	if err != nil {
		return nil, err
	}
	w := r.start(scope)
	for _, e := range events {
		if scope.concerns(e) {
			w.buffer = append(w.buffer, e)
		}
	}
	if len(w.buffer) > 0 {
		w.signal <- struct{}{}
	}
	return w, nil
}

// WatchList starts a watcher behind the present state, which it returns.
func (r *Resource) WatchList(scope Scope, q Query) (*Watcher, Page) {
	r.prepare(q)
	r.mu.Lock()
	defer r.mu.Unlock()
	page := r.find(q)
	page.Revision = r.revision()
	return r.start(scope), page
}

func (r *Resource) start(scope Scope) *Watcher {
	w := &Watcher{resource: r, scope: scope, signal: make(chan struct{}, 1)}
	if r.gone {
		w.end(ErrGone)
		return w
	}
	r.watchers.add(w)
	return w
}

// Signal fires when Take has something, or the watcher has ended.
func (w *Watcher) Signal() <-chan struct{} { return w.signal }

// Take returns what has arrived, whole groups at a time, and the reason where the watcher has ended.
func (w *Watcher) Take() ([]*Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.buffer
	w.buffer = nil
	return events, w.err
}

// Pressing reports whether what waits should be taken now: the watcher has ended, or so much waits that it might be ended.
func (w *Watcher) Pressing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil || len(w.buffer) >= maxBuffer/2
}

// Progress returns a revision up to which the watcher has had everything, if nothing waits to be taken.
func (w *Watcher) Progress() (int64, bool) {
	applied := w.resource.cache.Applied()
	w.mu.Lock()
	defer w.mu.Unlock()
	return applied, len(w.buffer) == 0 && w.err == nil
}

// Stop ends the watcher.
func (w *Watcher) Stop() {
	w.resource.mu.Lock()
	defer w.resource.mu.Unlock()
	w.resource.watchers.remove(w)
}

func (w *Watcher) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.wake()
}

func (w *Watcher) wake() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

func (s Scope) concerns(e *Event) bool {
	if s.Namespace != "" && e.Item.Namespace != s.Namespace || s.Name != "" && e.Item.Name != s.Name {
		return false
	}
	return s.Field == "" || e.Item.Field(s.Field) == s.Value || e.Previous != nil && e.Previous.Field(s.Field) == s.Value
}

type set map[*Watcher]struct{}

// watchers indexes the watchers of a kind, so that an event meets only those that it may concern. Each
// watcher stands in one set: by name, else by field, else by namespace, else in all.
type watchers struct {
	all         set
	byName      map[string]set
	byNamespace map[string]set
	byField     map[string]map[string]set
	touched     []*Watcher
	count       int
	offered     int // events that were noted for watchers, each as often as for watchers
	slow        int // watchers that were ended because they did not keep up
}

func newWatchers() watchers {
	return watchers{all: set{}, byName: map[string]set{}, byNamespace: map[string]set{}, byField: map[string]map[string]set{}}
}

func (ws *watchers) add(w *Watcher) {
	ws.count++
	insert := func(m map[string]set, key string) {
		if m[key] == nil {
			m[key] = set{}
		}
		m[key][w] = struct{}{}
	}
	switch s := w.scope; {
	case s.Name != "":
		insert(ws.byName, s.Name)
	case s.Field != "":
		if ws.byField[s.Field] == nil {
			ws.byField[s.Field] = map[string]set{}
		}
		insert(ws.byField[s.Field], s.Value)
	case s.Namespace != "":
		insert(ws.byNamespace, s.Namespace)
	default:
		ws.all[w] = struct{}{}
	}
}

func (ws *watchers) remove(w *Watcher) {
	drop := func(m map[string]set, key string) {
		if _, ok := m[key][w]; !ok {
			return
		}
		ws.count--
		if delete(m[key], w); len(m[key]) == 0 {
			delete(m, key)
		}
	}
	switch s := w.scope; {
	case s.Name != "":
		drop(ws.byName, s.Name)
	case s.Field != "":
		if drop(ws.byField[s.Field], s.Value); len(ws.byField[s.Field]) == 0 {
			delete(ws.byField, s.Field)
		}
	case s.Namespace != "":
		drop(ws.byNamespace, s.Namespace)
	default:
		if _, ok := ws.all[w]; ok {
			ws.count--
			delete(ws.all, w)
		}
	}
}

// dispatch notes an event for the watchers that it may concern; publish hands out what was noted, so that the events of
// one transaction arrive together.
func (ws *watchers) dispatch(e *Event) {
	if ws.count == 0 {
		return
	}
	ws.offer(ws.all, e)
	if len(ws.byName) > 0 {
		ws.offer(ws.byName[e.Item.Name], e)
	}
	if len(ws.byNamespace) > 0 {
		ws.offer(ws.byNamespace[e.Item.Namespace], e)
	}
	for field, values := range ws.byField {
		value := e.Item.Field(field)
		ws.offer(values[value], e)
		if e.Previous == nil {
			continue
		}
		if before := e.Previous.Field(field); before != value {
			ws.offer(values[before], e)
		}
	}
}

func (ws *watchers) offer(to set, e *Event) {
	for w := range to {
		if s := w.scope; s.Namespace != "" && e.Item.Namespace != s.Namespace {
			continue
		}
		if len(w.pending) == 0 {
			ws.touched = append(ws.touched, w)
		}
		w.pending = append(w.pending, e)
		ws.offered++
	}
}

func (ws *watchers) publish() {
	for n, w := range ws.touched {
		w.mu.Lock()
		switch {
		case w.err != nil:
		case len(w.buffer)+len(w.pending) > maxBuffer:
			w.err, w.buffer = ErrSlow, nil
			ws.slow++
		case w.buffer == nil:
			w.buffer = append(make([]*Event, 0, len(w.pending)), w.pending...)
		default:
			w.buffer = append(w.buffer, w.pending...)
		}
		w.wake()
		w.mu.Unlock()
		clear(w.pending)
		if w.pending = w.pending[:0]; cap(w.pending) > 1024 {
			w.pending = nil
		}
		ws.touched[n] = nil
	}
	ws.touched = ws.touched[:0]
}

func (ws *watchers) end(err error) {
	each := func(s set) {
		for w := range s {
			w.end(err)
		}
	}
	each(ws.all)
	for _, s := range ws.byName {
		each(s)
	}
	for _, s := range ws.byNamespace {
		each(s)
	}
	for _, values := range ws.byField {
		for _, s := range values {
			each(s)
		}
	}
}

// Watchers returns the number of watchers.
func (r *Resource) Watchers() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.watchers.count
}
