package kind_test

import (
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/registry"
)

func stored(t *testing.T, text string) (*registry.Resource, registry.Object) {
	t.Helper()
	_, obj := parse(t, text)
	res := table(t).FindKind(obj.GetObjectKind().GroupVersionKind())
	out, err := res.ToStored(obj)
	if err != nil {
		t.Fatal(err)
	}
	return res, out
}

// An Ingress of either beta version is stored with the backends of the stable one.
func TestBetaIngress(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"networking.k8s.io/v1beta1", "extensions/v1beta1"} {
		text := "{apiVersion: " + version + ", kind: Ingress, metadata: {name: a, namespace: default}, spec: {backend: {serviceName: s, servicePort: 80}, " +
			"rules: [{host: h.example.com, http: {paths: [{path: /x, backend: {serviceName: t, servicePort: web}}]}}]}}"
		res, obj := stored(t, text)
		ing := obj.(*networkingv1.Ingress)
		if errs := res.Kind.Validate(ing); len(errs) > 0 {
			t.Error(errs.ToAggregate())
		}
		path := ing.Spec.Rules[0].HTTP.Paths[0]
		if b := ing.Spec.DefaultBackend.Service; b.Name != "s" || b.Port.Number != 80 || path.Backend.Service.Port.Name != "web" || *path.PathType != networkingv1.PathTypeImplementationSpecific {
			got, _ := yaml.Marshal(ing)
			t.Errorf("%s is stored as\n%s", version, got)
		}
	}
}

// What an empty selector means differs: it is turned into what means the same.
func TestBetaBudget(t *testing.T) {
	t.Parallel()
	const head = "{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {name: a, namespace: default}, spec: {minAvailable: 1, "
	res, none := stored(t, head+"selector: {}}}")
	selector := none.(*policyv1.PodDisruptionBudget).Spec.Selector
	if len(selector.MatchExpressions) != 1 || selector.MatchExpressions[0].Operator != "Exists" {
		t.Errorf("no pod is %v", selector)
	}
	every := none.DeepCopyObject().(*policyv1.PodDisruptionBudget)
	every.Spec.Selector.MatchExpressions = nil
	served, err := res.FromStored(every)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := yaml.Marshal(served)
	if again, err := res.ToStored(served); err != nil || len(again.(*policyv1.PodDisruptionBudget).Spec.Selector.MatchExpressions) != 0 {
		t.Errorf("every pod is served as\n%s", text)
	}
}

// A request for devices that names no class is a choice among several, unless it says anything else; how many it wants is left open then.
func TestBetaDevices(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]string{
		"deviceClassName: x":                      "ExactCount 1",
		"deviceClassName: x, allocationMode: All": "All 0",
		"count: 2":                    " 2",
		"selectors: []":               " 0",
		"firstAvailable: [{name: a}]": "none, ExactCount 1",
		"firstAvailable: [{name: a}], adminAccess: true": " 0, ExactCount 1",
	} {
		_, obj := parse(t, "{apiVersion: resource.k8s.io/v1beta1, kind: ResourceClaim, metadata: {name: c, namespace: default}, spec: {devices: {requests: [{name: r, "+request+"}]}}}")
		res := table(t).FindKind(obj.GetObjectKind().GroupVersionKind())
		res.Default(obj)
		out, err := res.ToStored(obj)
		if err != nil {
			t.Fatal(err)
		}
		r, got := out.(*resourcev1.ResourceClaim).Spec.Devices.Requests[0], "none"
		if r.Exactly != nil {
			got = fmt.Sprint(r.Exactly.AllocationMode, " ", r.Exactly.Count)
		}
		for _, sub := range r.FirstAvailable {
			got += fmt.Sprint(", ", sub.AllocationMode, " ", sub.Count)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
}
