package bootstrap

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestServiceSaysItsFamilies holds that whoever reads the managed fields of the Service kubernetes finds those that kube-apiserver says, before defaults.
func TestServiceSaysItsFamilies(t *testing.T) {
	t.Parallel()
	got := service(Config{ServiceIP: netip.MustParseAddr("10.96.0.1"), Gateways: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:7777")}}).Spec
	if got.IPFamilyPolicy == nil || *got.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
		t.Errorf("ipFamilyPolicy is %v, want SingleStack", got.IPFamilyPolicy)
	}
	if got.ClusterIP != "10.96.0.1" || got.Ports[0].TargetPort.IntValue() != 7777 {
		t.Errorf("leads from %s to port %s", got.ClusterIP, got.Ports[0].TargetPort.String())
	}
}
