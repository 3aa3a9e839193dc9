package nodestatus

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestHappenings(t *testing.T) {
	t.Parallel()
	node := func(boot string, conditions ...string) *corev1.Node {
		n := &corev1.Node{}
		n.Name, n.Status.NodeInfo.BootID = "n", boot
		for _, c := range conditions {
			kind, status, _ := strings.Cut(c, "=")
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(kind), Status: corev1.ConditionStatus(status)})
		}
		return n
	}
	const fine = "NodeHasSufficientMemory NodeHasNoDiskPressure NodeHasSufficientPID NodeReady"
	for name, test := range map[string]struct {
		before, now *corev1.Node
		want        string
	}{
		"new":                {&corev1.Node{}, node("1", "MemoryPressure=False", "DiskPressure=False", "PIDPressure=False", "Ready=True"), fine},
		"the same":           {node("1", "MemoryPressure=False", "Ready=True"), node("1", "MemoryPressure=False", "Ready=True"), ""},
		"short":              {node("1", "MemoryPressure=False", "DiskPressure=False", "PIDPressure=False"), node("1", "MemoryPressure=True", "DiskPressure=True", "PIDPressure=True"), "NodeHasInsufficientMemory NodeHasDiskPressure NodeHasInsufficientPID"},
		"new, and not ready": {&corev1.Node{}, node("1", "Ready=False"), ""},
		"not ready":          {node("1", "Ready=True"), node("1", "Ready=False"), "NodeNotReady"},
		"back":               {node("1", "Ready=Unknown"), node("1", "Ready=True"), "NodeReady"},
		"rebooted":           {node("1", "Ready=True"), node("2", "Ready=True"), "Rebooted"},
		"others' conditions": {node("1"), node("1", "example.com/Odd=True"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, h := range happenings(test.before, test.now) {
				want := "Node n status is now: " + h.reason
				if h.reason == "Rebooted" {
					want = "Node n has been rebooted, boot id: 2"
				}
				if h.message != want || (h.kind == corev1.EventTypeWarning) != (h.reason == "Rebooted") {
					t.Errorf("%+v", h)
				}
				got = append(got, h.reason)
			}
			if all := strings.Join(got, " "); all != test.want {
				t.Errorf("%q, want %q", all, test.want)
			}
		})
	}
}
