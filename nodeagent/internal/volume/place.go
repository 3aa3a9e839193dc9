package volume

import (
	"context"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"howdah.dev/nodeagent/internal/csi"
)

// Place is where a volume of a pod is, and how it is found out what it takes up. Exactly one of Folder, Disk, Device and Driver is there.
type Place struct {
	Name  string
	Claim string // that it stands for, "" without one
	// Scratch says that it lies on the node's own disk and goes with the pod.
	Scratch bool
	// Folder is to be counted; Disk is to be told by its file system; Device has nothing but a size; Driver is to be asked.
	Folder, Disk, Device string
	Driver               *csi.Want
}

// Places are those of a pod's volumes that can be measured: of folders of the node, and of images, nobody knows whose their files are. A claim of
// which it is not known what it stands for is left out.
func (m *Manager) Places(ctx context.Context, pod *corev1.Pod) []Place {
	var out []Place
	for _, v := range Used(pod) {
		place := Place{Name: v.Name}
		switch {
		case v.CSI != nil:
			place.Driver = m.inline(pod, v)
		case v.ISCSI != nil:
			place.Disk = iscsiDir(m.cfg.RootDir, pod.UID, v.Name)
		case v.PersistentVolumeClaim != nil:
			place.Claim = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			place.Claim = ephemeral.VolumeClaimName(pod, v)
		default:
			place.Folder = m.folder(pod, v)
			place.Scratch = v.ConfigMap != nil || v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault
		}
		if place.Claim != "" {
			b, err := m.resolve(ctx, pod, v)
			switch {
			case err != nil:
			case b.volume.Spec.CSI != nil:
				place.Driver = m.wanted(pod, v, b)
			case b.volume.Spec.Local != nil && block(b.volume):
				place.Device = m.localLink(pod, b.volume)
			case b.volume.Spec.Local != nil:
				place.Disk = m.localDir(pod, b.volume)
			case b.volume.Spec.ISCSI != nil && block(b.volume):
				place.Device = iscsiLink(m.cfg.RootDir, pod.UID, b.volume.Name)
			case b.volume.Spec.ISCSI != nil:
				place.Disk = iscsiDir(m.cfg.RootDir, pod.UID, b.volume.Name)
			}
		}
		if place.Folder != "" || place.Disk != "" || place.Device != "" || place.Driver != nil {
			out = append(out, place)
		}
	}
	return out
}

// Usage asks the place's driver what the volume takes up, and returns nothing where it does not tell.
func (m *Manager) Usage(ctx context.Context, place Place) ([]*csipb.VolumeUsage, error) {
	return m.cfg.Drivers.Usage(ctx, place.Driver)
}
