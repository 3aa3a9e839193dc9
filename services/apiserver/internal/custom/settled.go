package custom

import (
	"time"

	"howdah.dev/services/apiserver/internal/plain"
)

// settled reports whether metadata are just as they would be after they went through their Go type: all known, of the right types, and none
// empty that is left out then. It is sure where it says so.
func settled(value any) bool {
	meta, ok := value.(map[string]any)
	if !ok || len(meta) == 0 {
		return false
	}
	if _, has := meta["creationTimestamp"]; !has {
		return false
	}
	for name, value := range meta {
		ok := false
		switch name {
		case "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion":
			ok = full(value)
		case "generation":
			n, is := value.(int64)
			ok = is && n != 0
		case "creationTimestamp", "deletionTimestamp":
			ok = instant(value)
		case "deletionGracePeriodSeconds":
			_, ok = value.(int64)
		case "labels", "annotations":
			ok = texts(value)
		case "finalizers":
			ok = each(value, func(item any) bool { _, is := item.(string); return is })
		case "ownerReferences":
			ok = each(value, owner)
		case "managedFields":
			ok = each(value, entry)
		}
		if !ok {
			return false
		}
	}
	return true
}

// full reports whether a value is a text that is not empty.
func full(value any) bool {
	s, ok := value.(string)
	return ok && s != ""
}

// instant reports whether a value is a time as metav1.Time writes it.
func instant(value any) bool {
	s, ok := value.(string)
	if !ok {
		return false
	}
	t, err := time.Parse(time.RFC3339, s)
	return err == nil && t.Nanosecond() == 0 && !t.IsZero() && t.UTC().Format(time.RFC3339) == s
}

func texts(value any) bool {
	m, ok := value.(map[string]any)
	for _, text := range m {
		if _, is := text.(string); !is {
			return false
		}
	}
	return ok && len(m) > 0
}

func each(value any, is func(any) bool) bool {
	items, ok := value.([]any)
	for i := range items {
		if !is(items[i]) {
			return false
		}
	}
	return ok && len(items) > 0
}

func owner(value any) bool {
	m, ok := value.(map[string]any)
	for name, value := range m {
		is := false
		switch name {
		case "apiVersion", "kind", "name", "uid":
			_, is = value.(string)
		case "controller", "blockOwnerDeletion":
			_, is = value.(bool)
		}
		if !is {
			return false
		}
	}
	for _, name := range []string{"apiVersion", "kind", "name", "uid"} {
		if _, has := m[name]; !has {
			return false
		}
	}
	return ok
}

func entry(value any) bool {
	m, ok := value.(map[string]any)
	if !ok || len(m) == 0 {
		return false
	}
	for name, value := range m {
		is := false
		switch name {
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			is = full(value)
		case "time":
			is = instant(value)
		case "fieldsV1":
			// What is in it is written and read as it is.
			fields, known := value.(map[string]any)
			is = known && plain.Equal(fields, fields)
		}
		if !is {
			return false
		}
	}
	return true
}
