package fieldmanager

import (
	"crypto/sha256"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"howdah.dev/services/apiserver/internal/plain"
)

// Custom objects are trees, and so are the managed fields in them. Reading those into their Go type and writing them back would be a third of
// what an update costs; here they stay as they are, and the trees of what is remembered are shared. Nobody changes them.

// treeOutcome is an outcome of a custom object.
type treeOutcome struct {
	entries []map[string]any // without times
	times   []int
	size    int // in bytes, about
}

const (
	// treeBytes bounds the outcomes that are remembered, about; twice as much may be held.
	treeBytes = 16 << 20
	// treeFactor is how much more memory a tree takes than its JSON.
	treeFactor = 8
)

// treeQuestion is what the outcome of an update follows from.
type treeQuestion struct {
	before  []any
	seconds []int64
	digest  digest
}

// metadataOf returns the metadata of a custom object, which must not be shared if they are to be changed.
func metadataOf(u *unstructured.Unstructured) map[string]any {
	meta, _ := u.Object["metadata"].(map[string]any)
	return meta
}

// treesOf returns the managed fields of a custom object. ok is false where they are not of the form that they are written in.
func treesOf(u *unstructured.Unstructured) (entries []any, ok bool) {
	value, has := metadataOf(u)["managedFields"]
	if !has {
		return nil, true
	}
	entries, ok = value.([]any)
	return entries, ok
}

// updateTree is Update where the outcome for a custom object is remembered, or can be from now on.
func (m *Manager) updateTree(live, obj *unstructured.Unstructured, manager string) bool {
	q, ok := m.askTree(live, obj, manager)
	if !ok {
		return false
	}
	if known, ok := m.trees.Get(q.digest); ok {
		known.set(obj, q.before)
		return true
	}
	began := present().Unix()
	given := metadataOf(obj)["managedFields"]
	m.track(live, obj, manager)
	if present().Unix() == began { // else the entries might be in another order
		if o, ok := m.treeOutcome(live, obj, given, manager, q, began); ok {
			m.trees.Put(q.digest, o)
		}
	}
	return true
}

// askTree is ask for a custom object.
func (m *Manager) askTree(live, obj *unstructured.Unstructured, manager string) (q treeQuestion, ok bool) {
	if m.treeTypes == nil || metadataOf(obj) == nil {
		return q, false
	}
	if q.before, ok = treesOf(live); !ok || len(q.before) == 0 || len(q.before) > maxEntries {
		return q, false
	}
	if given, has := metadataOf(obj)["managedFields"]; has && m.subresource == "" && !plain.Equal(given, q.before) {
		return q, false
	}
	b := appendText(appendText(append(make([]byte, 0, 4096), 'u'), m.identity), manager)
	if b, q.seconds, ok = appendTrees(b, q.before, m.gvk.GroupVersion().String()); !ok {
		return q, false
	}
	c, err := m.compareTrees(live, obj)
	if err != nil {
		return q, false
	}
	q.digest, ok = withChanges(b, c)
	return q, ok
}

// appendTrees is appendEntries for trees; it also returns their times.
func appendTrees(b []byte, entries []any, version string) (out []byte, times []int64, ok bool) {
	for _, e := range entries {
		entry, ok := e.(map[string]any)
		if !ok || entry["apiVersion"] != version {
			return b, nil, false
		}
		second, ok := secondOf(entry["time"])
		if !ok {
			return b, nil, false
		}
		times = append(times, second)
		known := 1
		if _, timed := entry["time"]; timed {
			b, known = append(b, 't'), 2
		}
		for _, name := range []string{"manager", "operation", "subresource", "fieldsType"} {
			value, has := entry[name]
			text, is := value.(string)
			if has != is {
				return b, nil, false
			}
			if has {
				known++
			}
			b = appendText(b, text)
		}
		fields, is := entry["fieldsV1"].(map[string]any)
		if !is || known+1 != len(entry) {
			return b, nil, false
		}
		if b, ok = plain.Append(b, fields, false); !ok {
			return b, nil, false
		}
	}
	return appendRanks(b, append(slices.Clip(times), seconds(present()))), times, true
}

// secondOf reads a time of whole seconds. An entry has none whose applier has changed nothing so far.
func secondOf(value any) (int64, bool) {
	if value == nil {
		return 0, true
	}
	text, ok := value.(string)
	if !ok {
		return 0, false
	}
	t, err := time.Parse(time.RFC3339, text)
	return t.Unix(), err == nil && t.Nanosecond() == 0
}

// compareTrees is compare for custom objects: of what is equal nothing is compared.
func (m *Manager) compareTrees(live, obj *unstructured.Unstructured) (*typed.Comparison, error) {
	before, after := map[string]any{}, map[string]any{}
	apart(live.Object, obj.Object, before, after, func(name string) bool {
		switch name {
		case "metadata":
			return false
		case "status":
			return m.subresource == "status" || m.ignored == ""
		}
		return m.subresource != "status" || name != "spec"
	})
	if m.subresource != "status" {
		x, y := map[string]any{}, map[string]any{}
		apart(metadataOf(live), metadataOf(obj), x, y, func(name string) bool { return name != "managedFields" })
		before["metadata"], after["metadata"] = x, y
	}
	for _, tree := range []map[string]any{before, after} {
		tree["apiVersion"], tree["kind"] = m.gvk.GroupVersion().String(), m.gvk.Kind
	}
	from, err := m.treeTypes.ObjectToTyped(&unstructured.Unstructured{Object: before}, typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	to, err := m.treeTypes.ObjectToTyped(&unstructured.Unstructured{Object: after}, typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	return from.Compare(to)
}

// apart puts those of the named fields that differ into x and y, and of maps those fields that differ.
func apart(a, b, x, y map[string]any, named func(string) bool) {
	for name, value := range a {
		if !named(name) {
			continue
		}
		other, has := b[name]
		if !has {
			x[name] = value
			continue
		}
		if plain.Equal(value, other) {
			continue
		}
		from, ok1 := value.(map[string]any)
		to, ok2 := other.(map[string]any)
		if !ok1 || !ok2 {
			x[name], y[name] = value, other
			continue
		}
		p, q := map[string]any{}, map[string]any{}
		apart(from, to, p, q, everything)
		x[name], y[name] = p, q
	}
	for name, value := range b {
		if _, has := a[name]; !has && named(name) {
			y[name] = value
		}
	}
}

func everything(string) bool { return true }

// set records an outcome in an object that had those entries before.
func (o treeOutcome) set(obj *unstructured.Unstructured, before []any) {
	if len(o.entries) == 0 {
		delete(metadataOf(obj), "managedFields")
		return
	}
	metadataOf(obj)["managedFields"] = o.at(before)
}

// at returns the entries of an outcome for an object that had those before.
func (o treeOutcome) at(before []any) []any {
	entries := make([]any, len(o.entries))
	now := present().UTC().Format(time.RFC3339)
	for i, from := range o.times {
		entry := make(map[string]any, len(o.entries[i])+1)
		maps.Copy(entry, o.entries[i])
		if from == thisTime {
			entry["time"] = now
		} else if then, has := before[from].(map[string]any)["time"]; has {
			entry["time"] = then
		}
		entries[i] = entry
	}
	return entries
}

// treeOutcome reads out of what an update has made of obj where its entries have their times from. Where one before has the time of the
// update, the update is made again of entries of long ago.
func (m *Manager) treeOutcome(live, obj *unstructured.Unstructured, given any, manager string, q treeQuestion, now int64) (o treeOutcome, ok bool) {
	after, ok := treesOf(obj)
	if !ok {
		return o, false
	}
	before, timed := q.before, after
	if slices.ContainsFunc(q.seconds, func(t int64) bool { return t >= now }) {
		old, again := copied(live).(*unstructured.Unstructured), copied(obj).(*unstructured.Unstructured)
		before = longAgo(q.before, q.seconds)
		metadataOf(old)["managedFields"] = before
		delete(metadataOf(again), "managedFields")
		if given != nil {
			metadataOf(again)["managedFields"] = before
		}
		m.track(old, again, manager)
		if timed, ok = treesOf(again); !ok || len(timed) != len(after) {
			return o, false
		}
	}
	for _, e := range after {
		entry := maps.Clone(e.(map[string]any))
		delete(entry, "time")
		of, owners := sameTree(before, entry)
		same, twins := sameTree(timed, entry)
		if owners > 1 || twins != 1 {
			return o, false
		}
		from := thisTime
		if owners == 1 && same["time"] == of["time"] {
			from = slices.IndexFunc(before, func(b any) bool { return ownsTree(b, entry) })
		}
		o.entries, o.times = append(o.entries, entry), append(o.times, from)
		o.size += sizeOf(entry)
	}
	return o, true
}

// sizeOf is about how many bytes of memory an entry takes.
func sizeOf(entry map[string]any) int {
	b, _ := plain.Append(nil, entry, false)
	return treeFactor * len(b)
}

// sameTree returns the last entry of the same owner, and how many there are.
func sameTree(entries []any, like map[string]any) (found map[string]any, n int) {
	for _, e := range entries {
		if ownsTree(e, like) {
			found, n = e.(map[string]any), n+1
		}
	}
	return found, n
}

func ownsTree(e any, like map[string]any) bool {
	entry, _ := e.(map[string]any)
	for _, name := range []string{"manager", "operation", "apiVersion", "subresource"} {
		if entry[name] != like[name] {
			return false
		}
	}
	return true
}

// longAgo returns entries whose times are an hour earlier.
func longAgo(entries []any, seconds []int64) []any {
	out := make([]any, len(entries))
	for i := range entries {
		entry := maps.Clone(entries[i].(map[string]any))
		if entry["time"] == nil {
			out[i] = entry
			continue
		}
		entry["time"] = time.Unix(seconds[i], 0).Add(-time.Hour).UTC().Format(time.RFC3339)
		out[i] = entry
	}
	return out
}

// createTree is Create for custom objects. What a new one owns follows from which fields it has, and not from what is in them but for those
// of lists.
func (m *Manager) createTree(empty, obj *unstructured.Unstructured, manager string) bool {
	meta := metadataOf(obj)
	if meta == nil || meta["managedFields"] != nil {
		return false
	}
	b := appendText(appendText(append(make([]byte, 0, 4096), 'c'), m.identity), manager)
	content := obj.Object
	if m.ignored != "" {
		content = Without(obj, m.ignored).(*unstructured.Unstructured).Object
	}
	b, ok := appendOutline(b, content)
	if !ok {
		return false
	}
	d := digest(sha256.Sum256(b))
	known, ok := m.trees.Get(d)
	if !ok {
		m.track(empty, obj, manager)
		after, ok := treesOf(obj)
		if !ok {
			return true
		}
		for _, e := range after {
			entry := maps.Clone(e.(map[string]any))
			delete(entry, "time")
			known.entries, known.times = append(known.entries, entry), append(known.times, thisTime)
			known.size += sizeOf(entry)
		}
		m.trees.Put(d, known)
		return true
	}
	known.set(obj, nil)
	return true
}

// appendOutline appends which fields an object has, and what is in its lists.
func appendOutline(b []byte, value any) ([]byte, bool) {
	switch v := value.(type) {
	case nil:
		return append(b, 'n'), true
	case string:
		return append(b, 's'), true
	case bool:
		return append(b, 'b'), true
	case int64:
		return append(b, 'i'), true
	case float64:
		return append(b, 'f'), true
	case []any:
		return plain.Append(b, v, false)
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		b = append(b, '{')
		ok := true
		for _, name := range names {
			if b, ok = appendOutline(appendText(b, name), v[name]); !ok {
				return b, false
			}
		}
		return append(b, '}'), true
	}
	return b, false
}

// settleTree is Settle for custom objects.
func settleTree(live, obj *unstructured.Unstructured) {
	before, ok1 := treesOf(live)
	after, ok2 := treesOf(obj)
	if !ok1 || !ok2 || len(before) != len(after) || plain.Equal(before, after) {
		return
	}
	for i := range before {
		x, ok1 := before[i].(map[string]any)
		y, ok2 := after[i].(map[string]any)
		if !ok1 || !ok2 || len(x) != len(y) {
			return
		}
		for name, value := range x {
			if other, has := y[name]; !has || name != "time" && !plain.Equal(value, other) {
				return
			}
		}
	}
	a, b := Untracked(live).(*unstructured.Unstructured), Untracked(obj).(*unstructured.Unstructured)
	if plain.Equal(a.Object, b.Object) {
		metadataOf(obj)["managedFields"] = before
	}
}

// trees returns both objects where they are custom ones.
func trees(a, b metav1.Object) (x, y *unstructured.Unstructured, ok bool) {
	x, ok1 := a.(*unstructured.Unstructured)
	y, ok2 := b.(*unstructured.Unstructured)
	return x, y, ok1 && ok2
}
