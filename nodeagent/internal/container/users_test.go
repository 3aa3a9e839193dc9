package container

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A pod with users of its own has them in its sandbox and its containers, and its files belong to them.
func TestUsersOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, users := range map[string]Users{"the node's": {}, "its own": {Host: 131072, Length: 65536}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := builder(t)
			b.Users = users
			c := corev1.Container{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}, {Name: "i", MountPath: "/i"}}}
			b.Pod.Spec.Containers = []corev1.Container{c}
			sandbox, err := b.Sandbox(0)
			if err != nil {
				t.Fatal(err)
			}
			config, err := b.Container(t.Context(), Run{Container: &c, Volumes: Volumes{Mounts: map[string]string{"v": "/on/node"}}, Images: map[string]VolumeImage{"i": {ID: "image"}}})
			if err != nil {
				t.Fatal(err)
			}
			mapped := func(what string, uids, gids []*runtimeapi.IDMapping) {
				t.Helper()
				for _, ids := range [][]*runtimeapi.IDMapping{uids, gids} {
					if !users.Own() {
						if ids != nil {
							t.Errorf("%s: %v", what, ids)
						}
					} else if len(ids) != 1 || ids[0].GetHostId() != 131072 || ids[0].GetContainerId() != 0 || ids[0].GetLength() != 65536 {
						t.Errorf("%s: %v", what, ids)
					}
				}
			}
			for what, options := range map[string]*runtimeapi.NamespaceOption{
				"sandbox": sandbox.GetLinux().GetSecurityContext().GetNamespaceOptions(), "container": config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
			} {
				namespace := options.GetUsernsOptions()
				if users.Own() != (namespace != nil) || namespace.GetMode() != runtimeapi.NamespaceMode_POD {
					t.Errorf("%s: %v", what, namespace)
				}
				mapped(what, namespace.GetUids(), namespace.GetGids())
			}
			for _, m := range config.GetMounts() {
				if m.GetContainerPath() == "/i" {
					if m.GetUidMappings() != nil {
						t.Errorf("an image is mapped: %v", m)
					}
					continue
				}
				mapped(m.GetContainerPath(), m.GetUidMappings(), m.GetGidMappings())
			}
		})
	}
}

func TestHandlersTakeWhatTheyCan(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	n := Node{Handlers: []corev1.NodeRuntimeHandler{
		{Name: "", Features: &corev1.NodeRuntimeHandlerFeatures{UserNamespaces: &yes, RecursiveReadOnlyMounts: &yes}},
		{Name: "old", Features: &corev1.NodeRuntimeHandlerFeatures{UserNamespaces: &no}}, {Name: "silent"},
	}}
	shares, own := &corev1.Pod{Spec: corev1.PodSpec{HostUsers: &yes}}, &corev1.Pod{Spec: corev1.PodSpec{HostUsers: &no}}
	for handler, can := range map[string]bool{"": true, "old": false, "silent": false, "unknown": false} {
		if err := n.Takes(shares, handler); err != nil {
			t.Errorf("handler %q, the node's users: %v", handler, err)
		}
		if err := n.Takes(own, handler); (err == nil) != can {
			t.Errorf("handler %q, users of its own: %v", handler, err)
		}
		if got := n.RecursiveReadOnly(handler); got != can {
			t.Errorf("handler %q mounts recursively read-only: %v", handler, got)
		}
	}
}
