package fieldmanager

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/services/apiserver/internal/hollow"
	"howdah.dev/services/apiserver/internal/registry"
)

// encoder is what generated protobuf types have.
type encoder interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// digestOf covers everything of obj that its field tracking depends on. ok is false where it must be tracked in full: the
// object brings tracked fields of its own, has no protobuf form, or has what that form does not tell from nothing.
func digestOf(obj registry.Object, manager, ignored string) (d digest, ok bool) {
	if len(obj.GetManagedFields()) > 0 || hollow.In(obj) {
		return d, false
	}
	bare := Without(obj, ignored)
	if bare == obj {
		if bare = copied(obj); bare == nil {
			return d, false
		}
	}
	// Nobody owns these fields.
	bare.SetName("")
	bare.SetNamespace("")
	bare.SetUID("")
	bare.SetCreationTimestamp(metav1.Time{})
	if u, custom := bare.(*unstructured.Unstructured); custom {
		b, err := json.Marshal(u.Object)
		if err != nil {
			return d, false
		}
		return sha256.Sum256(append(b, manager...)), true
	}
	m, ok := bare.(encoder)
	if !ok {
		return d, false
	}
	size := m.Size()
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	*buffer = slices.Grow((*buffer)[:0], size+len(manager))[:size]
	if _, err := m.MarshalToSizedBuffer(*buffer); err != nil {
		return d, false
	}
	return sha256.Sum256(append(*buffer, manager...)), true
}

// buffers hold what is only digested.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Create records in obj, a new object of the storage version, that the manager made it.
//
// Which fields a creation owns follows from the object alone, and most objects are created many times over, but for their names:
// the pods of a ReplicaSet. Comparing such an object with nothing, field by field, would be a quarter of what its creation costs,
// so the outcome is remembered.
func (m *Manager) Create(empty, obj registry.Object, manager string) {
	if a, b, ok := trees(empty, obj); ok && m.createTree(a, b, manager) {
		return
	}
	d, ok := digestOf(obj, manager, m.ignored)
	if !ok {
		m.Update(empty, obj, manager)
		return
	}
	if known, ok := m.creations.Get(d); ok {
		entries := slices.Clone(known)
		now := present()
		for i := range entries {
			entries[i].Time = now
		}
		obj.SetManagedFields(entries)
		return
	}
	m.Update(empty, obj, manager)
	m.creations.Put(d, slices.Clone(obj.GetManagedFields()))
}
