package plain

// Equal reports whether two trees are the same, value by value. What Decode does not make equals nothing; a map or a list that is nil is
// not an empty one.
func Equal(a, b any) bool {
	switch x := a.(type) {
	case nil:
		return b == nil
	case string:
		y, ok := b.(string)
		return ok && x == y
	case bool:
		y, ok := b.(bool)
		return ok && x == y
	case int64:
		y, ok := b.(int64)
		return ok && x == y
	case float64:
		y, ok := b.(float64)
		return ok && x == y
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && equalMaps(x, y)
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) || (x == nil) != (y == nil) {
			return false
		}
		for i := range x {
			if !Equal(x[i], y[i]) {
				return false
			}
		}
		return true
	}
	return false
}

func equalMaps(x, y map[string]any) bool {
	if len(x) != len(y) || (x == nil) != (y == nil) {
		return false
	}
	for name, value := range x {
		if other, has := y[name]; !has || !Equal(value, other) {
			return false
		}
	}
	return true
}
