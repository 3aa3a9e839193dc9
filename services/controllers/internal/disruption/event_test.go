package disruption

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUnmanagedIsTold: in the words that kube-controller-manager 1.36.3 was heard to use.
func TestUnmanagedIsTold(t *testing.T) {
	t.Parallel()
	b := &policyv1.PodDisruptionBudget{}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "bare"}}
	const want = `Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: bare,},` +
		`MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated ` +
		`correctly, which may result in undefined behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.`
	if got := unmanaged(b); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
