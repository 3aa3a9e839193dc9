package apiserver

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authn"
)

// BenchmarkAdmission is what the whole chain costs a new ConfigMap and a new Pod, with nothing configured and with policies.
func BenchmarkAdmission(b *testing.B) {
	const none = `"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":["example.com"],"apiVersions":["v1"],"resources":["x"]}]}`
	const both = `"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps","pods"]}]}`
	const deny = `,"validationActions":["Deny"]`
	for _, test := range []struct{ name, kind, spec, binding string }{
		{"none", "", "", ""},
		{"of other kinds", "validating", none + `,"validations":[{"expression":"object.metadata.name != 'y'"}]`, deny},
		{"validation", "validating", both + `,"validations":[{"expression":"object.metadata.name != 'y'"}]`, deny},
		{"variables and parameter", "validating", both + `,"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"variables":[{"name":"v","expression":"object.metadata.name + params.data.a"}],"validations":[{"expression":"variables.v != 'y'"},{"expression":"variables.v != 'z'"}]`,
			deny + `,"paramRef":{"name":"limits","namespace":"default","parameterNotFoundAction":"Deny"}`},
		{"mutation", "mutating", both + `,"reinvocationPolicy":"Never","mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/metadata/labels/a', value: 'b'}]"}}]`, ""},
	} {
		f := startMemory(b)
		f.must(f.create(configMaps, "default", `{"metadata":{"name":"limits"},"data":{"a":"c"}}`))
		f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
		if test.kind != "" {
			f.bind(test.kind, test.spec, test.binding)
		}
		f.fresh()
		table, chain := f.server.known.Table, f.server.objects.Admission
		user := &authn.User{Name: "admin", Groups: []string{"system:masters"}}
		run := func(b *testing.B, kind string, object func() metav1.Object) {
			res := table.FindKind(schema.GroupVersionKind{Version: "v1", Kind: kind})
			b.ReportAllocs()
			for b.Loop() {
				a := &admission.Attributes{Operation: admission.Create, Resource: res, Namespace: "default", Name: "x", User: user}
				switch o := object().(type) {
				case *corev1.Pod:
					a.Object = o
				case *corev1.ConfigMap:
					a.Object = o
				}
				if err := chain.Admit(b.Context(), a); err != nil {
					b.Fatal(err)
				}
				if err := chain.Validate(b.Context(), a); err != nil {
					b.Fatal(err)
				}
			}
		}
		labels := func() map[string]string { return map[string]string{"who": "x"} }
		b.Run(fmt.Sprintf("%s/configmap", test.name), func(b *testing.B) {
			run(b, "ConfigMap", func() metav1.Object {
				return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default", Labels: labels()}, Data: map[string]string{"a": "b"}}
			})
		})
		b.Run(fmt.Sprintf("%s/pod", test.name), func(b *testing.B) {
			run(b, "Pod", func() metav1.Object { return benchPod("x") })
		})
	}
}
