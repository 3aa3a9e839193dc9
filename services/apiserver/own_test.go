package apiserver

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"howdah.dev/kit/pki"
)

// What every cluster has is made again when somebody removes it, by an API server that runs.
func TestTheClustersOwnObjectsComeBack(t *testing.T) {
	authority, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	f := startMemory(t, func(c *Config) {
		c.GatewayEndpoints = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:6443")}
		c.ClientCA = authority.PEM
	})
	for _, tt := range []struct{ resource, namespace, name, has string }{
		{"v1/services", "default", "kubernetes", `"clusterIP":"10.96.0.1"`},
		{"v1/endpoints", "default", "kubernetes", `"ip":"192.0.2.1"`},
		{"discovery.k8s.io/v1/endpointslices", "default", "kubernetes", `"192.0.2.1"`},
		{"v1/configmaps", "kube-system", "extension-apiserver-authentication", "BEGIN CERTIFICATE"},
		{"v1/configmaps", "kube-system", "kube-apiserver-legacy-service-account-token-tracking", `"since"`},
		{"networking.k8s.io/v1/servicecidrs", "", "kubernetes", `"message":"Kubernetes default Service CIDR is ready"`},
		{"v1/namespaces", "", "kube-node-lease", `"phase":"Active"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f.t = t
			here := func() (string, string) {
				raw, err := f.get(tt.resource, tt.namespace, tt.name)
				if err != nil || !strings.Contains(string(raw), tt.has) {
					return "", ""
				}
				u := f.object(raw, err)
				return string(u.GetUID()), u.GetResourceVersion()
			}
			var before string
			f.await("it is there", func() bool { before, _ = here(); return before != "" })
			if _, err := f.drop(tt.resource, tt.namespace, tt.name); err != nil {
				t.Fatal(err)
			}
			if tt.resource == "v1/namespaces" { // its content is gone
				u := f.object(f.get(tt.resource, "", tt.name))
				u.Object["spec"] = map[string]any{}
				if _, err := f.put(tt.resource, "finalize", u); err != nil {
					t.Fatal(err)
				}
			}
			f.await("it is back", func() bool { now, _ := here(); return now != "" && now != before })
		})
	}
}

// Where somebody has the Service kubernetes lead elsewhere, it leads to the gateways again, and what is well is not written for that.
func TestTheServiceOfTheClusterLeadsBack(t *testing.T) {
	f := startMemory(t, func(c *Config) { c.GatewayEndpoints = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:6443")} })
	const endpoints, slices = "v1/endpoints", "discovery.k8s.io/v1/endpointslices"
	version := func(resource string) (rv string) {
		f.await("it is there", func() bool {
			raw, err := f.get(resource, "default", "kubernetes")
			if err != nil || !strings.Contains(string(raw), "192.0.2.1") || strings.Contains(string(raw), "192.0.2.9") {
				return false
			}
			rv = f.object(raw, err).GetResourceVersion()
			return true
		})
		return rv
	}
	for _, tt := range []struct{ resource, other, edit string }{
		{slices, endpoints, `{"endpoints":[{"addresses":["192.0.2.9"]}]}`},
		{endpoints, slices, `{"subsets":[{"addresses":[{"ip":"192.0.2.9"}],"ports":[{"port":6443}]}]}`},
	} {
		before := version(tt.other)
		f.must(f.change(tt.resource, "default", "kubernetes", "merge-patch+json", tt.edit))
		version(tt.resource)
		if now := version(tt.other); now != before {
			t.Errorf("after an edit of %s, %s were written: version %s, was %s", tt.resource, tt.other, now, before)
		}
	}
}
