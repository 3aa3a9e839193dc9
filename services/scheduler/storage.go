package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"howdah.dev/kit/object"
	"howdah.dev/services/scheduler/internal/queue"
	"howdah.dev/services/scheduler/internal/storage"
)

// follow keeps the cache true to the cluster's storage, and wakes pods with claims where a change may let one in.
func (s *Server) follow() {
	slim := object.Option{Slim: dropManagedFields}
	object.InformerFor(s.informers, object.PersistentVolumeClaim, slim).AddHandler(handled(s, "PersistentVolumeClaim", s.claimChanged))
	object.InformerFor(s.informers, object.PersistentVolume, slim).AddHandler(handled(s, "PersistentVolume", s.volumeChanged))
	object.InformerFor(s.informers, object.StorageClass, slim).AddHandler(handled(s, "storage.k8s.io/StorageClass", s.classChanged))
	object.InformerFor(s.informers, object.CSINode, slim).AddHandler(handled(s, "storage.k8s.io/CSINode", s.csiNodeChanged))
	object.InformerFor(s.informers, object.CSIDriver, slim).AddHandler(handled(s, "storage.k8s.io/CSIDriver", s.driverChanged))
	object.InformerFor(s.informers, object.CSIStorageCapacity, slim).AddHandler(handled(s, "storage.k8s.io/CSIStorageCapacity", s.capacityChanged))
	object.InformerFor(s.informers, object.VolumeAttachment, slim).AddHandler(handled(s, "storage.k8s.io/VolumeAttachment", s.attachmentChanged))
}

// wakeClaiming wakes all pods with claims of volumes.
func (s *Server) wakeClaiming(event queue.Event) { s.queue.WakeClaiming(event, storage.UsesClaims) }

func (s *Server) claimChanged(event queue.Event, old, claim *corev1.PersistentVolumeClaim) {
	defer s.volumes.poke()
	if claim == nil {
		s.cache.Storage.DeleteClaim(old.Namespace, old.Name)
		return
	}
	s.cache.Storage.SetClaim(claim)
	s.queue.WakeClaiming(event, func(pod *corev1.Pod) bool {
		return pod.Namespace == claim.Namespace &&
			slices.ContainsFunc(storage.Uses(pod), func(u storage.Use) bool { return u.Claim == claim.Name })
	})
}

func (s *Server) volumeChanged(event queue.Event, old, pv *corev1.PersistentVolume) {
	defer s.volumes.poke()
	if pv == nil {
		s.cache.Storage.DeleteVolume(old.Name)
		return
	}
	s.cache.Storage.SetVolume(pv)
	s.wakeClaiming(event)
}

func (s *Server) classChanged(event queue.Event, old, class *storagev1.StorageClass) {
	if class == nil {
		s.cache.Storage.DeleteClass(old.Name)
		return
	}
	s.cache.Storage.SetClass(class)
	if old == nil || !equality.Semantic.DeepEqual(old.AllowedTopologies, class.AllowedTopologies) {
		s.wakeClaiming(event)
	}
}

func (s *Server) csiNodeChanged(event queue.Event, old, node *storagev1.CSINode) {
	if node == nil {
		s.cache.Storage.DeleteCSINode(old.Name)
		s.wakeClaiming(event) // there is no limit any more
		return
	}
	s.cache.Storage.SetCSINode(node)
	if old == nil || !equality.Semantic.DeepEqual(old.Spec, node.Spec) {
		s.wakeClaiming(event)
	}
}

func (s *Server) driverChanged(event queue.Event, old, driver *storagev1.CSIDriver) {
	if driver == nil {
		s.cache.Storage.DeleteDriver(old.Name)
		s.wakeClaiming(event) // nobody counts its capacity any more
		return
	}
	s.cache.Storage.SetDriver(driver)
	if old != nil && !equality.Semantic.DeepEqual(old.Spec.StorageCapacity, driver.Spec.StorageCapacity) {
		s.wakeClaiming(event)
	}
}

func (s *Server) capacityChanged(event queue.Event, old, c *storagev1.CSIStorageCapacity) {
	if c == nil {
		s.cache.Storage.DeleteCapacity(old)
		return
	}
	s.cache.Storage.SetCapacity(c)
	limit := storage.Limit(c)
	if old == nil || limit != nil && (storage.Limit(old) == nil || limit.Cmp(*storage.Limit(old)) > 0) {
		s.wakeClaiming(event)
	}
}

func (s *Server) attachmentChanged(event queue.Event, old, a *storagev1.VolumeAttachment) {
	if a == nil {
		s.cache.Storage.DeleteAttachment(old)
		s.wakeClaiming(event)
		return
	}
	s.cache.Storage.SetAttachment(a)
}
