package userns

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/container"
)

func newPod(uid string, host bool) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Spec: corev1.PodSpec{HostUsers: &host}}
}

func TestEveryPodHasARangeOfItsOwn(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	r := New(root, Pool{First: 3 * Length, Ranges: 2})
	of := func(p *corev1.Pod) string {
		t.Helper()
		users, err := r.Of(p)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d+%d", users.Host, users.Length)
	}
	a, b, c := newPod("a", false), newPod("b", false), newPod("c", false)
	for _, step := range []struct {
		pod  *corev1.Pod
		want string
	}{
		{newPod("host", true), "0+0"}, {&corev1.Pod{}, "0+0"},
		{a, "196608+65536"}, {b, "262144+65536"}, {a, "196608+65536"},
		{c, "no user IDs are left for the pod: all 2 ranges of the node are taken"},
	} {
		if got := of(step.pod); got != step.want {
			t.Errorf("pod %s: %s, want %s", step.pod.UID, got, step.want)
		}
	}
	r = New(root, Pool{First: 3 * Length, Ranges: 2}) // the agent starts anew
	if err := os.RemoveAll(container.PodDir(root, a)); err != nil {
		t.Fatal(err)
	}
	if got, want := of(c), "196608+65536"; got != want {
		t.Errorf("after the first was gone: %s, want %s", got, want)
	}
	if got, want := of(b), "262144+65536"; got != want {
		t.Errorf("after a restart: %s, want %s", got, want)
	}
	if err := os.WriteFile(filepath.Join(container.PodDir(root, b), "userns"), []byte(`{"uidMappings":[{"hostId":1}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*corev1.Pod{b, newPod("d", false)} {
		if got := of(p); !strings.HasSuffix(got, "is not one range from 0 on") {
			t.Errorf("pod %s beside a range that is not known: %s", p.UID, got)
		}
	}
}

func TestReadPool(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		subuid, subgid string // "" is no such file
		want           string
	}{
		"no files":            {want: "{65536 65534}"},
		"others' IDs":         {"me:100000:65536\n", "me:100000:65536\n", "{65536 65534}"},
		"set apart":           {"me:1:2\nkubelet:131072:7208960\n", "kubelet:131072:7208960", "{131072 110}"},
		"groups differ":       {"kubelet:131072:7208960", "", "U and G give the user kubelet different IDs: 7208960 IDs from 131072 on and none"},
		"not enough":          {"kubelet:65536:65536", "kubelet:65536:65536", "U gives the user kubelet 65536 IDs from 65536 on: 110 pods need 7208960"},
		"not whole ranges":    {"kubelet:100000:7208960", "kubelet:100000:7208960", "U gives the user kubelet 7208960 IDs from 100000 on: the first and their number have to be multiples of 65536, and the first 65536 are the node's"},
		"the node's own":      {"kubelet:0:7208960", "kubelet:0:7208960", "U gives the user kubelet 7208960 IDs from 0 on: the first and their number have to be multiples of 65536, and the first 65536 are the node's"},
		"two lines":           {"kubelet:65536:65536\nkubelet:131072:65536", "", "U: the user kubelet needs one line, kubelet:FIRST:NUMBER"},
		"no number":           {"kubelet:65536:many", "", `U: "many" is not a number of IDs after 65536`},
		"more than there are": {"kubelet:65536:4294967295", "", `U: "4294967295" is not a number of IDs after 65536`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			paths := map[string]string{"U": c.subuid, "G": c.subgid}
			for name, content := range paths {
				if content == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			pool, err := ReadPool(filepath.Join(dir, "U"), filepath.Join(dir, "G"), 110)
			got := fmt.Sprint(pool)
			if err != nil {
				got = strings.ReplaceAll(err.Error(), dir+"/", "")
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
