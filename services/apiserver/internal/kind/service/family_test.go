package service

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/registry"
)

// What Kubernetes 1.36 says of changes of families and addresses, where it has two.
func TestFamiliesChange(t *testing.T) {
	t.Parallel()
	const ports = ", ports: [{port: 80}]}"
	for name, c := range map[string]struct {
		before string
		change func(*corev1.ServiceSpec)
		ips    int
		want   string
	}{
		"a second":          {"{ipFamilies: [IPv4]", func(s *corev1.ServiceSpec) { *s.IPFamilyPolicy = corev1.IPFamilyPolicyPreferDualStack }, 2, ""},
		"one again":         {"{ipFamilyPolicy: RequireDualStack", func(s *corev1.ServiceSpec) { *s.IPFamilyPolicy = corev1.IPFamilyPolicySingleStack }, 1, ""},
		"headless, another": {"{clusterIP: None, selector: {a: b}, ipFamilies: [IPv4]", func(s *corev1.ServiceSpec) { s.IPFamilies = []corev1.IPFamily{"IPv6"} }, 1, ""},
		"another address": {"{ipFamilies: [IPv6]", func(s *corev1.ServiceSpec) {
			s.ClusterIP, s.ClusterIPs, s.IPFamilies = "10.96.7.7", nil, nil
		}, 1, `spec.clusterIPs[0]: Invalid value: ["10.96.7.7"]: may not change once set, spec.ipFamilies[0]: Invalid value: ["IPv4"]: may not change once set`},
		"the other way round": {"{ipFamilyPolicy: RequireDualStack", func(s *corev1.ServiceSpec) {
			s.ClusterIPs, s.IPFamilies = []string{s.ClusterIPs[1], s.ClusterIPs[0]}, nil
			s.ClusterIP = s.ClusterIPs[0]
		}, 2, `spec.clusterIPs[0]: Invalid value: ["fd00::2","10.96.0.1"]: may not change once set, spec.clusterIPs[1]: Invalid value: ["fd00::2","10.96.0.1"]: may not change once set, ` +
			`spec.ipFamilies[0]: Invalid value: ["IPv6","IPv4"]: may not change once set`},
		"turned and released": {"{ipFamilyPolicy: RequireDualStack", func(s *corev1.ServiceSpec) {
			*s.IPFamilyPolicy, s.IPFamilies = corev1.IPFamilyPolicySingleStack, []corev1.IPFamily{"IPv6", "IPv4"}
		}, 2, "spec.clusterIPs[0]: Invalid value: \"10.96.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`, " +
			"spec.clusterIPs[1]: Invalid value: \"fd00::2\": expected an IPv4 value as indicated by `ipFamilies[1]`"},
		"by name only": {"{ipFamilyPolicy: RequireDualStack", func(s *corev1.ServiceSpec) {
			s.Type, s.ExternalName, *s.IPFamilyPolicy = corev1.ServiceTypeExternalName, "a.b", corev1.IPFamilyPolicySingleStack
		}, 0, "spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &pools{taken: map[registry.Reservation]bool{}}
			old := parse(t, c.before+ports)
			if err := dual.allocate(t.Context(), p, old, nil); err != nil {
				t.Fatal(err)
			}
			s := old.DeepCopy()
			c.change(&s.Spec)
			prepareUpdate(s, old)
			var got []string
			if err := dual.allocate(t.Context(), p, s, old); err != nil {
				text := strings.TrimPrefix(err.Error(), `Service "web" is invalid: `)
				got = append(got, strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
			} else {
				for _, e := range validateUpdate(s, old) {
					got = append(got, e.Error())
				}
			}
			if all := strings.Join(got, ", "); all != c.want || len(s.Spec.ClusterIPs) != c.ips {
				t.Errorf("got  %s, %v\nwant %s", all, s.Spec.ClusterIPs, c.want)
			}
		})
	}
}
