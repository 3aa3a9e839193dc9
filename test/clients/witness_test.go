package clients

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// witness remembers what an informer or a watch told of every ConfigMap, and what was wrong with it.
type witness struct {
	name string
	// strict says that the events are those of a watch alone, which has to tell every single change.
	strict bool

	mu       sync.Mutex
	present  map[string]*corev1.ConfigMap
	newest   map[string]int64 // of each name, over all its lives
	events   int
	lists    int // how often it had to begin anew
	problems []string
	// Of a strict one: the versions and the ends of objects that were told since the last audit.
	versions map[int64]bool
	ended    map[types.UID]bool
}

func newWitness(name string, strict bool) *witness {
	return &witness{
		name: name, strict: strict, present: map[string]*corev1.ConfigMap{}, newest: map[string]int64{},
		versions: map[int64]bool{}, ended: map[types.UID]bool{},
	}
}

func (w *witness) wrong(format string, args ...any) {
	if len(w.problems) < 20 {
		w.problems = append(w.problems, fmt.Sprintf(format, args...))
	}
}

// begin starts a strict witness anew from a list.
func (w *witness) begin(items []corev1.ConfigMap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lists++; w.lists > 1 {
		w.wrong("it had to list again")
	}
	w.present = map[string]*corev1.ConfigMap{}
	for i := range items {
		m := &items[i]
		revision, err := strconv.ParseInt(m.ResourceVersion, 10, 64)
		if err != nil || revision < w.newest[m.Name] {
			w.wrong("the list has %s at %s, after %d (%v)", m.Name, m.ResourceVersion, w.newest[m.Name], err)
		}
		w.present[m.Name], w.newest[m.Name] = m, revision
		w.versions[revision] = true
	}
}

// take notes an event of a watch.
func (w *witness) take(e watch.Event) {
	switch e.Type {
	case watch.Added, watch.Modified:
		w.put(e.Object, e.Type == watch.Added)
	case watch.Deleted:
		w.gone(e.Object)
	case watch.Error:
		w.mu.Lock()
		w.wrong("the watch told %v", apierrors.FromObject(e.Object))
		w.mu.Unlock()
	}
}

// put notes an addition or a change: versions of an object must come in order, and none twice.
func (w *witness) put(obj any, added bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := obj.(*corev1.ConfigMap)
	revision, err := strconv.ParseInt(m.ResourceVersion, 10, 64)
	if err != nil {
		w.wrong("%s: %v", m.Name, err)
	}
	_, known := w.present[m.Name]
	switch {
	case added == known:
		w.wrong("%s at %d: added %v, known %v", m.Name, revision, added, known)
	case revision < w.newest[m.Name], revision == w.newest[m.Name] && (added || w.strict):
		// The same again is what client-go itself tells after a list.
		w.wrong("%s at %d comes after %d", m.Name, revision, w.newest[m.Name])
	}
	w.present[m.Name], w.newest[m.Name] = m, revision
	w.events++
	if w.strict {
		w.versions[revision] = true
	}
}

func (w *witness) gone(obj any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	late, isLate := obj.(cache.DeletedFinalStateUnknown)
	if isLate { // it went while the watch was cut
		obj = late.Obj
	}
	m := obj.(*corev1.ConfigMap)
	if known := w.present[m.Name]; known == nil || known.UID != m.UID && !isLate {
		w.wrong("%s (%s) was deleted and is not known", m.Name, m.UID)
	}
	delete(w.present, m.Name)
	w.events++
	if !w.strict {
		return
	}
	revision, err := strconv.ParseInt(m.ResourceVersion, 10, 64)
	if err != nil || revision <= w.newest[m.Name] {
		w.wrong("the deletion of %s at %s comes after %d (%v)", m.Name, m.ResourceVersion, w.newest[m.Name], err)
	}
	w.newest[m.Name] = revision
	if w.ended[m.UID] {
		w.wrong("%s (%s) was deleted twice", m.Name, m.UID)
	}
	w.ended[m.UID] = true
}

// relisted notes that an informer lists.
func (w *witness) relisted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists++
}

// begun is how often the witness has listed.
func (w *witness) begun() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lists
}

func (w *witness) names() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := map[string]string{}
	for name, m := range w.present {
		names[name] = m.ResourceVersion
	}
	return names
}

func (w *witness) told() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events
}

// lacks answers how much of what was acknowledged a strict witness has not been told, and an example.
func (w *witness) lacks(a acknowledged) (missing int, example string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, revision := range a.versions {
		if !w.versions[revision] {
			missing, example = missing+1, fmt.Sprint("the version ", revision)
		}
	}
	for _, uid := range a.ended {
		if !w.ended[uid] {
			missing, example = missing+1, fmt.Sprint("the end of ", uid)
		}
	}
	return missing, example
}

// forget drops what has been audited.
func (w *witness) forget(a acknowledged) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, revision := range a.versions {
		delete(w.versions, revision)
	}
}

func (w *witness) report(t *testing.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, problem := range w.problems {
		t.Errorf("%s: %s", w.name, problem)
	}
	t.Logf("%s: %d events of %d objects, %d lists", w.name, w.events, len(w.newest), w.lists)
}

// acknowledged are writes that the API has confirmed: the versions of objects, and the objects that were deleted.
type acknowledged struct {
	versions []int64
	ended    []types.UID
}

// ledger collects them.
type ledger struct {
	mu     sync.Mutex
	since  acknowledged
	writes int
	failed int
}

func (l *ledger) version(m *corev1.ConfigMap) {
	revision, err := strconv.ParseInt(m.ResourceVersion, 10, 64)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.since.versions = append(l.since.versions, revision)
		l.writes++
	}
}

func (l *ledger) end(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since.ended = append(l.since.ended, uid)
	l.writes++
}

func (l *ledger) failure() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed++
}

// audit checks that the strict witnesses are told all that has been acknowledged since the last audit.
func (l *ledger) audit(t *testing.T, witnesses []*witness) {
	t.Helper()
	l.mu.Lock()
	since := l.since
	l.since = acknowledged{}
	l.mu.Unlock()
	for _, w := range witnesses {
		if !w.strict {
			continue
		}
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			missing, example := w.lacks(since)
			if missing == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("%s lacks %d of %d writes that were acknowledged, like %s", w.name, missing, len(since.versions)+len(since.ended), example)
				break
			}
		}
		w.forget(since)
	}
}
