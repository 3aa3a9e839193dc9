package apiserver

import (
	"testing"

	"howdah.dev/services/apiserver/internal/presence"
)

// TestServerShowsItself waits for the Lease of an apiserver that has an identity.
func TestServerShowsItself(t *testing.T) {
	t.Parallel()
	f := startMemory(t, func(c *Config) { c.Identity = "host-1" })
	var got []byte
	f.await("the server's lease", func() bool {
		var err error
		got, err = f.get("coordination.k8s.io/v1/leases", "kube-system", presence.Name("host-1"))
		return err == nil
	})
	if l := f.must(got, nil); at(l, "metadata", "labels", "kubernetes.io/hostname") != "host-1" || at(l, "spec", "leaseDurationSeconds") != float64(3600) {
		t.Errorf("%v", l)
	}
}
