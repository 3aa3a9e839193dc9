package volume

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/container"
)

// nfsKind is the folder of a pod's NFS volumes, as the kubelet calls it.
const nfsKind = "kubernetes.io~nfs"

// mountWithin bounds a mount over the network; a server that is away would keep it for minutes.
const mountWithin = 2 * time.Minute

// nfs mounts what a server exports at a pod's folder, unless it is there already. Whose the files are is the server's to say: the pod's group gets none.
func (m *Manager) nfs(ctx context.Context, pod *corev1.Pod, name string, s *corev1.NFSVolumeSource, readOnly bool, options []string) (string, error) {
	dir := filepath.Join(container.PodDir(m.cfg.RootDir, pod), "volumes", nfsKind, name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	return dir, m.mounted(dir, func() error {
		ctx, cancel := context.WithTimeout(ctx, mountWithin)
		defer cancel()
		if readOnly {
			options = append([]string{"ro"}, options...)
		}
		args := []string{"-t", "nfs"}
		if len(options) > 0 {
			args = append(args, "-o", strings.Join(options, ","))
		}
		err := m.must(ctx, "mount", append(args, export(s), dir)...)
		if err != nil && ctx.Err() != nil {
			err = errors.Join(err, ctx.Err())
		}
		return err
	})
}

// export names what is mounted, as mount does: an IPv6 address is in brackets.
func export(s *corev1.NFSVolumeSource) string {
	server := s.Server
	if a, err := netip.ParseAddr(server); err == nil && a.Is6() {
		server = "[" + server + "]"
	}
	return server + ":" + s.Path
}
