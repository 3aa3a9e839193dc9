package pressure

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newPod(name string, priority int32, requests ...string) *corev1.Pod {
	c := corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	for _, r := range requests {
		what, amount, _ := strings.Cut(r, "=")
		c.Resources.Requests[corev1.ResourceName(what)] = resource.MustParse(amount)
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{Priority: &priority, Containers: []corev1.Container{c}}}
}

func TestRank(t *testing.T) {
	t.Parallel()
	apart, layersApart := Layout{ImagesApart: true}, Layout{ImagesApart: true, LayersApart: true}
	for name, test := range map[string]struct {
		signal Signal
		layout Layout
		pods   []Candidate
		want   string
	}{
		"of whom nobody knows first": {MemoryAvailable, Layout{}, []Candidate{
			{Pod: newPod("greedy", 0), Known: true, Memory: 1 << 30}, {Pod: newPod("unknown", 1000)},
		}, "unknown greedy"},
		"memory: beyond what was asked for, then priority, then by how much": {MemoryAvailable, Layout{}, []Candidate{
			{Pod: newPod("within", 0, "memory=1Gi"), Known: true, Memory: 1 << 30},
			{Pod: newPod("within-by-far", 0, "memory=2Gi"), Known: true, Memory: 1 << 30},
			{Pod: newPod("important", 10), Known: true, Memory: 1 << 40},
			{Pod: newPod("little", 0, "memory=100"), Known: true, Memory: 150},
			{Pod: newPod("much", 0), Known: true, Memory: 120},
		}, "much little important within within-by-far"},
		"one disk: all that the pod has written": {NodeFSAvailable, Layout{}, []Candidate{
			{Pod: newPod("layer", 0), Known: true, Layers: Files{Bytes: 300}},
			{Pod: newPod("asked", 0, "ephemeral-storage=1k"), Known: true, Layers: Files{Bytes: 900}},
			{Pod: newPod("all", 0), Known: true, Layers: Files{Bytes: 200}, Logs: Files{Bytes: 100}, Volumes: Files{Bytes: 100}},
			{Pod: newPod("beyond", 0, "ephemeral-storage=1k"), Known: true, Volumes: Files{Bytes: 1100}},
		}, "all layer beyond asked"},
		"the images' disk is the same": {ImageFSAvailable, Layout{}, []Candidate{
			{Pod: newPod("layer", 0), Known: true, Layers: Files{Bytes: 300}}, {Pod: newPod("logs", 0), Known: true, Logs: Files{Bytes: 400}},
		}, "logs layer"},
		"the volumes' disk without the layers": {NodeFSAvailable, layersApart, []Candidate{
			{Pod: newPod("layer", 0), Known: true, Layers: Files{Bytes: 300}}, {Pod: newPod("logs", 0), Known: true, Logs: Files{Bytes: 1}}, {Pod: newPod("volume", 0), Known: true, Volumes: Files{Bytes: 2}},
		}, "volume logs layer"},
		"the layers' disk": {ImageFSAvailable, layersApart, []Candidate{
			{Pod: newPod("volume", 0), Known: true, Volumes: Files{Bytes: 300}}, {Pod: newPod("layer", 0), Known: true, Layers: Files{Bytes: 1}},
		}, "layer volume"},
		"the volumes' disk with the layers": {NodeFSAvailable, apart, []Candidate{
			{Pod: newPod("logs", 0), Known: true, Logs: Files{Bytes: 1}}, {Pod: newPod("layer", 0), Known: true, Layers: Files{Bytes: 300}},
		}, "layer logs"},
		"a disk of images alone: priority": {ImageFSAvailable, apart, []Candidate{
			{Pod: newPod("important", 1), Known: true, Layers: Files{Bytes: 300}}, {Pod: newPod("other", 0), Known: true},
		}, "other important"},
		"inodes, which nobody can ask for": {NodeFSInodesFree, Layout{}, []Candidate{
			{Pod: newPod("none", -1), Known: true, Volumes: Files{Bytes: 1 << 30}},
			{Pod: newPod("important", 5), Known: true, Volumes: Files{Inodes: 500}},
			{Pod: newPod("few", 0), Known: true, Logs: Files{Inodes: 2}},
			{Pod: newPod("many", 0, "ephemeral-storage=1Ti"), Known: true, Layers: Files{Inodes: 3}},
		}, "many few important none"},
		"processes: priority, then the most": {PIDAvailable, Layout{}, []Candidate{
			{Pod: newPod("important", 5), Known: true, Processes: 500}, {Pod: newPod("few", 0), Known: true, Processes: 1}, {Pod: newPod("some", 0), Known: true, Processes: 2},
		}, "some few important"},
	} {
		var got []string
		for _, c := range Rank(test.pods, test.signal, test.layout) {
			got = append(got, c.Pod.Name)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestProtected(t *testing.T) {
	t.Parallel()
	with := func(annotations map[string]string) *corev1.Pod {
		p := newPod("p", 0)
		p.Annotations = annotations
		return p
	}
	stored := with(map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.mirror": "x"})
	stored.ResourceVersion = "1"
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"any": {newPod("p", 1_000_000_000), false}, "of the system's": {newPod("p", 2_000_000_000), true},
		"of a manifest": {with(map[string]string{"kubernetes.io/config.source": "file"}), true}, "of the API, whatever it says": {stored, false},
	} {
		if got := Protected(test.pod); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestReclaims(t *testing.T) {
	t.Parallel()
	apart, layersApart := Layout{ImagesApart: true}, Layout{ImagesApart: true, LayersApart: true}
	for _, test := range []struct {
		layout Layout
		signal Signal
		want   Reclaim
	}{
		{Layout{}, NodeFSAvailable, Reclaim{true, true}}, {Layout{}, ImageFSInodesFree, Reclaim{true, true}}, {Layout{}, MemoryAvailable, Reclaim{}}, {Layout{}, PIDAvailable, Reclaim{}},
		{apart, NodeFSInodesFree, Reclaim{true, false}}, {apart, ImageFSAvailable, Reclaim{false, true}},
		{layersApart, NodeFSAvailable, Reclaim{true, false}}, {layersApart, ImageFSAvailable, Reclaim{true, true}},
	} {
		if got := test.layout.Reclaims(test.signal); got != test.want {
			t.Errorf("%+v, %s: %+v", test.layout, test.signal, got)
		}
	}
}
