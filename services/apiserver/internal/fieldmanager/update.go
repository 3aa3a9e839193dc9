package fieldmanager

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"howdah.dev/services/apiserver/internal/registry"
)

// maxEntries is how many entries an object may have whose update is remembered. With more, those of the oldest updates may be
// merged, which depends on more than what a question has in it.
const maxEntries = 9

// outcome is what an update makes of the managed fields: entries without times, and of which entry before each has its time.
type outcome struct {
	entries []metav1.ManagedFieldsEntry
	times   []int
}

const (
	// thisTime is the index of an entry whose time is that of the update.
	thisTime = -1
	// noTime is the index of an entry without a time.
	noTime = -2
)

// Update records in obj that the manager made it of live; both are of the storage version. The entry of a manager that changes a
// field has the time of the write, also where it owned that field before; the others keep theirs.
//
// Who owns what afterwards follows from who did before and from which fields differ, whatever is in them, and most updates are
// like others before: the reports of nodes on their pods. Reading the sets of fields, holding them against the schema and writing
// them would be half of what a status patch costs, so the outcome is remembered.
func (m *Manager) Update(live, obj registry.Object, manager string) {
	if a, b, ok := trees(live, obj); ok {
		if !m.updateTree(a, b, manager) {
			m.track(live, obj, manager)
		}
		return
	}
	q, ok := m.ask(live, obj, manager)
	if !ok {
		m.track(live, obj, manager)
		return
	}
	before := live.GetManagedFields()
	if known, ok := m.updates.Get(q.digest); ok {
		m.repeats.hit(q.owners)
		obj.SetManagedFields(known.at(before, present()))
		return
	}
	m.repeats.miss(q.owners)
	given := obj.GetManagedFields()
	m.track(live, obj, manager)
	after := obj.GetManagedFields()
	if len(after) == 0 { // as of an object that has items without keys, which others have not
		return
	}
	if o, ok := outcomeOf(before, given, after); ok {
		m.updates.Put(q.digest, o)
	}
}

// question is what the outcome of an update follows from.
type question struct {
	digest digest
	owners digest // of who owned what before
}

// ask returns the question that an update is. ok is false for one that is not remembered: of a custom object, through a version
// that is not the stored one, over entries of several versions, or where the client has a say in the entries.
func (m *Manager) ask(live, obj registry.Object, manager string) (q question, ok bool) {
	before := live.GetManagedFields()
	if m.types == nil || len(before) == 0 || len(before) > maxEntries || fractional(before) || fractional(obj.GetManagedFields()) {
		return q, false
	}
	if given := obj.GetManagedFields(); m.subresource == "" && given != nil && !sameEntries(given, before) {
		return q, false
	}
	b := make([]byte, 0, 4096)
	b = appendText(b, manager)
	if b, ok = appendEntries(b, before, m.gvk.GroupVersion().String()); !ok {
		return q, false
	}
	q.owners = sha256.Sum256(b)
	if !m.repeats.likely(q.owners) {
		return q, false
	}
	was, is := m.owned(live, obj)
	if changes, ok := m.appendChanges(append(append(b[:0], q.owners[:]...), 's'), was, is); ok {
		q.digest = sha256.Sum256(changes)
		return q, true
	}
	shrink(was, is)
	c, err := m.compare(was, is)
	if err != nil {
		return q, false
	}
	q.digest, ok = withChanges(append(append(b[:0], q.owners[:]...), 'f'), c)
	return q, ok
}

// withChanges returns the digest of what is asked about in b, and of the fields that an update adds, changes and removes.
func withChanges(b []byte, c *typed.Comparison) (digest, bool) {
	for _, set := range []*fieldpath.Set{c.Added, c.Modified, c.Removed} {
		fields, err := set.ToJSON()
		if err != nil {
			return digest{}, false
		}
		b = appendText(b, string(fields))
	}
	return sha256.Sum256(b), true
}

// owned returns shallow copies of two objects without what the manager does not own: managed fields, and the field that its writes leave alone.
func (m *Manager) owned(live, obj registry.Object) (before, after registry.Object) {
	before, after = Untracked(live), Untracked(obj)
	if before != live && after != obj {
		x, y := reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem()
		if ignored := x.FieldByName(m.ignored); m.ignored != "" && ignored.IsValid() && x.Type() == y.Type() {
			ignored.SetZero()
			y.FieldByName(m.ignored).SetZero()
		}
	}
	return before, after
}

// shrink empties most of what is equal in two such copies.
func shrink(before, after registry.Object) {
	x, y := reflect.ValueOf(before), reflect.ValueOf(after)
	if x.Kind() == reflect.Pointer && x.Elem().Kind() == reflect.Struct && x.Type() == y.Type() {
		level(x.Elem(), y.Elem(), 0)
	}
}

// compare returns which fields differ.
func (m *Manager) compare(before, after registry.Object) (*typed.Comparison, error) {
	from, err := m.types.ObjectToTyped(before, typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	to, err := m.types.ObjectToTyped(after, typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	return from.Compare(to)
}

// levels is how deep level goes: into the metadata, the spec and the status.
const levels = 2

// level empties the fields of two structs of the same type that are equal, but for their kind: comparing nothing costs less.
func level(a, b reflect.Value, depth int) {
	if a.Type() != b.Type() {
		return
	}
	for i := range a.NumField() {
		x, y := a.Field(i), b.Field(i)
		switch {
		case !x.CanSet() || x.Type() == typeMeta:
		case equalFields(x, y):
			x.SetZero()
			y.SetZero()
		case x.Kind() == reflect.Struct && depth+1 < levels:
			if _, whole := x.Addr().Interface().(json.Marshaler); !whole { // as a time, whose parts are no fields
				level(x, y, depth+1)
			}
		}
	}
}

// equalFields compares two fields. Structs are not copied for it.
func equalFields(x, y reflect.Value) bool {
	if x.Kind() == reflect.Struct {
		return reflect.DeepEqual(x.Addr().Interface(), y.Addr().Interface())
	}
	return reflect.DeepEqual(x.Interface(), y.Interface())
}

var typeMeta = reflect.TypeFor[metav1.TypeMeta]()

// at returns the entries of an outcome for an object that had those before, of a write that is made now.
func (o outcome) at(before []metav1.ManagedFieldsEntry, now *metav1.Time) []metav1.ManagedFieldsEntry {
	entries := slices.Clone(o.entries)
	for i, from := range o.times {
		switch from {
		case noTime:
		case thisTime:
			entries[i].Time = now
		default:
			entries[i].Time = before[from].Time
		}
	}
	return entries
}

// outcomeOf reads out of the entries after an update, which began with those before and those given, where their times come from.
// ok is false where that is not clear.
func outcomeOf(before, given, after []metav1.ManagedFieldsEntry) (o outcome, ok bool) {
	o.entries, o.times = slices.Clone(after), make([]int, len(after))
	for i := range after {
		o.entries[i].Time = nil
		o.times[i] = thisTime
		owners := 0
		for j := range before {
			if !sameOwner(&after[i], &before[j]) {
				continue
			}
			if owners++; owners > 1 {
				return o, false
			}
			if after[i].Time == before[j].Time || len(given) == len(before) && after[i].Time == given[j].Time {
				o.times[i] = j
			}
		}
	}
	return o, true
}

func sameOwner(a, b *metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.APIVersion == b.APIVersion && a.Subresource == b.Subresource
}

// sameEntries reports whether the entries are equal, with their times, in seconds, and in their order.
func sameEntries(a, b []metav1.ManagedFieldsEntry) bool {
	return slices.EqualFunc(a, b, func(x, y metav1.ManagedFieldsEntry) bool {
		return x.FieldsType == y.FieldsType && sameEntry(&x, &y) && (x.Time == nil) == (y.Time == nil) && seconds(x.Time) == seconds(y.Time)
	})
}

// appendEntries appends entries that are all of one version, and the order in time that they and the present are in: it decides
// about the order of entries.
func appendEntries(b []byte, entries []metav1.ManagedFieldsEntry, version string) ([]byte, bool) {
	times := make([]int64, 0, maxEntries+1)
	for i := range entries {
		e := &entries[i]
		if e.APIVersion != version {
			return b, false
		}
		b = appendText(appendText(appendText(appendText(b, e.Manager), string(e.Operation)), e.Subresource), e.FieldsType)
		if e.FieldsV1 == nil {
			b = append(b, 0)
		} else {
			b = appendText(append(b, 1), string(e.FieldsV1.Raw))
		}
		times = append(times, seconds(e.Time))
	}
	return appendRanks(b, append(times, seconds(present()))), true
}

// appendRanks appends how many of the times are earlier than each.
func appendRanks(b []byte, times []int64) []byte {
	for _, t := range times {
		earlier := byte(0)
		for _, other := range times {
			if other < t {
				earlier++
			}
		}
		b = append(b, earlier)
	}
	return b
}

// fractional reports whether a time is none of whole seconds: it is rounded, and so not known again.
func fractional(entries []metav1.ManagedFieldsEntry) bool {
	return slices.ContainsFunc(entries, func(e metav1.ManagedFieldsEntry) bool { return e.Time != nil && e.Time.Nanosecond() != 0 })
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func seconds(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}

// present is the time that the entries of a write made now have.
func present() *metav1.Time {
	return &metav1.Time{Time: time.Now().UTC().Truncate(time.Second)}
}

// repeats learns whether updates repeat of objects whose fields have the same owners: those that set what only one object has, as
// its address, do not, and asking about them would be in vain.
type repeats struct {
	mu     sync.Mutex
	misses map[digest]int // in a row
}

const (
	// patience is how many updates in a row may be new until most are not asked about any more; one in patience then is.
	patience = 16
	// maxMisses bounds what is remembered.
	maxMisses = 1024
)

func (r *repeats) likely(owners digest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.misses[owners]
	if n < patience {
		return true
	}
	r.misses[owners] = n + 1
	return n%patience == 0
}

func (r *repeats) hit(owners digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.misses, owners)
}

func (r *repeats) miss(owners digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.misses == nil || len(r.misses) >= maxMisses {
		r.misses = map[digest]int{}
	}
	r.misses[owners]++
}
