package apiserver

import (
	"strings"
	"testing"
)

// TestStartsOverTheQuota: a server whose database has no room for anything becomes ready all the same, with its own objects, and takes deletions.
func TestStartsOverTheQuota(t *testing.T) {
	t.Parallel()
	f := startPostgres(t, func(c *Config) { c.DatabaseQuota = 1 })
	f.must(f.get("v1/namespaces", "", "kube-node-lease"))
	f.await("creations are refused", func() bool {
		_, err := f.create(configMaps, "default", `{"metadata":{"generateName":"a-"}}`)
		return err != nil && status(err).Code == 500 && strings.HasPrefix(status(err).Message, "Internal error occurred: the database is over its quota")
	})
	if _, err := f.drop("scheduling.k8s.io/v1/priorityclasses", "", "system-node-critical"); err == nil {
		t.Error("a priority class of the system was deleted")
	} else if status(err).Code != 403 {
		t.Errorf("a deletion that is forbidden anyway: %v", err)
	}
	if _, err := f.drop("rbac.authorization.k8s.io/v1/clusterroles", "", "system:basic-user"); err != nil {
		t.Errorf("a deletion: %v", err)
	}
}
