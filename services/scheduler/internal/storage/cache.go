package storage

import (
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/scheduler/internal/table"
)

// Cache follows the storage of the cluster. What the scheduler has chosen counts from the moment of the choice: a volume or a claim is then
// assumed to be as it is to be, until the API shows it otherwise.
type Cache struct {
	mu      sync.Mutex
	now     View
	shared  *View // what View returned last, while it is the newest
	volumes assumptions[*corev1.PersistentVolume]
	claims  assumptions[*corev1.PersistentVolumeClaim]
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{volumes: assumptions[*corev1.PersistentVolume]{}, claims: assumptions[*corev1.PersistentVolumeClaim]{}}
}

// View returns the storage of now.
func (c *Cache) View() View {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shared == nil {
		v := c.now.clone()
		c.shared = &v
	}
	return *c.shared
}

// change changes the storage of now.
func (c *Cache) change(do func(v *View)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared = nil
	do(&c.now)
}

// SetVolume adds or replaces a persistent volume.
func (c *Cache) SetVolume(pv *corev1.PersistentVolume) {
	c.change(func(v *View) { v.setVolume(c.volumes.shown(pv.Name, pv)) })
}

// DeleteVolume removes a persistent volume.
func (c *Cache) DeleteVolume(name string) {
	c.change(func(v *View) {
		delete(c.volumes, name)
		v.deleteVolume(name)
	})
}

// SetClaim adds or replaces a claim.
func (c *Cache) SetClaim(claim *corev1.PersistentVolumeClaim) {
	k := table.Key(claim.Namespace, claim.Name)
	c.change(func(v *View) { v.claims.Set(k, c.claims.shown(k, claim)) })
}

// DeleteClaim removes a claim.
func (c *Cache) DeleteClaim(namespace, name string) {
	c.change(func(v *View) {
		delete(c.claims, table.Key(namespace, name))
		v.claims.Delete(table.Key(namespace, name))
	})
}

// SetClass adds or replaces a storage class.
func (c *Cache) SetClass(class *storagev1.StorageClass) {
	c.change(func(v *View) { v.classes.Set(class.Name, class) })
}

// DeleteClass removes a storage class.
func (c *Cache) DeleteClass(name string) { c.change(func(v *View) { v.classes.Delete(name) }) }

// SetCSINode adds or replaces what the CSI drivers say of a node.
func (c *Cache) SetCSINode(n *storagev1.CSINode) {
	c.change(func(v *View) { v.nodes.Set(n.Name, n) })
}

// DeleteCSINode removes what the CSI drivers say of a node.
func (c *Cache) DeleteCSINode(name string) { c.change(func(v *View) { v.nodes.Delete(name) }) }

// SetDriver adds or replaces a CSI driver.
func (c *Cache) SetDriver(d *storagev1.CSIDriver) {
	c.change(func(v *View) { v.drivers.Set(d.Name, d) })
}

// DeleteDriver removes a CSI driver.
func (c *Cache) DeleteDriver(name string) { c.change(func(v *View) { v.drivers.Delete(name) }) }

// SetCapacity adds or replaces a capacity, whose class never changes.
func (c *Cache) SetCapacity(s *storagev1.CSIStorageCapacity) {
	c.change(func(v *View) { v.capacities.Set(table.Part(s.StorageClassName, table.Key(s.Namespace, s.Name)), s) })
}

// DeleteCapacity removes a capacity.
func (c *Cache) DeleteCapacity(s *storagev1.CSIStorageCapacity) {
	c.change(func(v *View) { v.capacities.Delete(table.Part(s.StorageClassName, table.Key(s.Namespace, s.Name))) })
}

// SetAttachment adds or replaces an attachment, whose node never changes.
func (c *Cache) SetAttachment(a *storagev1.VolumeAttachment) {
	c.change(func(v *View) { v.attachments.Set(table.Part(a.Spec.NodeName, a.Name), a) })
}

// DeleteAttachment removes an attachment.
func (c *Cache) DeleteAttachment(a *storagev1.VolumeAttachment) {
	c.change(func(v *View) { v.attachments.Delete(table.Part(a.Spec.NodeName, a.Name)) })
}

// Assume has a choice count. It reports false, and nothing counts, where what was chosen is not as it was any more.
func (c *Cache) Assume(choice *Choice) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range choice.Bindings {
		if now := c.now.Volume(b.From.Name); now == nil || now.ResourceVersion != b.From.ResourceVersion || changedBy(now.PersistentVolume, b.From, b.Volume) {
			return false
		}
	}
	for _, p := range choice.Provisions {
		if now := c.now.Claim(p.From.Namespace, p.From.Name); now == nil || now.ResourceVersion != p.From.ResourceVersion || changedBy(now, p.From, p.Claim) {
			return false
		}
	}
	c.shared = nil
	for _, b := range choice.Bindings {
		if b.Volume != b.From {
			c.volumes[b.Volume.Name] = assumption[*corev1.PersistentVolume]{shown: b.From, assumed: b.Volume}
			c.now.setVolume(b.Volume)
		}
	}
	for _, p := range choice.Provisions {
		if p.Claim != p.From {
			k := table.Key(p.Claim.Namespace, p.Claim.Name)
			c.claims[k] = assumption[*corev1.PersistentVolumeClaim]{shown: p.From, assumed: p.Claim}
			c.now.claims.Set(k, p.Claim)
		}
	}
	return true
}

// changedBy reports whether an object that is to be changed from what it was is assumed to be otherwise already: its version says nothing of that.
func changedBy[T comparable](now, from, to T) bool { return from != to && now != from }

// WroteVolume has a volume that was assumed count as it was written, until the API shows it.
func (c *Cache) WroteVolume(assumed, written *corev1.PersistentVolume) {
	c.change(func(v *View) {
		if c.volumes.wrote(assumed.Name, assumed, written) {
			v.setVolume(written)
		}
	})
}

// WroteClaim has a claim that was assumed count as it was written, until the API shows it.
func (c *Cache) WroteClaim(assumed, written *corev1.PersistentVolumeClaim) {
	k := table.Key(assumed.Namespace, assumed.Name)
	c.change(func(v *View) {
		if c.claims.wrote(k, assumed, written) {
			v.claims.Set(k, written)
		}
	})
}

// Forget takes back what of a choice is not written.
func (c *Cache) Forget(choice *Choice) {
	c.change(func(v *View) {
		for _, b := range choice.Bindings {
			if shown, ok := c.volumes.forget(b.Volume.Name, b.Volume); ok {
				v.setVolume(shown)
			}
		}
		for _, p := range choice.Provisions {
			k := table.Key(p.Claim.Namespace, p.Claim.Name)
			if shown, ok := c.claims.forget(k, p.Claim); ok {
				v.claims.Set(k, shown)
			}
		}
	})
}

// assumptions are the objects that count otherwise than the API shows them, by their keys.
type assumptions[T versioned] map[string]assumption[T]

type versioned interface {
	comparable
	metav1.Object
}

type assumption[T versioned] struct {
	shown, assumed T
	written        bool
}

// shown returns how an object counts that the API shows now.
func (a assumptions[T]) shown(key string, object T) T {
	has, ok := a[key]
	if !ok {
		return object
	}
	is, was := revision(object), revision(has.assumed)
	if is > was || has.written && is == was || object.GetUID() != has.assumed.GetUID() {
		delete(a, key)
		return object
	}
	has.shown = object
	a[key] = has
	return has.assumed
}

// wrote replaces what was assumed by what was written of it. It reports false where something else counts by now.
func (a assumptions[T]) wrote(key string, assumed, written T) bool {
	has, ok := a[key]
	if !ok || has.assumed != assumed {
		return false
	}
	a[key] = assumption[T]{shown: has.shown, assumed: written, written: true}
	return true
}

// forget ends an assumption and returns what the API shows. What is written stays, as the API will show it.
func (a assumptions[T]) forget(key string, assumed T) (shown T, ok bool) {
	has, ok := a[key]
	if !ok || has.assumed != assumed {
		return shown, false
	}
	delete(a, key)
	return has.shown, true
}

// revision is an object's version as a number, which howdah's are.
func revision(object metav1.Object) int64 {
	n, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
