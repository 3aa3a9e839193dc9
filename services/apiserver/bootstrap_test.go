package apiserver

import (
	"testing"
	"time"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// A cluster begins with the objects that clients count on.
func TestTheClustersOwnObjects(t *testing.T) {
	f := startMemory(t)
	deadline := time.Now().Add(time.Minute)
	for _, o := range []struct{ resource, namespace, name string }{
		{"v1/namespaces", "", "kube-node-lease"}, {"scheduling.k8s.io/v1/priorityclasses", "", "system-node-critical"},
		{"v1/services", "default", "kubernetes"}, {"networking.k8s.io/v1/servicecidrs", "", "kubernetes"},
	} {
		g, v, r := split(o.resource)
		get := func() (map[string]any, error) {
			resp, err := f.api.Get(f.ctx, &apiv1.GetRequest{Group: g, Version: v, Resource: r, Namespace: o.namespace, Name: o.name})
			if err != nil {
				return nil, err
			}
			return f.must(resp.GetObject(), nil), nil
		}
		obj, err := get()
		ready := func() bool {
			if r != "servicecidrs" {
				return true
			}
			conditions, _ := at(obj, "status", "conditions").([]any)
			return len(conditions) == 1 && at(conditions[0], "type") == "Ready" && at(conditions[0], "status") == "True"
		}
		for (err != nil || !ready()) && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
			obj, err = get()
		}
		if err != nil || !ready() {
			t.Errorf("%s %s: %v, %v", o.resource, o.name, obj, err)
		}
	}
}
