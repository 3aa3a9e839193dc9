package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestGroup(t *testing.T) {
	t.Parallel()
	s := &Server{seed: seed}
	base := s.group(pod("a", "1"))
	same := map[string]func(*corev1.Pod){
		"another name":       func(p *corev1.Pod) { p.Name, p.UID = "b", "b" },
		"another annotation": func(p *corev1.Pod) { p.Annotations = map[string]string{"x": "y"} },
		"the same amount":    func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("1000m") },
		"a command, and mounts": func(p *corev1.Pod) {
			p.Spec.Containers[0].Command = []string{"x"}
			p.Spec.Volumes = []corev1.Volume{{Name: "v"}}
		},
	}
	for name, change := range same {
		p := pod("a", "1")
		if change(p); s.group(p) != base {
			t.Errorf("%s must not make another group", name)
		}
	}
	other := map[string]func(*corev1.Pod){
		"namespace":   func(p *corev1.Pod) { p.Namespace = "b" },
		"owner":       func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{UID: "b", Controller: ptr.To(true)}} },
		"label":       func(p *corev1.Pod) { p.Labels["app"] = "b" },
		"label moved": func(p *corev1.Pod) { p.Labels, p.Spec.NodeSelector = nil, p.Labels },
		"priority":    func(p *corev1.Pod) { p.Spec.Priority = ptr.To(int32(5)) },
		"cpu":         func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("2") },
		"extended":    func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["x.io/gpu"] = resource.MustParse("1") },
		"host port":   func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} },
		"image":       func(p *corev1.Pod) { p.Spec.Containers[0].Image = "b" },
		"toleration":  func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} },
		"spread": func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "zone", MaxSkew: 1}}
		},
		"feature": func(p *corev1.Pod) {
			p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
		},
		"affinity": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b", "c": "d"}}}}}}
		},
		"claim": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		},
		"claim of its own": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "c", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
		},
		"claim of its own, of another pod": func(p *corev1.Pod) {
			p.UID = "b"
			p.Spec.Volumes = []corev1.Volume{{Name: "c", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
		},
		"disk": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{RBDImage: "i"}}}}
		},
		"another disk": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{RBDImage: "j"}}}}
		},
	}
	seen := map[uint64]string{base: "no change"}
	for name, change := range other {
		p, again := pod("a", "1"), pod("a", "1")
		change(p)
		change(again)
		g := s.group(p)
		if like := seen[g]; like != "" {
			t.Errorf("%s makes the same group as %s", name, like)
		}
		if seen[g] = name; s.group(again) != g {
			t.Errorf("%s: equal pods must be of one group", name)
		}
	}
}
