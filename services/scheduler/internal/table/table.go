// Package table has rows in the order of their keys, of which copies cost nothing: snapshots share what has not changed.
package table

import (
	"iter"

	"github.com/google/btree"
)

// Key is the key of an object in a namespace.
func Key(namespace, name string) string { return namespace + "/" + name }

// Part is the key of a row among those that are asked for together.
func Part(group, name string) string { return group + "\x00" + name }

// Table is rows in the order of their keys. To clone it costs nothing until one of the two is written to. The zero Table is empty.
type Table[T any] struct{ rows *btree.BTreeG[row[T]] }

type row[T any] struct {
	key   string
	value T
}

// degree is that of the trees: rows are small, and read more often than written.
const degree = 32

// Get returns the value of a key, the zero one where there is none.
func (t *Table[T]) Get(key string) (value T) {
	if t.rows == nil {
		return value
	}
	r, _ := t.rows.Get(row[T]{key: key})
	return r.value
}

// Set adds or replaces a row.
func (t *Table[T]) Set(key string, value T) {
	if t.rows == nil {
		t.rows = btree.NewG(degree, func(a, b row[T]) bool { return a.key < b.key })
	}
	t.rows.ReplaceOrInsert(row[T]{key, value})
}

// Delete removes a row, if it is there.
func (t *Table[T]) Delete(key string) {
	if t.rows != nil {
		t.rows.Delete(row[T]{key: key})
	}
}

// All returns the values in the order of their keys.
func (t *Table[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		if t.rows != nil {
			t.rows.Ascend(func(r row[T]) bool { return yield(r.value) })
		}
	}
}

// Under returns the values of the keys that Part made of a group.
func (t *Table[T]) Under(group string) iter.Seq[T] {
	return func(yield func(T) bool) {
		if t.rows == nil {
			return
		}
		t.rows.AscendRange(row[T]{key: Part(group, "")}, row[T]{key: group + "\x01"}, func(r row[T]) bool { return yield(r.value) })
	}
}

// Clone returns a table that later changes of this one do not reach, nor the other way round.
func (t *Table[T]) Clone() Table[T] {
	if t.rows == nil {
		return Table[T]{}
	}
	return Table[T]{t.rows.Clone()}
}
