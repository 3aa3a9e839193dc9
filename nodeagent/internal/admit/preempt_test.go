package admit

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/pod"
)

// of names a pod and gives it a class and a priority.
func of(p *corev1.Pod, name string, class corev1.PodQOSClass, priority int32) *corev1.Pod {
	p.Name, p.Status.QOSClass, p.Spec.Priority = name, class, &priority
	return p
}

func TestPreempt(t *testing.T) {
	t.Parallel()
	const best, burst, guaranteed = corev1.PodQOSBestEffort, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed
	wanting := func(amounts string) *corev1.Pod { return of(asking(amounts), "critical", burst, pod.SystemCritical) }
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		others []*corev1.Pod
		change func(s *Site)
		want   string
	}{
		"not critical": {of(asking("cpu=2"), "p", burst, 1000), []*corev1.Pod{of(asking("cpu=1"), "a", burst, 0)}, nil, ""},
		"the one that is enough": {wanting("cpu=1"), []*corev1.Pod{
			of(asking("cpu=500m"), "small", burst, 0), of(asking("cpu=1"), "enough", burst, 0), of(asking("cpu=200m"), "tiny", burst, 0),
		}, nil, "enough"},
		"the smaller of two that are enough": {wanting("cpu=1"), []*corev1.Pod{
			of(asking("cpu=1 memory=300Mi"), "large", burst, 0), of(asking("cpu=1 memory=200Mi"), "small", burst, 0),
		}, nil, "small"},
		"of lesser quality": {wanting("cpu=1"), []*corev1.Pod{
			of(asking("cpu=1"), "good", guaranteed, 0), of(asking("cpu=500m"), "one", burst, 0), of(asking("cpu=500m"), "two", burst, 0),
		}, nil, "one two"},
		"better ones where the lesser are not enough": {wanting("cpu=1800m"), []*corev1.Pod{
			of(asking("cpu=1200m"), "good", guaranteed, 0), of(asking("cpu=600m"), "one", burst, 0),
		}, nil, "good one"},
		"no lesser one in vain": {wanting("cpu=1"), []*corev1.Pod{
			of(asking("cpu=1500m"), "good", guaranteed, 0), of(asking("cpu=100m"), "one", burst, 0),
		}, nil, "good"},
		"a place": {wanting(""), []*corev1.Pod{
			of(asking("cpu=1"), "one", burst, 0), of(asking(""), "least", best, 0), of(asking(""), "critical too", best, pod.SystemCritical),
		}, nil, "least"},
		"not enough":               {wanting("cpu=3"), []*corev1.Pod{of(asking("cpu=1"), "one", burst, 0)}, nil, ""},
		"others are as critical":   {wanting("cpu=2"), []*corev1.Pod{of(asking("cpu=1"), "one", burst, pod.SystemCritical)}, nil, ""},
		"others are less critical": {of(asking("cpu=2"), "p", burst, pod.SystemCritical+1000), []*corev1.Pod{of(asking("cpu=1"), "one", burst, pod.SystemCritical)}, nil, "one"},
		"a static pod":             {static(of(asking("cpu=2"), "p", burst, 0)), []*corev1.Pod{of(asking("cpu=1"), "one", burst, 0)}, nil, "one"},
		"none for a static pod":    {static(of(asking("cpu=2"), "p", burst, 0)), []*corev1.Pod{of(asking("cpu=1"), "one", burst, pod.SystemCritical)}, nil, ""},
		"others are static":        {wanting("cpu=2"), []*corev1.Pod{static(of(asking("cpu=1"), "one", burst, 0))}, nil, ""},
		"refused for more than that": {wanting("cpu=2"), []*corev1.Pod{of(asking("cpu=1"), "one", burst, 0)}, func(s *Site) {
			s.Node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := site(t, func(s *Site) { s.Others = test.others })
			if test.change != nil {
				test.change(&s)
			}
			var got []string
			for _, p := range Preempt(test.pod, s) {
				got = append(got, p.Name)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			if len(got) == 0 {
				return
			}
			left := s
			left.Others = nil
			for _, p := range s.Others {
				if !strings.Contains(" "+test.want+" ", fmt.Sprintf(" %s ", p.Name)) {
					left.Others = append(left.Others, p)
				}
			}
			if failure := bothChecks(test.pod, left); failure != nil {
				t.Errorf("without them it is still refused: %s", failure.Message)
			}
		})
	}
}

// static makes of a pod one of a manifest: no admission has given it a priority.
func static(p *corev1.Pod) *corev1.Pod {
	p.Spec.Priority, p.ResourceVersion = nil, ""
	p.Annotations = map[string]string{pod.SourceAnnotation: "file"}
	return p
}
