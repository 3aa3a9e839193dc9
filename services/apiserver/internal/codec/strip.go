package codec

import (
	"fmt"

	"howdah.dev/services/apiserver/internal/registry"
)

// DecodeWithout decodes a stored value of a kind without one field of it, which may be large. The field is named by the
// numbers, in protobuf, of those that lead to it; each holds a message.
func DecodeWithout(kind *registry.Kind, value []byte, path ...uint64) (registry.Object, error) {
	raw, err := bodyOf(value)
	if err != nil {
		return nil, fmt.Errorf("stored %s: %w", kind.GVK.Kind, err)
	}
	if raw, err = strip(raw, path); err != nil {
		return nil, fmt.Errorf("stored %s: %w", kind.GVK.Kind, err)
	}
	obj := kind.New()
	m, ok := obj.(message)
	if !ok {
		return nil, fmt.Errorf("stored %s: %w", kind.GVK.Kind, errNoProtobuf)
	}
	if err := m.Unmarshal(raw); err != nil {
		return nil, fmt.Errorf("stored %s: %w", kind.GVK.Kind, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(kind.GVK)
	return obj, nil
}

// strip copies a message without the field that the path leads to.
func strip(b []byte, path []uint64) ([]byte, error) {
	var out []byte
	for len(b) > 0 {
		tag, n := uvarint(b)
		if n <= 0 {
			return nil, errTruncated
		}
		size, err := fieldSize(b[n:], tag&7)
		if err != nil {
			return nil, err
		}
		field := b[:n+size]
		b = b[n+size:]
		if tag>>3 != path[0] || tag&7 != 2 {
			out = append(out, field...)
			continue
		}
		if len(path) == 1 {
			continue
		}
		length, m := uvarint(field[n:])
		inner, err := strip(field[n+m:n+m+int(length)], path[1:])
		if err != nil {
			return nil, err
		}
		out = append(appendVarint(appendVarint(out, tag), uint64(len(inner))), inner...)
	}
	return out, nil
}

// fieldSize is the size of a field's value at the front of b, with the length that goes before it where there is one.
func fieldSize(b []byte, wire uint64) (int, error) {
	size := 0
	switch wire {
	case 0:
		_, size = uvarint(b)
		if size <= 0 {
			return 0, errTruncated
		}
	case 1:
		size = 8
	case 2:
		length, n := uvarint(b)
		if n <= 0 || length > uint64(len(b)-n) {
			return 0, errTruncated
		}
		size = n + int(length)
	case 5:
		size = 4
	default:
		return 0, fmt.Errorf("wire type %d is not supported", wire)
	}
	if size > len(b) {
		return 0, errTruncated
	}
	return size, nil
}
