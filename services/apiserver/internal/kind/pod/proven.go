package pod

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/recent"
)

// maxProven is how many specs, of largestTemplate bytes at most, are remembered to be right.
const maxProven = 128

// proven remembers what was found right: the pods of a template differ in nothing that is checked, so one check does for all.
type proven struct {
	seed    maphash.Seed
	right   recent.Map[uint64, []byte] // what was checked, by its hash
	buffers sync.Pool
}

func newProven() *proven {
	return &proven{
		seed: maphash.MakeSeed(), right: recent.Map[uint64, []byte]{Max: maxProven},
		buffers: sync.Pool{New: func() any { return new([]byte) }},
	}
}

// validate answers what validate does.
func (v *proven) validate(p *corev1.Pod) field.ErrorList {
	if dependsOnName(&p.Spec) {
		return validate(p)
	}
	buffer := v.buffers.Get().(*[]byte)
	defer v.buffers.Put(buffer)
	text, ok := checked(p, *buffer)
	if !ok {
		return validate(p)
	}
	*buffer = text[:0]
	key := maphash.Bytes(v.seed, text)
	if right, ok := v.right.Get(key); ok && bytes.Equal(right, text) {
		return nil
	}
	errs := validate(p)
	if len(errs) == 0 {
		v.right.Put(key, bytes.Clone(text))
	}
	return errs
}

// dependsOnName tells specs for which it matters what the pod is called: the claims of ephemeral volumes are.
func dependsOnName(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil })
}

// checked writes all that validate looks at into buffer, which may grow. ok is false where that is more than to be remembered.
func checked(p *corev1.Pod, buffer []byte) (text []byte, ok bool) {
	const length = 4 // of the spec, without which its end might be taken for a part of the annotations
	about := metav1.ObjectMeta{Annotations: p.Annotations}
	end := length + p.Spec.Size()
	whole := end + about.Size()
	if whole > largestTemplate {
		return nil, false
	}
	text = slices.Grow(buffer[:0], whole)[:whole]
	binary.LittleEndian.PutUint32(text, uint32(end))
	if _, err := p.Spec.MarshalToSizedBuffer(text[length:end]); err != nil {
		return nil, false
	}
	_, err := about.MarshalToSizedBuffer(text[end:])
	return text, err == nil
}
