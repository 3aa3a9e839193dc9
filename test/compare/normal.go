package compare

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What no two servers can agree on, in any text.
var (
	uids     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	versions = regexp.MustCompile(`(resourceVersion\\*": ?\\*"|ResourceVersion in record \()\d+`)
	ages     = regexp.MustCompile(`^(\d{1,2}s|\d+y(\d+d)?)$`) // of what a case has made, and of fixed dates, which are older every day
	cell     = regexp.MustCompile(`(^|\.)cells\.\d+$`)
	managed  = regexp.MustCompile(`managedFields\\*": ?\[`)
	times    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
)

// own are the fields whose values are a server's own, and what stands for them.
var own = map[string]string{"uid": "UID", "resourceVersion": "REVISION", "continue": "CONTINUE", "clusterIP": "ADDRESS"}

// normal puts words for what differs between two servers that behave the same.
func normal(value any, names variables) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, field := range v {
			text, isText := field.(string)
			word, isOwn := own[key]
			switch {
			case isOwn && isText && text != "" && text != "0" && text != "None":
				out[key] = word
			case key == "clusterIPs":
				out[key] = "ADDRESSES"
			case key == "nodePort":
				out[key] = "PORT"
			case key == "cells" || strings.HasSuffix(key, ".cells"):
				out[key] = ageless(normal(field, names))
			case cell.MatchString(key) && isText && ages.MatchString(text):
				out[key] = "AGE"
			case strings.HasSuffix(key, "managedFields"):
				out[key] = ordered(normal(field, names))
			default:
				out[names.hide(key)] = normal(field, names)
			}
		}
		// The server chose the end of a generated name.
		if prefix, ok := out["generateName"].(string); ok {
			if name, ok := out["name"].(string); ok && strings.HasPrefix(name, prefix) {
				out["name"] = prefix + "RANDOM"
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = normal(item, names)
		}
		return out
	case string:
		text := times.ReplaceAllString(uids.ReplaceAllString(names.hide(v), "UID"), "TIME")
		return orderedText(versions.ReplaceAllString(text, "${1}REVISION"))
	default:
		return value
	}
}

// ordered puts managed fields into an order that does not depend on the second in which each was written, as theirs does.
func ordered(value any) any {
	entries, ok := value.([]any)
	if !ok {
		return value
	}
	key := func(entry any) string {
		fields, _ := entry.(map[string]any)
		return fmt.Sprint(fields["manager"], " ", fields["operation"], " ", fields["subresource"], " ", fields["apiVersion"])
	}
	slices.SortStableFunc(entries, func(a, b any) int { return strings.Compare(key(a), key(b)) })
	return entries
}

// orderedText does so with the objects in a text, such as the message that an object is wrong.
func orderedText(text string) string {
	for at := 0; ; {
		found := managed.FindStringIndex(text[at:])
		if found == nil {
			return text
		}
		at += found[1]
		entries, length := elements(text[at:])
		slices.Sort(entries)
		text = text[:at] + strings.Join(entries, ",") + text[at+length:]
		at += length
	}
}

// elements are those of an array whose text begins after its bracket, and how long they are together; none where the text ends before the array.
func elements(text string) (out []string, length int) {
	depth, begin := 0, 0
	for i, c := range []byte(text) {
		switch c {
		case '{', '[':
			depth++
		case '}':
			depth--
		case ']':
			if depth == 0 {
				return append(out, text[begin:i]), i
			}
			depth--
		case ',':
			if depth == 0 {
				out, begin = append(out, text[begin:i]), i+1
			}
		}
	}
	return nil, 0
}

// ageless hides how old a row's object is: a busy server shows it a second later.
func ageless(value any) any {
	cells, ok := value.([]any)
	if !ok {
		return value
	}
	for i, cell := range cells {
		if text, ok := cell.(string); ok && ages.MatchString(text) {
			cells[i] = "AGE"
		}
	}
	return cells
}

// lookup finds the value at a path such as items.0.metadata.name. A key with dots in it cannot be reached.
func lookup(value any, path string) (any, bool) {
	for part := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			field, found := v[part]
			if !found {
				return nil, false
			}
			value = field
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}

// pick leaves of a body what counts.
func pick(body any, only, without []string) any {
	for _, path := range without {
		remove(body, strings.Split(path, "."))
	}
	if len(only) == 0 {
		return body
	}
	out := map[string]any{}
	for _, path := range only {
		if value, found := lookup(body, path); found {
			out[path] = value
		}
	}
	return out
}

func remove(value any, path []string) {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			if path[0] != "*" && path[0] != key {
				continue
			}
			if len(path) == 1 {
				delete(v, key)
			} else {
				remove(field, path[1:])
			}
		}
	case []any:
		for i, item := range v {
			if len(path) > 1 && (path[0] == "*" || path[0] == strconv.Itoa(i)) {
				remove(item, path[1:])
			}
		}
	}
}
