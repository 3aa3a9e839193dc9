package worker

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/cri"
)

func TestTargetOfAnEphemeralContainer(t *testing.T) {
	t.Parallel()
	p := &corev1.Pod{}
	debug := corev1.EphemeralContainer{TargetContainerName: "a"}
	debug.Name = "debug"
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{debug}
	for name, test := range map[string]struct {
		runs      []cri.Container
		container string
		id, err   string
	}{
		"runs":            {[]cri.Container{{ID: "1", Name: "a", State: cri.Running}}, "debug", "1", ""},
		"has ended":       {[]cri.Container{{ID: "1", Name: "a", State: cri.Exited}}, "debug", "1", ""},
		"is not there":    {nil, "debug", "", "unable to find target container a"},
		"no target asked": {nil, "a", "", ""},
	} {
		id, err := targetOf(p, &corev1.Container{Name: test.container}, &cri.Pod{Containers: test.runs})
		if id != test.id || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%s: %q, %v", name, id, err)
		}
	}
}
