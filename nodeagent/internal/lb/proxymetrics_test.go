package lb

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// series returns what a registry holds by name and labels: values, and of histograms the sum.
func series(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
			if h := m.GetHistogram(); h != nil {
				out[name+" count"] = float64(h.GetSampleCount())
			}
		}
	}
	return out
}

func TestRoundsAreToldAsOfKubeProxy(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	m := memoryMaps()
	fail := 0
	m.Frontends = switched{m.Frontends, &fail}
	registry := prometheus.NewRegistry()
	s := memorySyncer(t, Config{Now: func() time.Time { return now }, Metrics: registry}, m)
	check := func(when string, want map[string]float64) {
		t.Helper()
		got := series(t, registry)
		for name, value := range want {
			if have, ok := got["kubeproxy_"+name]; !ok || have != value {
				t.Errorf("%s: %s is %v, not %v", when, name, have, value)
			}
		}
	}
	sync := func() { _ = s.sync(context.Background(), false) }
	changed := func(at time.Time, revision int, addresses ...string) *discoveryv1.EndpointSlice {
		slice := endpointSlice("web", 8080, addresses...)
		slice.ResourceVersion = fmt.Sprint(revision)
		slice.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: at.UTC().Format(time.RFC3339Nano)}
		return slice
	}

	s.Update(context.Background(), service("web", "10.96.0.10", tcp(80)))
	s.Update(context.Background(), changed(now.Add(-time.Second), 1, "10.77.1.2")) // of before: another's to write
	check("before the first round", map[string]float64{
		"sync_proxy_rules_service_changes_pending": 1, "sync_proxy_rules_endpoint_changes_pending": 1, "sync_proxy_rules_last_queued_timestamp_seconds IPv4": 1000,
	})
	sync()
	check("after it", map[string]float64{
		"sync_proxy_rules_service_changes_pending": 0, "sync_proxy_rules_endpoint_changes_pending": 0,
		"sync_proxy_rules_service_changes_total": 1, "sync_proxy_rules_endpoint_changes_total": 1,
		"sync_proxy_rules_duration_seconds IPv4 count": 1, "sync_full_proxy_rules_duration_seconds IPv4 count": 1, "sync_partial_proxy_rules_duration_seconds IPv4 count": 0,
		"sync_proxy_rules_last_timestamp_seconds IPv4": 1000, "network_programming_duration_seconds IPv4 count": 0,
	})

	now = now.Add(10 * time.Second)
	last := changed(now.Add(-2*time.Second), 2, "10.77.1.2", "10.77.1.3")
	s.Update(context.Background(), last)
	s.Update(context.Background(), last) // once more is no news
	fail = 1
	sync()
	check("a round that fails", map[string]float64{
		"network_programming_duration_seconds IPv4 count": 0, "sync_proxy_rules_last_timestamp_seconds IPv4": 1000, "sync_proxy_rules_endpoint_changes_total": 2,
	})
	now = now.Add(time.Second)
	sync()
	check("the next one", map[string]float64{
		"network_programming_duration_seconds IPv4 count": 1, "network_programming_duration_seconds IPv4": 3, "sync_proxy_rules_last_timestamp_seconds IPv4": 1011,
		"sync_partial_proxy_rules_duration_seconds IPv4 count": 2,
	})
	relabelled := changed(now.Add(-3*time.Second), 3, "10.77.1.2", "10.77.1.3")
	s.Update(context.Background(), relabelled)
	s.Delete(context.Background(), relabelled)
	sync()
	check("a slice that bears no news, and goes", map[string]float64{"network_programming_duration_seconds IPv4 count": 1, "sync_proxy_rules_endpoint_changes_total": 4})
}

func TestPortsWithoutLocalEndpointsAreCounted(t *testing.T) {
	t.Parallel()
	local := func(policy corev1.ServiceInternalTrafficPolicy, kind corev1.ServiceType) *corev1.Service {
		s := service("web", "10.96.0.10", tcp(80), udp(53))
		s.Spec.InternalTrafficPolicy, s.Spec.Type = &policy, kind
		if kind == corev1.ServiceTypeLoadBalancer {
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
		return s
	}
	here, elsewhere := endpointSlice("web", 8080, "10.77.1.2"), endpointSlice("web", 8080, "10.77.2.2")
	elsewhere.Endpoints[0].NodeName = new("node2")
	for name, c := range map[string]struct {
		svc              *corev1.Service
		slice            *discoveryv1.EndpointSlice
		inside, external float64
	}{
		"endpoints here":            {local(corev1.ServiceInternalTrafficPolicyLocal, corev1.ServiceTypeLoadBalancer), here, 0, 0},
		"endpoints elsewhere":       {local(corev1.ServiceInternalTrafficPolicyLocal, corev1.ServiceTypeLoadBalancer), elsewhere, 2, 2},
		"from outside alone":        {local(corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceTypeLoadBalancer), elsewhere, 0, 2},
		"from inside alone":         {local(corev1.ServiceInternalTrafficPolicyLocal, corev1.ServiceTypeClusterIP), elsewhere, 2, 0},
		"traffic goes everywhere":   {local(corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceTypeClusterIP), elsewhere, 0, 0},
		"no endpoints at all":       {local(corev1.ServiceInternalTrafficPolicyLocal, corev1.ServiceTypeLoadBalancer), endpointSlice("web", 8080), 0, 0},
		"endpoints of other family": {local(corev1.ServiceInternalTrafficPolicyLocal, corev1.ServiceTypeLoadBalancer), endpointSlice("web", 8080, "fd77::2"), 0, 0},
	} {
		registry := prometheus.NewRegistry()
		s := memorySyncer(t, Config{Metrics: registry}, memoryMaps())
		s.Update(context.Background(), c.svc)
		s.Update(context.Background(), c.slice)
		read := func() (inside, external float64) {
			if err := s.sync(context.Background(), false); err != nil {
				t.Fatal(err)
			}
			got := series(t, registry)
			return got["kubeproxy_sync_proxy_rules_no_local_endpoints_total IPv4 internal"], got["kubeproxy_sync_proxy_rules_no_local_endpoints_total IPv4 external"]
		}
		if inside, external := read(); inside != c.inside || external != c.external {
			t.Errorf("%s: %v from inside and %v from outside, not %v and %v", name, inside, external, c.inside, c.external)
		}
		s.Delete(context.Background(), c.svc)
		if inside, external := read(); inside != 0 || external != 0 {
			t.Errorf("%s: a service that is gone is counted", name)
		}
	}
}
