package reserve

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestOptions(t *testing.T) {
	for name, test := range map[string]struct {
		options  Options
		want     string // of the error
		enforced bool
	}{
		"none":              {Options{}, "", true},
		"all":               {Options{Kube: map[string]string{"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "1Gi", "pid": "1000"}, Enforce: []string{Pods}}, "", true},
		"nothing enforced":  {Options{Enforce: []string{}}, "", false},
		"none enforced":     {Options{Enforce: []string{None}}, "", false},
		"pods and none":     {Options{Enforce: []string{Pods, None}}, `"none" is not there`, true},
		"another's group":   {Options{Enforce: []string{Pods, "kube-reserved"}}, `"kube-reserved" is not there`, true},
		"unknown":           {Options{Kube: map[string]string{"pods": "1"}}, `kube-reserved: "pods" cannot be reserved`, true},
		"negative":          {Options{System: map[string]string{"cpu": "-1"}}, "system-reserved: cpu=-1 is negative", true},
		"no amount":         {Options{System: map[string]string{"memory": "much"}}, `system-reserved: memory="much"`, true},
		"two that are none": {Options{System: map[string]string{"memory": "much"}, Kube: map[string]string{"x": "1"}}, `"x" cannot be reserved`, true},
	} {
		err := test.options.Validate()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if got := test.options.Enforced(); got != test.enforced {
			t.Errorf("%s: enforced %t", name, got)
		}
	}
}

func TestTotal(t *testing.T) {
	total := Options{Kube: map[string]string{"cpu": "100m", "memory": "1Gi"}, System: map[string]string{"cpu": "200m", "pid": "100"}}.Total()
	for name, want := range map[corev1.ResourceName]string{corev1.ResourceCPU: "300m", corev1.ResourceMemory: "1Gi", PIDs: "100"} {
		if q := total[name]; q.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("%s: %s, want %s", name, q.String(), want)
		}
	}
	if len(total) != 3 {
		t.Errorf("%v", total)
	}
}

func TestLeft(t *testing.T) {
	q := resource.MustParse
	for want, left := range map[string]resource.Quantity{
		"3": Left(q("4"), q("1")), "2500m": Left(q("4"), q("1"), q("500m")), "0": Left(q("1"), q("1500m")), "1Gi": Left(q("1Gi")),
	} {
		if left.Cmp(q(want)) != 0 {
			t.Errorf("%s is left, want %s", left.String(), want)
		}
	}
}
