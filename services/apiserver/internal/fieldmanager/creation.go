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

// bare returns a copy of an object without what nobody owns of a new one. It is nil where the object must be tracked in full: it brings
// tracked fields of its own, or has what its protobuf form does not tell from nothing.
func (m *Manager) bare(obj registry.Object) registry.Object {
	if len(obj.GetManagedFields()) > 0 || hollow.In(obj) {
		return nil
	}
	bare := Without(obj, m.ignored)
	if bare == obj {
		if bare = copied(obj); bare == nil {
			return nil
		}
	}
	bare.SetName("")
	bare.SetNamespace("")
	bare.SetUID("")
	bare.SetCreationTimestamp(metav1.Time{})
	return bare
}

// digestOf covers everything of a bare object. ok is false where it has no protobuf form.
func digestOf(bare registry.Object, manager string) (d digest, ok bool) {
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
// Which fields a creation owns follows from which it has, and most objects are created many times over, but for their names: the pods of a
// ReplicaSet. Comparing such an object with nothing, field by field, would be a quarter of what its creation costs, so the outcome is
// remembered: under a digest of the object but for its name, which is soon made, and under one of its outline, for those that differ in more.
func (m *Manager) Create(empty, obj registry.Object, manager string) {
	if a, b, ok := trees(empty, obj); ok && m.createTree(a, b, manager) {
		return
	}
	bare := m.bare(obj)
	if bare == nil {
		m.Update(empty, obj, manager)
		return
	}
	d, ok := digestOf(bare, manager)
	if !ok {
		m.Update(empty, obj, manager)
		return
	}
	if known, ok := m.creations.Get(d); ok {
		obj.SetManagedFields(from(known))
		return
	}
	outline, ok := outlineOf(bare, manager)
	known, found := m.creations.Get(outline)
	if ok && found {
		m.creations.Put(d, known)
		obj.SetManagedFields(from(known))
		return
	}
	m.Update(empty, obj, manager)
	made := slices.Clone(obj.GetManagedFields())
	m.creations.Put(d, made)
	if ok {
		m.creations.Put(outline, made)
	}
}

// from returns remembered entries as they are made now.
func from(known []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	entries := slices.Clone(known)
	now := present()
	for i := range entries {
		entries[i].Time = now
	}
	return entries
}
