package fieldmanager

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/services/apiserver/internal/registry"
)

// maxCreations is how many creations each of the two generations remembers.
const maxCreations = 512

// creations remembers which fields a creation owns. That follows from the object alone, and most objects are created
// many times over, but for their names: the pods of a ReplicaSet. Comparing such an object with nothing, field by
// field, would be a quarter of what its creation costs.
type creations struct {
	mu           sync.Mutex
	young, older map[digest][]metav1.ManagedFieldsEntry
}

type digest [sha256.Size]byte

// encoder is what generated protobuf types have.
type encoder interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// digestOf covers everything of obj that its field tracking depends on. ok is false where it must be tracked in full: the
// object brings tracked fields of its own, or has no protobuf form.
func digestOf(obj registry.Object, manager, ignored string) (d digest, ok bool) {
	if len(obj.GetManagedFields()) > 0 {
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
	b := make([]byte, size, size+len(manager))
	if _, err := m.MarshalToSizedBuffer(b); err != nil {
		return d, false
	}
	return sha256.Sum256(append(b, manager...)), true
}

// get returns copies of what is remembered; the bytes in them are shared and not to be changed.
func (c *creations) get(d digest) ([]metav1.ManagedFieldsEntry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries, ok := c.young[d]
	if !ok {
		if entries, ok = c.older[d]; !ok {
			return nil, false
		}
		c.keep(d, entries)
	}
	return append([]metav1.ManagedFieldsEntry(nil), entries...), true
}

func (c *creations) put(d digest, entries []metav1.ManagedFieldsEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(d, append([]metav1.ManagedFieldsEntry(nil), entries...))
}

func (c *creations) keep(d digest, entries []metav1.ManagedFieldsEntry) {
	if c.young == nil || len(c.young) >= maxCreations {
		c.young, c.older = make(map[digest][]metav1.ManagedFieldsEntry), c.young
	}
	c.young[d] = entries
}

// Create records in obj, a new object of the storage version, that the manager made it.
func (m *Manager) Create(empty, obj registry.Object, manager string) {
	d, ok := digestOf(obj, manager, m.ignored)
	if !ok {
		m.Update(empty, obj, manager)
		return
	}
	if entries, ok := m.creations.get(d); ok {
		now := metav1.Now().Rfc3339Copy()
		now.Time = now.UTC()
		for i := range entries {
			entries[i].Time = &now
		}
		obj.SetManagedFields(entries)
		return
	}
	m.Update(empty, obj, manager)
	m.creations.put(d, obj.GetManagedFields())
}
