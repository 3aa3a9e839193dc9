package evict

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/usage"
)

// node is one whose pods are read.
type node struct {
	reading usage.Reading
	reads   int
	pods    []*corev1.Pod
	ended   []string
}

func (n *node) Read(context.Context) *usage.Reading { n.reads++; return &n.reading }

func (n *node) keeper(dir string) *Keeper {
	return New(Config{
		Pods: func() []*corev1.Pod { return n.pods }, Usage: n, RootDir: dir, Clock: clock.RealClock{},
		Evict: func(p *corev1.Pod, why *pod.Failure) bool {
			n.ended = append(n.ended, p.Name+": "+why.Message)
			return true
		},
	})
}

func (n *node) add(name string, spec corev1.PodSpec, written, logged uint64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}, Spec: spec}
	n.pods = append(n.pods, p)
	n.reading.Pods = append(n.reading.Pods, usage.Pod{Namespace: "default", Name: name, UID: p.UID, Containers: []usage.Container{
		{Name: "a", Rootfs: &usage.Files{Bytes: written}, Logs: &usage.Files{Bytes: logged}},
	}})
	return p
}

func TestKeeperEndsPodsThatUseTooMuch(t *testing.T) {
	t.Parallel()
	limited := corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: storage("10k")}}}
	n := &node{}
	n.add("modest", limited, 5_000, 5_000)
	n.add("logs", limited, 5_000, 5_001)
	n.add("unlimited", corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}, 1<<40, 0)
	system := limited
	system.Priority = ptr.To[int32](2_000_000_000)
	n.add("system", system, 1<<40, 0)
	n.add("finished", limited, 1<<40, 0).Status.Phase = corev1.PodFailed
	n.add("leaves", limited, 1<<40, 0).DeletionTimestamp = &metav1.Time{}

	dir := t.TempDir()
	filled := n.add("filled", corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}, Volumes: []corev1.Volume{emptyDir("v", "64Ki", "")}}, 0, 0)
	volume := filepath.Join(container.PodDir(dir, filled), "volumes", "kubernetes.io~empty-dir", "v")
	if err := os.MkdirAll(filepath.Join(volume, "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(dir, "outside")
	for _, file := range []string{outside, filepath.Join(volume, "deep", "file")} {
		if err := os.WriteFile(file, bytes.Repeat([]byte("x"), 40<<10), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// Neither another name of the same file nor a link to another place takes up anything.
	if err := os.Link(filepath.Join(volume, "deep", "file"), filepath.Join(volume, "again")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(volume, "link")); err != nil {
		t.Fatal(err)
	}

	k := n.keeper(dir)
	k.look(t.Context())
	const logs = "logs: Pod ephemeral local storage usage exceeds the total limit of containers 10k. "
	if len(n.ended) != 1 || n.ended[0] != logs {
		t.Fatalf("ended: %q", n.ended)
	}
	if err := os.WriteFile(filepath.Join(volume, "more"), bytes.Repeat([]byte("x"), 40<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	n.ended = nil
	k.look(t.Context())
	if len(n.ended) != 2 || n.ended[1] != `filled: Usage of EmptyDir volume "v" exceeds the limit "64Ki". ` {
		t.Errorf("ended: %q", n.ended)
	}
	if got := testutil.ToFloat64(k.evictions.WithLabelValues(signalPod)); got != 2 {
		t.Errorf("%v evictions are counted", got)
	}
}

func TestKeeperReadsNothingForPodsWithoutLimits(t *testing.T) {
	t.Parallel()
	n := &node{}
	n.add("unlimited", corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}, 1<<40, 0)
	n.keeper(t.TempDir()).look(t.Context())
	if n.reads != 0 || len(n.ended) != 0 {
		t.Errorf("%d readings, ended: %q", n.reads, n.ended)
	}
}
