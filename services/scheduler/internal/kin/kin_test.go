package kin

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func service(namespace, name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{Selector: selector}}
}

func TestSelector(t *testing.T) {
	t.Parallel()
	var v View
	v.SetService(service("shop", "web", map[string]string{"app": "web"}))
	v.SetService(service("shop", "front", map[string]string{"tier": "front"}))
	v.SetService(service("shop", "manual", nil))
	v.SetService(service("other", "all", map[string]string{"app": "db"}))
	v.SetController("rs", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "hash", Operator: metav1.LabelSelectorOpIn, Values: []string{"1"}}}})
	v.SetController("broken", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "hash", Operator: "?"}}})
	v.SetController("gone", &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}})
	before := v.Clone()
	v.DeleteController("gone")

	type set = map[string]string
	for what, test := range map[string]struct {
		labels set
		owner  types.UID
		want   string
	}{
		"nobody":               {set{"app": "db"}, "", ""},
		"a service":            {set{"app": "web"}, "", "app=web"},
		"two services":         {set{"app": "web", "tier": "front"}, "", "app=web,tier=front"},
		"a controller":         {set{"app": "db", "hash": "1"}, "rs", "hash in (1)"},
		"both":                 {set{"app": "web", "hash": "1"}, "rs", "app=web,hash in (1)"},
		"another's controller": {set{"app": "db"}, "job", ""},
		"a wrong selector":     {set{"app": "db"}, "broken", ""},
		"one that is gone":     {set{"app": "db"}, "gone", ""},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", Labels: test.labels}}
		if test.owner != "" {
			controller := true
			p.OwnerReferences = []metav1.OwnerReference{{UID: test.owner, Controller: &controller}}
		}
		got := ""
		if s := v.Selector(p); s != nil {
			got = s.String()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", what, got, test.want)
		}
	}
	v.SetService(service("shop", "web", nil))
	v.DeleteService(service("shop", "front", nil))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: set{"app": "web", "tier": "front"}}}
	if s := v.Selector(p); s != nil {
		t.Errorf("services that select no more: %v", s)
	}
	if s := before.Selector(p); s == nil {
		t.Error("a clone has changed")
	}
}
