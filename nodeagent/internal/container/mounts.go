package container

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// mounts returns a container's mounts: its volumes, /etc/hosts, and the file
// for its termination message.
func (b *Builder) mounts(run Run, look func(string) (string, bool)) ([]*runtimeapi.Mount, error) {
	c := run.Container
	if len(c.VolumeDevices) > 0 {
		return nil, fmt.Errorf("container %s: volumeDevices are not supported by this node", c.Name)
	}
	var out []*runtimeapi.Mount
	ownHosts := false
	for _, m := range c.VolumeMounts {
		source, ok := run.Volumes[m.Name]
		if !ok {
			return nil, fmt.Errorf("cannot find volume %q to mount into container %q", m.Name, c.Name)
		}
		sub := m.SubPath
		if m.SubPathExpr != "" {
			missing := ""
			sub = Expand(m.SubPathExpr, func(name string) (string, bool) {
				value, ok := look(name)
				if !ok {
					missing = name
				}
				return value, ok
			})
			if missing != "" {
				return nil, fmt.Errorf("missing value for %q in subPathExpr %q", missing, m.SubPathExpr)
			}
		}
		if sub != "" {
			if filepath.IsAbs(sub) || hasDotDot(sub) {
				return nil, fmt.Errorf("error SubPath `%s` must not be an absolute path or contain '..'", sub)
			}
			var err error
			if source, err = run.SubPath(m.Name, sub); err != nil {
				return nil, fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q: %w", m.Name, c.Name, err)
			}
		}
		target := m.MountPath
		if !filepath.IsAbs(target) {
			target = "/" + target
		}
		ownHosts = ownHosts || filepath.Clean(target) == "/etc/hosts"
		mount := &runtimeapi.Mount{
			ContainerPath: target, HostPath: source, Readonly: m.ReadOnly || volumeReadOnly(b.Pod, m.Name),
			Propagation: propagation(m.MountPropagation),
		}
		if m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled {
			mount.RecursiveReadOnly = true
		}
		out = append(out, mount)
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
	return out, nil
}

func hasDotDot(path string) bool {
	for _, part := range strings.Split(path, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

// volumeReadOnly reports whether the volume itself can only be read: what
// the agent writes into it, containers may not change.
func volumeReadOnly(p *corev1.Pod, name string) bool {
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.Name == name {
			return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
		}
	}
	return false
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
