package pod

import (
	"bytes"
	"hash/maphash"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
)

// Field numbers of k8s.io/api/core/v1/generated.proto.
const (
	fieldSpec     = 2  // of Pod
	fieldNodeName = 10 // of PodSpec
)

// largestTemplate bounds what one template holds on to, in bytes.
const largestTemplate = 16 << 10

// template is an encoded spec without its node, which is what the pods of one template differ in, and a pod that has it.
type template struct {
	before, after []byte
	node          []byte
	pod           *corev1.Pod
}

// templateOf finds the spec in the encoded pod. ok is false where it has none, or one too large to be held on to.
func templateOf(pod []byte) (t template, ok bool) {
	start, end, spec := specOf(pod)
	if start == end {
		return template{}, false
	}
	return cut(spec), len(spec) <= largestTemplate
}

// specOf finds the encoded spec, and from where to where its field goes in the pod: nowhere where it has none, or more than one.
func specOf(pod []byte) (start, end int, spec []byte) {
	for at := 0; at < len(pod); {
		number, value, size := nextField(pod[at:])
		if size < 0 || number == fieldSpec && end > 0 {
			return 0, 0, nil
		}
		if number == fieldSpec {
			start, end, spec = at, at+size, value
		}
		at += size
	}
	return start, end, spec
}

// cut leaves the name of the node out of an encoded spec.
func cut(spec []byte) template {
	for at := 0; at < len(spec); {
		number, node, size := nextField(spec[at:])
		if size < 0 {
			break
		}
		if number == fieldNodeName {
			return template{before: spec[:at], after: spec[at+size:], node: node}
		}
		at += size
	}
	return template{before: spec}
}

// alone returns the template with bytes of its own: it is kept longer than the pod, which may be much larger.
func (t template) alone() template {
	t.before, t.after, t.node = bytes.Clone(t.before), bytes.Clone(t.after), nil
	return t
}

// nextField reads a field: its number, its value where that has a length, and how many bytes it takes; negative: it is no field.
func nextField(b []byte) (protowire.Number, []byte, int) {
	number, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return 0, nil, n
	}
	if kind == protowire.BytesType {
		value, m := protowire.ConsumeBytes(b[n:])
		if m < 0 {
			return 0, nil, m
		}
		return number, value, n + m
	}
	m := protowire.ConsumeFieldValue(number, kind, b[n:])
	if m < 0 {
		return 0, nil, m
	}
	return number, nil, n + m
}

// key is the same for templates that are the same, whether the pod has a node or not. Those of one key need not be the same.
func (t *template) key(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.Write(t.before) // never fails
	_, _ = h.Write(t.after)
	return h.Sum64()
}

// same compares what the keys stand for. A pod without a node is cut nowhere, so the parts may be cut at different places.
func (t *template) same(other *template) bool {
	if len(t.before) == len(other.before) {
		return bytes.Equal(t.before, other.before) && bytes.Equal(t.after, other.after)
	}
	if len(t.before)+len(t.after) != len(other.before)+len(other.after) {
		return false
	}
	if len(t.before) > len(other.before) {
		t, other = other, t
	}
	middle := len(other.before) - len(t.before)
	return bytes.Equal(t.before, other.before[:len(t.before)]) && bytes.Equal(t.after[:middle], other.before[len(t.before):]) &&
		bytes.Equal(t.after[middle:], other.after)
}
