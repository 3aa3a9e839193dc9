package storetest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"howdah.dev/services/apiserver/internal/store"
)

// checkDelivery checks one call of a tail's deliver after revision last: not empty, ordered, unique, without a gap, and ending with a group.
func checkDelivery(last int64, events []store.Event) error {
	if len(events) == 0 {
		return fmt.Errorf("empty delivery after %d", last)
	}
	for i, e := range events {
		if want := last + int64(i) + 1; e.Revision != want {
			return fmt.Errorf("revision %d delivered where %d was due", e.Revision, want)
		}
	}
	if !events[len(events)-1].Last {
		return fmt.Errorf("delivery ends inside a group, at revision %d", events[len(events)-1].Revision)
	}
	return nil
}

// Model is what the log says the state is: the oracle that reads are compared with.
type Model struct {
	Revision int64
	Entries  map[string]store.Entry
}

// NewModel begins with the empty state at a revision.
func NewModel(revision int64) *Model {
	return &Model{Revision: revision, Entries: map[string]store.Entry{}}
}

// Apply takes the next event in, and checks that it agrees with the state it claims to follow.
func (m *Model) Apply(e store.Event) error {
	if e.Revision != m.Revision+1 {
		return fmt.Errorf("revision %d follows %d", e.Revision, m.Revision)
	}
	m.Revision = e.Revision
	old, exists := m.Entries[e.Key]
	if old.Revision != e.PreviousRevision {
		return fmt.Errorf("revision %d of %s says it replaced %d, it replaced %d", e.Revision, e.Key, e.PreviousRevision, old.Revision)
	}
	create := old.CreateRevision
	if !exists {
		create = e.Revision
	}
	if e.CreateRevision != create {
		return fmt.Errorf("revision %d of %s says its life began at %d, it began at %d", e.Revision, e.Key, e.CreateRevision, create)
	}
	switch {
	case e.Type == store.Put:
		m.Entries[e.Key] = store.Entry{Key: e.Key, Value: e.Value, Revision: e.Revision, CreateRevision: create}
	case e.Type == store.Removed && exists && e.Value == nil:
		delete(m.Entries, e.Key)
	default:
		return fmt.Errorf("revision %d of %s: event type %d of a key that exists: %v", e.Revision, e.Key, e.Type, exists)
	}
	return nil
}

// Replay applies all events.
func (m *Model) Replay(events []store.Event) error {
	for _, e := range events {
		if err := m.Apply(e); err != nil {
			return err
		}
	}
	return nil
}

// Sorted answers the entries in key order.
func (m *Model) Sorted() []store.Entry {
	return slices.SortedFunc(maps.Values(m.Entries), func(a, b store.Entry) int { return bytes.Compare([]byte(a.Key), []byte(b.Key)) })
}

// SameEntries tells in which way two lists differ; empty when they do not.
func SameEntries(got, want []store.Entry) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d entries, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		if g.Key != w.Key || g.Revision != w.Revision || g.CreateRevision != w.CreateRevision || !bytes.Equal(g.Value, w.Value) {
			return fmt.Sprintf("entry %d is %s@%d/%d %q, want %s@%d/%d %q", i,
				g.Key, g.Revision, g.CreateRevision, g.Value, w.Key, w.Revision, w.CreateRevision, w.Value)
		}
	}
	return ""
}
