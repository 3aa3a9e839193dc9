package peers

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

func TestPeers(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	leases := object.For(client, object.Lease)
	now := time.Now()
	for _, l := range []struct {
		name, gateways, version string
		age                     time.Duration
		other                   bool
	}{{"b", "192.0.2.2:6443,192.0.2.3:6443", "v1.36.3", 0, false}, {"a", "", "", time.Minute, false}, {"x", "", "", 0, true}} {
		renewed := metav1.NewMicroTime(now.Add(-l.age))
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "apiserver-" + l.name, Annotations: map[string]string{gatewaysAnnotation: l.gateways, versionAnnotation: l.version},
			Labels: map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": l.name},
		}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
		if l.other {
			lease.Labels = nil
		}
		if _, err := leases.Create(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	read := func() []ControlPlane {
		t.Helper()
		all, err := Leases(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		return Of(all, now)
	}
	got := read()
	if len(got) != 2 || got[0].Name != "a" || got[0].Alive || len(got[0].Gateways) != 0 || got[1].Name != "b" || !got[1].Alive || len(got[1].Gateways) != 2 || got[1].Version != "v1.36.3" {
		t.Errorf("%+v", got)
	}
	for range 2 {
		if err := Forget(t.Context(), client, "b"); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(); len(got) != 1 || got[0].Name != "a" {
		t.Errorf("%+v", got)
	}
	if Address("2001:db8::1", 6443) != "[2001:db8::1]:6443" {
		t.Error(Address("2001:db8::1", 6443))
	}
}
