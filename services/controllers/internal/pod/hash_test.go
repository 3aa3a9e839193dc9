package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestTemplateHash: the names are those that kube-controller-manager 1.36 gave the revisions of DaemonSets with these templates.
func TestTemplateHash(t *testing.T) {
	t.Parallel()
	of := func(image string) *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "d"}},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{
					Name: "c", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
					TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
				}},
				RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: ptr.To[int64](30), DNSPolicy: corev1.DNSClusterFirst,
				SecurityContext: &corev1.PodSecurityContext{}, SchedulerName: "default-scheduler",
			},
		}
	}
	for image, want := range map[string]string{"i:1": "6b789bfb67", "i:2": "6d9977f848"} {
		if got := TemplateHash(of(image), nil); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
	if TemplateHash(of("i:1"), ptr.To[int32](1)) == "6b789bfb67" {
		t.Error("a collision changes nothing")
	}
}
