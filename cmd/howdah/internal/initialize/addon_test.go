package initialize

import (
	"testing"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/kit/object"
)

func TestAddons(t *testing.T) {
	t.Parallel()
	m := setup(t)
	ensure := func() {
		t.Helper()
		c := m.addons()
		if !c.GatewayAPI || c.GatewayClass == "" {
			t.Errorf("%+v", c)
		}
		c.GatewayAPI, c.GatewayClass = false, "" // the test's API has no definitions of kinds; TestMachines makes them
		if err := ensureAddons(t.Context(), m.client, c); err != nil {
			t.Fatal(err)
		}
	}
	ensure()
	if _, err := object.For(m.client, object.StorageClass).Get(t.Context(), "", "local-path"); err != nil {
		t.Error(err)
	}
	services := object.For(m.client, object.Service)
	if _, err := services.Get(t.Context(), "kube-system", "kube-dns"); err == nil {
		t.Error("there is a Service of no DNS server")
	}
	m.Cluster.DNS.Address = "192.0.2.53"
	ensure()
	ensure()
	if s, err := services.Get(t.Context(), "kube-system", "kube-dns"); err != nil || s.Spec.ClusterIP != "10.96.0.10" {
		t.Errorf("%v, %v", s, err)
	}
	if c, err := object.For(m.client, object.ConfigMap).Get(t.Context(), "kube-system", bootstrap.ConfigName); err != nil || c.Data["cluster-dns"] != "10.96.0.10" {
		t.Errorf("nodes are not told: %v, %v", c, err)
	}
}
