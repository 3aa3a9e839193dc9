package nodeipam

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	r, err := newRanges(netip.MustParsePrefix("10.0.0.0/22"), 24)
	if err != nil {
		t.Fatal(err)
	}
	r.usage = m.of(r.cluster)
	if err := r.occupy(netip.MustParsePrefix("10.0.0.0/23"), "a"); err != nil {
		t.Fatal(err)
	}
	_ = r.occupy(netip.MustParsePrefix("10.0.0.0/23"), "a") // it has them
	_ = r.occupy(netip.MustParsePrefix("10.0.0.0/23"), "b") // it cannot have them
	for _, node := range []string{"b", "c", "d"} {
		_, _ = r.take(node) // there is none for the last
	}
	r.release("a")
	const want = `# HELP node_ipam_controller_cidrset_allocation_tries_per_request Ranges that were looked at before a free one was found.
# TYPE node_ipam_controller_cidrset_allocation_tries_per_request histogram
node_ipam_controller_cidrset_allocation_tries_per_request_bucket{clusterCIDR="10.0.0.0/22",le="1"} 1
node_ipam_controller_cidrset_allocation_tries_per_request_bucket{clusterCIDR="10.0.0.0/22",le="5"} 2
node_ipam_controller_cidrset_allocation_tries_per_request_bucket{clusterCIDR="10.0.0.0/22",le="25"} 2
node_ipam_controller_cidrset_allocation_tries_per_request_bucket{clusterCIDR="10.0.0.0/22",le="125"} 2
node_ipam_controller_cidrset_allocation_tries_per_request_bucket{clusterCIDR="10.0.0.0/22",le="625"} 2
node_ipam_controller_cidrset_allocation_tries_per_request_bucket{clusterCIDR="10.0.0.0/22",le="+Inf"} 2
node_ipam_controller_cidrset_allocation_tries_per_request_sum{clusterCIDR="10.0.0.0/22"} 2
node_ipam_controller_cidrset_allocation_tries_per_request_count{clusterCIDR="10.0.0.0/22"} 2
# HELP node_ipam_controller_cidrset_cidrs_allocations_total Ranges of the cluster's that nodes were given, or had.
# TYPE node_ipam_controller_cidrset_cidrs_allocations_total counter
node_ipam_controller_cidrset_cidrs_allocations_total{clusterCIDR="10.0.0.0/22"} 4
# HELP node_ipam_controller_cidrset_cidrs_releases_total Ranges that are free again.
# TYPE node_ipam_controller_cidrset_cidrs_releases_total counter
node_ipam_controller_cidrset_cidrs_releases_total{clusterCIDR="10.0.0.0/22"} 2
# HELP node_ipam_controller_cidrset_usage_cidrs Which share of the ranges nodes have, from 0 to 1.
# TYPE node_ipam_controller_cidrset_usage_cidrs gauge
node_ipam_controller_cidrset_usage_cidrs{clusterCIDR="10.0.0.0/22"} 0.5
# HELP node_ipam_controller_cirdset_max_cidrs Ranges that there are in the cluster's.
# TYPE node_ipam_controller_cirdset_max_cidrs gauge
node_ipam_controller_cirdset_max_cidrs{clusterCIDR="10.0.0.0/22"} 4
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	m.forget()
	if n := testutil.CollectAndCount(m.most) + testutil.CollectAndCount(m.usage); n != 0 {
		t.Errorf("%d series after the leadership", n)
	}
}
