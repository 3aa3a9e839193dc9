package container

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/nodeagent/internal/pod"
)

// mounts returns a container's mounts: its volumes, /etc/hosts, and the file
// for its termination message.
func (b *Builder) mounts(run Run, look func(string) (string, bool)) ([]*runtimeapi.Mount, error) {
	c := run.Container
	var out []*runtimeapi.Mount
	ownHosts := false
	for i := range c.VolumeMounts {
		m, err := b.mount(run, &c.VolumeMounts[i], look)
		if err != nil {
			return nil, err
		}
		ownHosts = ownHosts || filepath.Clean(m.GetContainerPath()) == "/etc/hosts"
		out = append(out, m)
	}
	if !ownHosts {
		hosts, err := b.writeHosts()
		if err != nil {
			return nil, err
		}
		out = append(out, &runtimeapi.Mount{ContainerPath: "/etc/hosts", HostPath: hosts})
	}
	if c.TerminationMessagePath != "" {
		file := b.MessageFile(c.Name, run.Attempt)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, nil, 0o666); err != nil {
			return nil, err
		}
		if err := os.Chmod(file, 0o666); err != nil { // past the umask: any user of the container writes here
			return nil, err
		}
		out = append(out, &runtimeapi.Mount{ContainerPath: c.TerminationMessagePath, HostPath: file})
	}
	b.Users.mapIDs(out)
	return out, nil
}

// mount translates one mount of a volume.
func (b *Builder) mount(run Run, m *corev1.VolumeMount, look func(string) (string, bool)) (*runtimeapi.Mount, error) {
	path, onNode := run.Volumes.Mounts[m.Name]
	picture, ofImage := run.Images[m.Name]
	if !onNode && !ofImage {
		return nil, fmt.Errorf("cannot find volume %q to mount into container %q", m.Name, run.Container.Name)
	}
	sub, err := subPath(m, look)
	if err != nil {
		return nil, err
	}
	mount := &runtimeapi.Mount{
		ContainerPath: m.MountPath, HostPath: path, Readonly: m.ReadOnly || volumeReadOnly(b.Pod, m.Name), Propagation: propagation(m.MountPropagation),
	}
	if !filepath.IsAbs(mount.ContainerPath) {
		mount.ContainerPath = "/" + mount.ContainerPath
	}
	if mount.RecursiveReadOnly, err = pod.RecursiveReadOnly(m, b.Node.RecursiveReadOnly(b.Handler)); err != nil {
		return nil, fmt.Errorf("failed to resolve recursive read-only mode: %w", err)
	}
	switch {
	case ofImage: // the runtime mounts it, and looks for the path in it
		mount.HostPath, mount.ImageSubPath = "", sub
		mount.Image = &runtimeapi.ImageSpec{Image: picture.ID, UserSpecifiedImage: picture.Reference, Annotations: b.Pod.Annotations}
	case sub != "":
		if mount.HostPath, err = run.SubPath(m.Name, sub); err != nil {
			slog.Warn("prepare a subPath", "namespace", b.Pod.Namespace, "name", b.Pod.Name, "container", run.Container.Name, "err", err) // of the node's paths the pod hears nothing
			return nil, fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q", m.Name, run.Container.Name)
		}
	}
	return mount, nil
}

// subPath returns the path below the volume that is mounted, "" for all of it.
func subPath(m *corev1.VolumeMount, look func(string) (string, bool)) (string, error) {
	sub := m.SubPath
	if m.SubPathExpr != "" {
		missing := map[string]bool{}
		sub = Expand(m.SubPathExpr, func(name string) (string, bool) {
			value, ok := look(name)
			if !ok {
				missing[name] = true
			}
			return value, ok
		})
		if len(missing) > 0 {
			return "", fmt.Errorf("missing value for %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
		}
	}
	if filepath.IsAbs(sub) {
		return "", fmt.Errorf("error SubPath `%s` must not be an absolute path", sub)
	}
	if hasDotDot(sub) {
		return "", fmt.Errorf("unable to provision SubPath `%s`: must not contain '..'", sub)
	}
	return sub, nil
}

func hasDotDot(path string) bool {
	for _, part := range strings.Split(path, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

// volumeReadOnly reports whether the volume itself can only be read: what the agent or an image brings, containers may not
// change, nor what the pod asks for so.
func volumeReadOnly(p *corev1.Pod, name string) bool {
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.Name == name {
			return ReadOnlyVolume(v)
		}
	}
	return false
}

// ReadOnlyVolume reports whether nothing of the pod may write to a volume.
func ReadOnlyVolume(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil || v.Image != nil ||
		v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly || v.CSI != nil && v.CSI.ReadOnly != nil && *v.CSI.ReadOnly || v.ISCSI != nil && v.ISCSI.ReadOnly
}

func propagation(mode *corev1.MountPropagationMode) runtimeapi.MountPropagation {
	if mode != nil {
		switch *mode {
		case corev1.MountPropagationHostToContainer:
			return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
		case corev1.MountPropagationBidirectional:
			return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
		}
	}
	return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
}
