package evict

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

func storage(limit string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(limit)}}
}

func emptyDir(name, limit string, medium corev1.StorageMedium) corev1.Volume {
	source := &corev1.EmptyDirVolumeSource{Medium: medium}
	if limit != "" {
		source.SizeLimit = ptr.To(resource.MustParse(limit))
	}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: source}}
}

func TestExceeded(t *testing.T) {
	t.Parallel()
	const mi = 1 << 20
	one := corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: storage("5Mi")}}}
	two := corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: storage("5Mi")}, {Name: "b", Resources: storage("5Mi")}}}
	volume := corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}, Volumes: []corev1.Volume{emptyDir("v", "2Mi", "")}}
	for name, c := range map[string]struct {
		spec            corev1.PodSpec
		used            Used
		unlimited       bool
		signal, message string
	}{
		"no limits": {
			spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}, Volumes: []corev1.Volume{emptyDir("v", "", "")}}, unlimited: true,
			used: Used{Containers: map[string]int64{"a": 1 << 40}, Volumes: map[string]int64{"v": 1 << 40}},
		},
		"as much as it may": {spec: one, used: Used{Containers: map[string]int64{"a": 5 * mi}}},
		"all containers": {
			spec: one, used: Used{Containers: map[string]int64{"a": 5*mi + 1}}, signal: signalPod,
			message: "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. ",
		},
		"containers with volumes": {
			spec: corev1.PodSpec{Containers: one.Containers, Volumes: []corev1.Volume{emptyDir("v", "", "")}}, signal: signalPod,
			used:    Used{Containers: map[string]int64{"a": 3 * mi}, Volumes: map[string]int64{"v": 3 * mi}},
			message: "Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. ",
		},
		"one container alone": {
			spec: two, used: Used{Containers: map[string]int64{"a": 1 * mi, "b": 6 * mi}}, signal: signalContainer,
			message: `Container b exceeded its local ephemeral storage limit "5Mi". `,
		},
		"a volume": {
			spec: volume, used: Used{Volumes: map[string]int64{"v": 2*mi + 1}}, signal: signalVolume,
			message: `Usage of EmptyDir volume "v" exceeds the limit "2Mi". `,
		},
		"a volume as large as it may be": {spec: volume, used: Used{Volumes: map[string]int64{"v": 2 * mi}}},
		"a volume in memory": {
			spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}, Volumes: []corev1.Volume{emptyDir("v", "2Mi", corev1.StorageMediumMemory)}},
			used: Used{Volumes: map[string]int64{"v": 3 * mi}}, unlimited: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &corev1.Pod{Spec: c.spec}
			if Limited(p) == c.unlimited {
				t.Errorf("limited: %v", !c.unlimited)
			}
			signal, why := Exceeded(p, c.used)
			switch {
			case signal != c.signal:
				t.Errorf("signal %q, not %q", signal, c.signal)
			case c.signal == "" && why != nil:
				t.Errorf("evicted: %+v", why)
			case c.signal != "" && (why.Reason != "Evicted" || why.Message != c.message || *why.Grace != 1):
				t.Errorf("%+v", why)
			}
		})
	}
}
