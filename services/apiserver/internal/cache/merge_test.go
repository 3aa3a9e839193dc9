package cache

import (
	"fmt"
	"slices"
	"testing"

	"howdah.dev/services/apiserver/internal/codec"
)

func TestMerge(t *testing.T) {
	t.Parallel()
	event := func(revision int64, kind EventType, key string, previous int64) *Event {
		e := &Event{Type: kind, Item: &codec.Item{Key: key, Revision: revision}, Revision: revision, Group: revision}
		if previous > 0 {
			e.Previous = &codec.Item{Key: key, Revision: previous}
		}
		return e
	}
	merged := Merge([]*Event{
		event(10, Added, "comes", 0),
		event(11, Modified, "changes", 3),
		event(12, Added, "comes and goes", 0),
		event(13, Modified, "once", 2),
		event(14, Deleted, "comes and goes", 12),
		event(15, Modified, "changes", 11),
		event(16, Modified, "goes", 4),
		event(17, Deleted, "comes again", 5),
		event(18, Modified, "comes", 10),
		event(19, Deleted, "goes", 16),
		event(20, Added, "comes again", 0),
	})
	var got []string
	for _, e := range merged {
		previous := int64(0)
		if e.Previous != nil {
			previous = e.Previous.Revision
		}
		got = append(got, fmt.Sprint(e.Revision, " ", e.Type, " ", e.Item.Key, " ", e.Item.Revision, " of ", previous))
	}
	if want := []string{
		"13 MODIFIED once 13 of 2", "15 MODIFIED changes 15 of 3", "18 ADDED comes 18 of 0", "19 DELETED goes 19 of 4", "20 MODIFIED comes again 20 of 5",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
