package cache

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/selection"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// indexes find the items of a kind by the values of some of their fields. One is made when a list asks for it first, and kept up from then on.
type indexes map[string]index

// index has the items of each value, by their keys.
type index map[string]map[string]*codec.Item

// indexed returns the field and the value that a query asks for by equality and the kind has an index of; an empty field is none.
func (q Query) indexed(kind *registry.Kind) (field, value string) {
	if len(kind.Indexed) == 0 || q.Field == nil {
		return "", ""
	}
	for _, r := range q.Field.Requirements() {
		if r.Operator != selection.NotEquals && slices.Contains(kind.Indexed, r.Field) {
			return r.Field, r.Value
		}
	}
	return "", ""
}

func (all indexes) change(before, after *codec.Item) {
	for field, index := range all {
		if before != nil {
			index.remove(field, before)
		}
		if after != nil {
			index.add(field, after)
		}
	}
}

func (x index) add(field string, i *codec.Item) {
	value := i.Field(field)
	if x[value] == nil {
		x[strings.Clone(value)] = map[string]*codec.Item{} // else it would keep the object's bytes alive
	}
	x[value][i.Key] = i
}

func (x index) remove(field string, i *codec.Item) {
	value := i.Field(field)
	if delete(x[value], i.Key); len(x[value]) == 0 {
		delete(x, value)
	}
}

// prepare makes the index that a query needs, where it is not there.
func (r *Resource) prepare(q Query) {
	field, _ := q.indexed(r.kind)
	if field == "" {
		return
	}
	r.mu.RLock()
	there := r.indexes[field] != nil
	r.mu.RUnlock()
	if there {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.indexes[field] != nil {
		return
	}
	made := index{}
	for _, i := range r.items {
		made.add(field, i)
	}
	if r.indexes == nil {
		r.indexes = indexes{}
	}
	r.indexes[field] = made
}

// find answers a query from the newest state; the caller holds the lock.
func (r *Resource) find(q Query) Page {
	if field, value := q.indexed(r.kind); r.indexes[field] != nil {
		page := pick(r.indexes[field][value], q)
		page.index = field
		return page
	}
	return scan(r.sorted, r.kind, q)
}

// pick answers a query from items among which all are that it selects.
func pick(items map[string]*codec.Item, q Query) Page {
	page, marks := Page{looked: len(items)}, codec.MarksOf(q.Label)
	for _, i := range items {
		if (q.Namespace == "" || i.Namespace == q.Namespace) && i.Key > q.After && q.selects(i, marks) {
			page.Items = append(page.Items, i)
		}
	}
	slices.SortFunc(page.Items, func(a, b *codec.Item) int { return cmp.Compare(a.Key, b.Key) })
	if q.Limit > 0 && int64(len(page.Items)) > q.Limit {
		page.Items = page.Items[:q.Limit:q.Limit]
		page.Next, page.Remaining = page.Items[q.Limit-1].Key, -1
	}
	return page
}

// selects reports whether an item of the namespace is selected.
func (q Query) selects(i *codec.Item, marks codec.LabelMarks) bool {
	return i.MayHave(marks) && (q.Name == "" || i.Name == q.Name) && i.Matches(q.Label, q.Field)
}
