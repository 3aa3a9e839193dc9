package allocator

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"howdah.dev/services/apiserver/internal/registry"
)

// TestMetrics has allocations counted as Kubernetes counts them.
func TestMetrics(t *testing.T) {
	t.Parallel()
	a := setup("10.0.0.0/29", 30000, 30001)
	gathered := prometheus.NewPedanticRegistry()
	gathered.MustRegister(a)
	ctx := t.Context()
	reserve := func(pool, value string) (*Session, error) {
		s := a.Begin(Owner{Key: "o"}, false)
		return s, s.Reserve(ctx, registry.Reservation{Pool: pool, Value: value})
	}
	kept, err := reserve(ClusterIPs, "10.0.0.3")
	if err != nil {
		t.Fatal(err)
	}
	kept.End(true)
	if _, err := reserve(ClusterIPs, "10.0.0.3"); err == nil {
		t.Error("an address was given twice")
	}
	if _, err := reserve(ClusterIPs, "192.168.0.1"); err == nil {
		t.Error("an address of no range was given")
	}
	if err := a.Begin(Owner{Key: "o"}, true).Reserve(ctx, registry.Reservation{Pool: ClusterIPs, Value: "10.0.0.4"}); err != nil {
		t.Error(err) // a dry run, which counts for nothing
	}
	kept, err = reserve(NodePorts, "30000/TCP")
	if err != nil {
		t.Fatal(err)
	}
	kept.End(true)
	one, two := a.Begin(Owner{Key: "o"}, false), a.Begin(Owner{Key: "p"}, false)
	if _, err := one.Next(ctx, NodePorts); err != nil {
		t.Error(err)
	}
	if _, err := two.Next(ctx, NodePorts); err == nil {
		t.Error("a port was given twice")
	}
	if _, err := one.Next(ctx, ClusterIPs+"/IPv4"); err != nil {
		t.Error(err)
	}
	const want = `
# HELP kube_apiserver_clusterip_allocator_allocated_ips Addresses of a range that are taken.
# TYPE kube_apiserver_clusterip_allocator_allocated_ips gauge
kube_apiserver_clusterip_allocator_allocated_ips{cidr="10.0.0.0/29"} 1
# HELP kube_apiserver_clusterip_allocator_allocation_errors_total Addresses that could not be given to Services.
# TYPE kube_apiserver_clusterip_allocator_allocation_errors_total counter
kube_apiserver_clusterip_allocator_allocation_errors_total{cidr="10.0.0.0/29",scope="static"} 1
# HELP kube_apiserver_clusterip_allocator_allocation_total Addresses that were given to Services, those that they named (static) and those picked here (dynamic).
# TYPE kube_apiserver_clusterip_allocator_allocation_total counter
kube_apiserver_clusterip_allocator_allocation_total{cidr="10.0.0.0/29",scope="dynamic"} 1
kube_apiserver_clusterip_allocator_allocation_total{cidr="10.0.0.0/29",scope="static"} 1
# HELP kube_apiserver_clusterip_allocator_available_ips Addresses of a range that are free.
# TYPE kube_apiserver_clusterip_allocator_available_ips gauge
kube_apiserver_clusterip_allocator_available_ips{cidr="10.0.0.0/29"} 5
# HELP kube_apiserver_nodeport_allocator_allocated_ports Node ports that are taken.
# TYPE kube_apiserver_nodeport_allocator_allocated_ports gauge
kube_apiserver_nodeport_allocator_allocated_ports 1
# HELP kube_apiserver_nodeport_allocator_allocation_errors_total Node ports that could not be given to Services.
# TYPE kube_apiserver_nodeport_allocator_allocation_errors_total counter
kube_apiserver_nodeport_allocator_allocation_errors_total{scope="dynamic"} 1
# HELP kube_apiserver_nodeport_allocator_allocation_total Node ports that were given to Services.
# TYPE kube_apiserver_nodeport_allocator_allocation_total counter
kube_apiserver_nodeport_allocator_allocation_total{scope="dynamic"} 1
kube_apiserver_nodeport_allocator_allocation_total{scope="static"} 1
# HELP kube_apiserver_nodeport_allocator_available_ports Node ports that are free.
# TYPE kube_apiserver_nodeport_allocator_available_ports gauge
kube_apiserver_nodeport_allocator_available_ports 1
`
	if err := testutil.GatherAndCompare(gathered, strings.NewReader(want), "kube_apiserver_clusterip_allocator_allocated_ips",
		"kube_apiserver_clusterip_allocator_allocation_errors_total", "kube_apiserver_clusterip_allocator_allocation_total",
		"kube_apiserver_clusterip_allocator_available_ips", "kube_apiserver_nodeport_allocator_allocated_ports",
		"kube_apiserver_nodeport_allocator_allocation_errors_total", "kube_apiserver_nodeport_allocator_allocation_total",
		"kube_apiserver_nodeport_allocator_available_ports"); err != nil {
		t.Error(err)
	}
}
