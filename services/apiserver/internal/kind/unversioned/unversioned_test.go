package unversioned_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"howdah.dev/services/apiserver/internal/kind/unversioned"
)

func TestValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value any
		want  string
	}{
		{"a", `"a"`},
		{int32(3), "3"},
		{[]string{"a"}, `["a"]`},
		{map[string]string{"b": "c", "a": "<"}, `{"a":"\u003c","b":"c"}`},
		{metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, `{"matchLabels":{"a":"b"}}`},
		{
			policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1))},
			`{"MinAvailable":1,"Selector":null,"MaxUnavailable":null,"UnhealthyPodEvictionPolicy":null}`,
		},
		{&rbacv1.RoleRef{Kind: "Role", Name: `a"b`}, `{"APIGroup":"","Kind":"Role","Name":"a\"b"}`},
		{[]rbacv1.RoleRef{{}, {Name: "n"}}, `[{"APIGroup":"","Kind":"","Name":""},{"APIGroup":"","Kind":"","Name":"n"}]`},
		{(*rbacv1.RoleRef)(nil), "null"},
		{corev1.ResourceList{"cpu": resource.MustParse("1")}, `{"cpu":"1"}`},
		{map[string]rbacv1.RoleRef{"b": {}, "a": {}}, `{"a":{"APIGroup":"","Kind":"","Name":""},"b":{"APIGroup":"","Kind":"","Name":""}}`},
		{corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}},
			`{"Prefix":"","ConfigMapRef":{"Name":"c","Optional":null},"SecretRef":null}`},
		{appsv1.DaemonSetUpdateStrategy{Type: "Magic", RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: ptr.To(intstr.FromString("1%"))}},
			`{"Type":"Magic","RollingUpdate":{"MaxUnavailable":0,"MaxSurge":"1%"}}`},
		{appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{}},
			`{"Type":"","RollingUpdate":{"Partition":0,"MaxUnavailable":null}}`},
		{unversioned.Tagged{Value: rbacv1.RoleRef{Name: "n"}}, `{"apiGroup":"","kind":"","name":"n"}`},
	} {
		errs := unversioned.Values(field.ErrorList{field.Invalid(field.NewPath("f"), c.value, "no")})
		if got := strings.TrimSuffix(strings.TrimPrefix(errs[0].ErrorBody(), "Invalid value: "), ": no"); got != c.want {
			t.Errorf("%#v:\n got %s\nwant %s", c.value, got, c.want)
		}
	}
}
