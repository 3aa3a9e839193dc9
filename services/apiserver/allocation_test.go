package apiserver

import (
	"fmt"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestServicesShareNothing makes Services at two apiservers at once and checks that no address or port is given twice, and that what is
// freed can be had again.
func TestServicesShareNothing(t *testing.T) {
	f := startPostgres(t, func(c *Config) { c.NodePortRange = "30000-30063" })
	servers := []*fixture{f, serve(t, mustBuild(t, f.server.cfg))}
	const n = 60
	got := make([]map[string]any, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			b, err := servers[i%2].create("v1/services", "default", fmt.Sprintf(`{"metadata":{"name":"s%d"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`, i))
			if err != nil {
				t.Errorf("s%d: %v", i, err)
				return
			}
			got[i] = f.must(b, nil)
		})
	}
	wg.Wait()
	ips, ports := map[any]bool{}, map[any]bool{}
	for i, s := range got {
		ip := at(s, "spec", "clusterIP")
		port := at(s["spec"].(map[string]any)["ports"].([]any)[0], "nodePort")
		if ip == nil || port == nil || ips[ip] || ports[port] {
			t.Fatalf("s%d has %v and %v, which is missing or taken", i, ip, port)
		}
		ips[ip], ports[port] = true, true
	}
	ip := at(got[0], "spec", "clusterIP").(string)
	port := at(got[0]["spec"].(map[string]any)["ports"].([]any)[0], "nodePort").(float64)
	same := fmt.Sprintf(`{"metadata":{"name":"same"},"spec":{"type":"NodePort","clusterIP":%q,"ports":[{"port":80,"nodePort":%d}]}}`, ip, int(port))
	if _, err := servers[1].create("v1/services", "default", same); !apierrors.IsInvalid(err) {
		t.Errorf("a taken address: %v", err)
	}
	f.delete("v1/services", "s0")
	if _, err := servers[1].create("v1/services", "default", same); err != nil {
		t.Errorf("a freed address: %v", err)
	}
	if _, err := servers[0].create("v1/services", "default", `{"metadata":{"name":"low"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":80}]}}`); !apierrors.IsInvalid(err) {
		t.Errorf("a port outside the range: %v", err)
	}
}
