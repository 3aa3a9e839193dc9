package allocator

import (
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/services/apiserver/internal/registry"
)

// How a value was come by: named by the object, or picked here.
const (
	static  = "static"
	dynamic = "dynamic"
)

// metrics have Kubernetes' names.
type metrics struct {
	addresses, addressErrors *prometheus.CounterVec
	seconds                  *prometheus.HistogramVec
	ports, portErrors        *prometheus.CounterVec
}

func newMetrics() metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kube_apiserver_" + name, Help: help}, labels)
	}
	return metrics{
		addresses:     counter("clusterip_allocator_allocation_total", "Addresses that were given to Services, those that they named (static) and those picked here (dynamic).", "cidr", "scope"),
		addressErrors: counter("clusterip_allocator_allocation_errors_total", "Addresses that could not be given to Services.", "cidr", "scope"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kube_apiserver_clusterip_allocator_allocation_duration_seconds", Help: "Time that it took to find an address. It is stored with the Service.", Buckets: prometheus.DefBuckets,
		}, []string{"cidr"}),
		ports:      counter("nodeport_allocator_allocation_total", "Node ports that were given to Services.", "scope"),
		portErrors: counter("nodeport_allocator_allocation_errors_total", "Node ports that could not be given to Services.", "scope"),
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.addresses, m.addressErrors, m.seconds, m.ports, m.portErrors}
}

// address counts what came of looking for an address in a range. An invalid range is none: nothing was looked for.
func (m *metrics) address(cidr netip.Prefix, scope string, start time.Time, err error) {
	if !cidr.IsValid() {
		return
	}
	if err != nil {
		m.addressErrors.WithLabelValues(cidr.String(), scope).Inc()
		return
	}
	m.addresses.WithLabelValues(cidr.String(), scope).Inc()
	m.seconds.WithLabelValues(cidr.String()).Observe(time.Since(start).Seconds())
}

func (m *metrics) port(scope string, err error) {
	if err != nil {
		m.portErrors.WithLabelValues(scope).Inc()
		return
	}
	m.ports.WithLabelValues(scope).Inc()
}

// reserved counts what came of a value that an object names.
func (a *Allocator) reserved(r registry.Reservation, start time.Time, err error) {
	switch r.Pool {
	case NodePorts:
		a.metrics.port(static, err)
	case ClusterIPs:
		if ip, bad := parse(r.Value); bad == nil {
			a.metrics.address(a.rangeOf(ip), static, start, err)
		}
	}
}

// rangeOf is the range that gives out an address; an invalid one where none does.
func (a *Allocator) rangeOf(ip netip.Addr) netip.Prefix {
	for _, p := range a.cfg.Addresses.Ranges() {
		if gives(p, ip) {
			return p
		}
	}
	return netip.Prefix{}
}

var (
	addressesTaken = prometheus.NewDesc("kube_apiserver_clusterip_allocator_allocated_ips", "Addresses of a range that are taken.", []string{"cidr"}, nil)
	addressesFree  = prometheus.NewDesc("kube_apiserver_clusterip_allocator_available_ips", "Addresses of a range that are free.", []string{"cidr"}, nil)
	portsTaken     = prometheus.NewDesc("kube_apiserver_nodeport_allocator_allocated_ports", "Node ports that are taken.", nil, nil)
	portsFree      = prometheus.NewDesc("kube_apiserver_nodeport_allocator_available_ports", "Node ports that are free.", nil, nil)
)

// Describe implements prometheus.Collector.
func (a *Allocator) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{addressesTaken, addressesFree, portsTaken, portsFree} {
		out <- d
	}
	for _, c := range a.metrics.collectors() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (a *Allocator) Collect(out chan<- prometheus.Metric) {
	ips, ports := a.takenNow()
	told := map[netip.Prefix]bool{}
	for _, p := range a.cfg.Addresses.Ranges() {
		if told[p] { // two ServiceCIDRs may have the same
			continue
		}
		told[p] = true
		_, size := usable(p)
		taken := 0
		for _, ip := range ips {
			if p.Contains(ip) {
				taken++
			}
		}
		out <- prometheus.MustNewConstMetric(addressesTaken, prometheus.GaugeValue, float64(taken), p.String())
		out <- prometheus.MustNewConstMetric(addressesFree, prometheus.GaugeValue, float64(size-taken), p.String())
	}
	out <- prometheus.MustNewConstMetric(portsTaken, prometheus.GaugeValue, float64(ports))
	out <- prometheus.MustNewConstMetric(portsFree, prometheus.GaugeValue, float64(a.cfg.LastPort-a.cfg.FirstPort+1-ports))
	for _, c := range a.metrics.collectors() {
		c.Collect(out)
	}
}

// takenNow returns the addresses that are committed, and how many ports are; one of several protocols counts once.
func (a *Allocator) takenNow() (ips []netip.Addr, ports int) {
	addresses, numbers := a.cfg.Addresses.Prefix(), map[string]struct{}{}
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.taken {
		if text, ok := strings.CutPrefix(key, addresses); ok {
			if ip, err := netip.ParseAddr(text); err == nil {
				ips = append(ips, ip)
			}
		} else if text, ok := strings.CutPrefix(key, Prefix+NodePorts+"/"); ok {
			number, _, _ := strings.Cut(text, "/")
			numbers[number] = struct{}{}
		}
	}
	return ips, len(numbers)
}
