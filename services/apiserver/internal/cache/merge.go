package cache

// Merge returns events, oldest first, as one of each object: what has become of it from its first event to its last, at the place of the
// last. Nothing is left of an object that came and went.
func Merge(events []*Event) []*Event {
	first, last := make(map[string]*Event, len(events)), make(map[string]*Event, len(events))
	for _, e := range events {
		if first[e.Item.Key] == nil {
			first[e.Item.Key] = e
		}
		last[e.Item.Key] = e
	}
	merged := make([]*Event, 0, len(last))
	for _, e := range events {
		if last[e.Item.Key] != e {
			continue
		}
		if one := first[e.Item.Key].to(e); one != nil {
			merged = append(merged, one)
		}
	}
	return merged
}

// to is the event that stands for e, a later one of the same object, and all between them; nil where nothing has changed by them.
func (e *Event) to(last *Event) *Event {
	if e == last {
		return e
	}
	one := *last
	one.Previous = e.Previous
	switch {
	case last.Type == Deleted && e.Previous == nil:
		return nil
	case last.Type == Deleted:
	case e.Previous == nil:
		one.Type = Added
	default:
		one.Type = Modified
	}
	return &one
}
