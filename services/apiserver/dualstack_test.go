package apiserver

import (
	"net/netip"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/services/apiserver/internal/memstore"
)

// A cluster that is started with a second range gives it to the ServiceCIDR "kubernetes" and to Services, which may let go of it again.
func TestSecondServiceRange(t *testing.T) {
	st := memory{memstore.New()}
	ranges := func(texts ...string) func(*Config) {
		return func(c *Config) {
			for _, text := range texts {
				c.ServiceCIDRs = append(c.ServiceCIDRs, netip.MustParsePrefix(text))
			}
		}
	}
	const four, six = "10.96.0.0/16", "fd00:10:96::/108"
	list := func(f *fixture, resource, namespace, name string, path ...string) []any {
		l, _ := at(f.must(f.get(resource, namespace, name)), path...).([]any)
		return l
	}
	const web = `{"metadata":{"name":"web"},"spec":{"ipFamilyPolicy":"PreferDualStack","ports":[{"port":80}]}}`

	t.Run("one", func(t *testing.T) {
		f := start(t, st, ranges(four))
		f.await("the range", func() bool {
			return len(list(f, "networking.k8s.io/v1/servicecidrs", "", "kubernetes", "status", "conditions")) == 1
		})
		f.must(f.create("v1/services", "default", web))
		if ips := list(f, "v1/services", "default", "web", "spec", "clusterIPs"); len(ips) != 1 {
			t.Errorf("%v of one range", ips)
		}
	})
	t.Run("two", func(t *testing.T) {
		f := start(t, st, ranges(four, six))
		f.await("both ranges", func() bool {
			return len(list(f, "networking.k8s.io/v1/servicecidrs", "", "kubernetes", "spec", "cidrs")) == 2
		})
		patch := func(body string) { f.must(f.change("v1/services", "default", "web", "merge-patch+json", body)) }
		patch(`{"metadata":{"labels":{"a":"b"}}}`)
		ips := list(f, "v1/services", "default", "web", "spec", "clusterIPs")
		if len(ips) != 2 {
			t.Fatalf("%v where two are preferred", ips)
		}
		f.must(f.get("networking.k8s.io/v1/ipaddresses", "", ips[1].(string)))
		patch(`{"spec":{"ipFamilyPolicy":"SingleStack"}}`)
		if left := list(f, "v1/services", "default", "web", "spec", "clusterIPs"); len(left) != 1 || left[0] != ips[0] {
			t.Errorf("%v of a single stack", left)
		}
		if _, err := f.get("networking.k8s.io/v1/ipaddresses", "", ips[1].(string)); !apierrors.IsNotFound(err) {
			t.Errorf("%v is still reserved: %v", ips[1], err)
		}
	})
}
