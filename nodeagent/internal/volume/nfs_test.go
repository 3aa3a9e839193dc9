package volume

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestNFSIsMountedOnceAPod(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		source  corev1.NFSVolumeSource
		options []string // of a persistent volume; nil: the pod names the share itself
		want    string
	}{
		"of the pod":             {corev1.NFSVolumeSource{Server: "files.example.com", Path: "/data"}, nil, "mount -t nfs files.example.com:/data DIR"},
		"to read":                {corev1.NFSVolumeSource{Server: "192.0.2.7", Path: "/", ReadOnly: true}, nil, "mount -t nfs -o ro 192.0.2.7:/ DIR"},
		"of a persistent volume": {corev1.NFSVolumeSource{Server: "2001:db8::7", Path: "/data"}, []string{"nfsvers=4.1", "hard"}, "mount -t nfs -o nfsvers=4.1,hard [2001:db8::7]:/data DIR"},
	} {
		m, _, kernel := setupClaim(t, boundClaim("pv"), volumeOf("pv", corev1.PersistentVolumeSource{NFS: &test.source}, func(v *corev1.PersistentVolume) { v.Spec.MountOptions = test.options }))
		p, folder := podWith(claimed(false)), "pv"
		if test.options == nil {
			p, folder = podWith(corev1.VolumeSource{NFS: &test.source}), "v"
		}
		dir := filepath.Join(m.cfg.RootDir, "pods", string(p.UID), "volumes", nfsKind, folder)
		var ran []string
		m.cfg.Command = func(_ context.Context, name string, args ...string) (string, int, error) {
			ran = append(ran, strings.ReplaceAll(name+" "+strings.Join(args, " "), dir, "DIR"))
			if len(ran) == 1 {
				return "Connection refused", 32, nil
			}
			return "", 0, kernel.Tmpfs(dir, 0) // something is mounted there now
		}
		if _, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); err == nil || !strings.Contains(err.Error(), `MountVolume.SetUp failed for volume "`+folder+`" : mount -t nfs`) || !strings.Contains(err.Error(), "exit status 32: Connection refused") {
			t.Errorf("%s: the server is away, and got %v", name, err)
		}
		for range 2 {
			if made, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); err != nil || made.Mounts["v"] != dir {
				t.Errorf("%s: %v, %v", name, made, err)
			}
		}
		if len(ran) != 2 || ran[1] != test.want {
			t.Errorf("%s: ran %q, want twice %q", name, ran, test.want)
		}
		if err := m.Cleanup(t.Context(), p.UID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s: the folder is left: %v", name, err)
		}
	}
}
