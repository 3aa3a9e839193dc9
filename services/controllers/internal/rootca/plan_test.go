package rootca

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	fresh := plan(ns, nil, "CA")
	if fresh == nil || fresh.Namespace != "a" || fresh.Name != "kube-root-ca.crt" || fresh.Data["ca.crt"] != "CA" || fresh.Annotations["kubernetes.io/description"] == "" {
		t.Fatalf("plan %+v", fresh)
	}
	if p := plan(ns, fresh, "CA"); p != nil {
		t.Errorf("a right map is written again: %+v", p)
	}
	tampered := fresh.DeepCopy()
	tampered.Data["extra"] = "x"
	if p := plan(ns, tampered, "CA"); p == nil || len(p.Data) != 1 {
		t.Errorf("a tampered map becomes %+v", p)
	}
	if p := plan(ns, fresh, "new CA"); p == nil || p.Data["ca.crt"] != "new CA" {
		t.Errorf("a new authority gives %+v", p)
	}
	ns.Status.Phase = corev1.NamespaceTerminating
	if p := plan(ns, nil, "CA"); p != nil {
		t.Errorf("a terminating namespace gets %+v", p)
	}
}
