package podspec_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"howdah.dev/kit/podspec"
)

func TestQOSClass(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec string
		want corev1.PodQOSClass
	}{
		"nothing asked":      {"containers: [{name: a}]", corev1.PodQOSBestEffort},
		"only storage":       {"containers: [{name: a, resources: {requests: {ephemeral-storage: 1Gi}}}]", corev1.PodQOSBestEffort},
		"zero":               {"containers: [{name: a, resources: {requests: {cpu: 0}}}]", corev1.PodQOSBestEffort},
		"request":            {"containers: [{name: a, resources: {requests: {cpu: 1}}}]", corev1.PodQOSBurstable},
		"limits":             {"containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Mi}}}]", corev1.PodQOSGuaranteed},
		"limits, one lower":  {"containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Mi}, requests: {cpu: 500m}}}]", corev1.PodQOSBurstable},
		"limits, one zero":   {"containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Mi}, requests: {memory: 0}}}]", corev1.PodQOSBurstable},
		"no CPU limit":       {"containers: [{name: a, resources: {limits: {memory: 1Mi}}}]", corev1.PodQOSBurstable},
		"no memory limit":    {"containers: [{name: a, resources: {limits: {cpu: 1}}}]", corev1.PodQOSBurstable},
		"one of two":         {"containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Mi}}}, {name: b}]", corev1.PodQOSBurstable},
		"init without":       {"containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Mi}}}]\ninitContainers: [{name: b}]", corev1.PodQOSBurstable},
		"pod as a whole":     {"containers: [{name: a}]\nresources: {limits: {cpu: 1, memory: 1Mi}}", corev1.PodQOSGuaranteed},
		"pod, requests less": {"containers: [{name: a}]\nresources: {limits: {cpu: 1, memory: 1Mi}, requests: {cpu: 1m}}", corev1.PodQOSBurstable},
		"pod, one zero":      {"containers: [{name: a}]\nresources: {limits: {cpu: 1, memory: 1Mi}, requests: {memory: 0}}", corev1.PodQOSBurstable},
		"pod says nothing":   {"containers: [{name: a, resources: {requests: {cpu: 1}}}]\nresources: {}", corev1.PodQOSBestEffort},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p corev1.Pod
			if err := yaml.UnmarshalStrict([]byte(c.spec), &p.Spec); err != nil {
				t.Fatal(err)
			}
			podspec.DefaultPod(&p.Spec)
			if got := podspec.QOSClass(&p); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			p.Status.QOSClass = "Said"
			if got := podspec.QOSClass(&p); got != "Said" {
				t.Errorf("got %s of a pod whose status names another", got)
			}
		})
	}
}
