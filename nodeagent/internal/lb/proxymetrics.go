package lb

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// proxyMetrics tell under kube-proxy's names what means the same here. One round writes both families: it counts for each that the node has.
type proxyMetrics struct {
	families []proxyFamily
	// programming is by the family of a slice; there is none where it is not one of the node's.
	programming map[family]prometheus.Observer

	endpointChanges, serviceChanges   prometheus.Counter
	endpointsPending, servicesPending prometheus.Gauge
}

// proxyFamily is the part of one family.
type proxyFamily struct {
	family                      family
	seconds, full, partial      prometheus.Observer
	written, queued             prometheus.Gauge
	nobodyInside, nobodyOutside prometheus.Gauge
}

// programmingBuckets are Kubernetes' bounds: the objective for this time is a matter of seconds, and its worst cases one of minutes.
var programmingBuckets = slices.Concat(
	prometheus.LinearBuckets(.25, .25, 2), prometheus.LinearBuckets(1, 1, 59), prometheus.LinearBuckets(60, 5, 12), prometheus.LinearBuckets(120, 30, 7))

// newProxyMetrics returns the metrics, and what is to be registered.
func newProxyMetrics(families []family) (*proxyMetrics, []prometheus.Collector) {
	var all []prometheus.Collector
	took := func(name, help string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubeproxy_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(.001, 2, 15),
		}, []string{"ip_family"})
		all = append(all, h)
		return h
	}
	is := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kubeproxy_" + name, Help: help}, labels)
		all = append(all, g)
		return g
	}
	count := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "kubeproxy_" + name, Help: help})
		all = append(all, c)
		return c
	}
	seconds := took("sync_proxy_rules_duration_seconds", "Time to write the changes of one round to the maps.")
	full := took("sync_full_proxy_rules_duration_seconds", "Time of the rounds that read the maps anew and compared everything.")
	partial := took("sync_partial_proxy_rules_duration_seconds", "Time of the rounds that wrote what had changed.")
	written := is("sync_proxy_rules_last_timestamp_seconds", "When everything was last in the maps, in seconds since 1970.", "ip_family")
	queued := is("sync_proxy_rules_last_queued_timestamp_seconds", "When there was last something to be written, in seconds since 1970.", "ip_family")
	nobody := is("sync_proxy_rules_no_local_endpoints_total", "Ports of services that have endpoints, but by their policy not for this node.", "traffic_policy", "ip_family")
	programming := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "kubeproxy_network_programming_duration_seconds", Help: "Time from a change of a pod or a service until its endpoints are in the maps.", Buckets: programmingBuckets,
	}, []string{"ip_family"})
	all = append(all, programming)
	m := &proxyMetrics{
		programming:      map[family]prometheus.Observer{},
		endpointChanges:  count("sync_proxy_rules_endpoint_changes_total", "Changes of EndpointSlices."),
		endpointsPending: is("sync_proxy_rules_endpoint_changes_pending", "Changes of EndpointSlices that no round has taken up yet.").WithLabelValues(),
		serviceChanges:   count("sync_proxy_rules_service_changes_total", "Changes of services."),
		servicesPending:  is("sync_proxy_rules_service_changes_pending", "Services whose changes no round has taken up yet.").WithLabelValues(),
	}
	for _, f := range families {
		label := string(f)
		m.families = append(m.families, proxyFamily{
			family: f, seconds: seconds.WithLabelValues(label), full: full.WithLabelValues(label), partial: partial.WithLabelValues(label),
			written: written.WithLabelValues(label), queued: queued.WithLabelValues(label),
			nobodyInside: nobody.WithLabelValues("internal", label), nobodyOutside: nobody.WithLabelValues("external", label),
		})
		m.programming[f] = programming.WithLabelValues(label)
	}
	return m, all
}

// wrote tells of a round.
func (m *proxyMetrics) wrote(took time.Duration, full bool) {
	for _, f := range m.families {
		f.seconds.Observe(took.Seconds())
		if full {
			f.full.Observe(took.Seconds())
		} else {
			f.partial.Observe(took.Seconds())
		}
	}
}

// families are those of the node's addresses; without any, as in a test, IPv4.
func (c Config) families() []family {
	seen := map[family]bool{}
	for _, a := range c.At.NodeAddresses {
		seen[familyOf(a)] = true
	}
	if len(seen) == 0 {
		return []family{corev1.IPv4Protocol}
	}
	return slices.Sorted(maps.Keys(seen))
}

// trigger is when a change happened that led to a change of a service's endpoints.
type trigger struct {
	family family
	at     time.Time
}

// news are what the balancer has heard of and no round has taken up yet.
type news struct {
	endpoints int
	services  map[owner]bool
	triggers  map[owner][]trigger
}

func newNews() news { return news{services: map[owner]bool{}, triggers: map[owner][]trigger{}} }

// hear notes a change before it is taken in. What is given once more though it has not changed is no news. b.mu is held.
func (b *Balancer) hear(obj any, gone bool) {
	switch o := obj.(type) {
	case *corev1.Service:
		key := serviceOwner(o.Namespace, o.Name)
		if before := b.in.services[key]; before != nil && !gone && o.ResourceVersion != "" && before.ResourceVersion == o.ResourceVersion {
			return
		}
		b.news.services[key] = true
		b.metrics.proxy.serviceChanges.Inc()
		b.metrics.proxy.servicesPending.Set(float64(len(b.news.services)))
	case *discoveryv1.EndpointSlice:
		key := sliceOwner(o)
		if key.name == "" {
			return
		}
		before := b.in.slices[key][o.Name]
		if before != nil && !gone && o.ResourceVersion != "" && before.ResourceVersion == o.ResourceVersion {
			return
		}
		b.news.endpoints++
		b.metrics.proxy.endpointChanges.Inc()
		b.metrics.proxy.endpointsPending.Set(float64(b.news.endpoints))
		if gone { // what it bears is the time of an earlier change
			delete(b.news.triggers, key)
			return
		}
		at, ok := triggered(o)
		if ok && at.After(b.began) && (before == nil || before.Annotations[corev1.EndpointsLastChangeTriggerTime] != o.Annotations[corev1.EndpointsLastChangeTriggerTime]) {
			b.news.triggers[key] = append(b.news.triggers[key], trigger{family(o.AddressType), at})
		}
	}
}

// queue tells that there is something to be written.
func (m *proxyMetrics) queue(now time.Time) {
	for _, f := range m.families {
		f.queued.Set(seconds(now))
	}
}

// triggered is when the change happened that a slice is as it is for.
func triggered(s *discoveryv1.EndpointSlice) (time.Time, bool) {
	text, ok := s.Annotations[corev1.EndpointsLastChangeTriggerTime]
	if !ok {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, err == nil
}

// takeNews hands what was heard to the round that begins. b.mu is held.
func (s *syncer) takeNews() {
	for o, list := range s.news.triggers {
		s.triggers[o] = append(s.triggers[o], list...)
	}
	s.news = newNews()
	s.metrics.proxy.endpointsPending.Set(0)
	s.metrics.proxy.servicesPending.Set(0)
}

// tellWritten tells that everything is in the maps.
func (s *syncer) tellWritten(updates []update) {
	now := s.cfg.Now()
	for _, list := range s.triggers {
		for _, t := range list {
			if observer := s.metrics.proxy.programming[t.family]; observer != nil {
				observer.Observe(max(now.Sub(t.at), 0).Seconds())
			}
		}
	}
	clear(s.triggers)
	for _, u := range updates {
		if u.nobody == (nobodyHere{}) {
			delete(s.nobody, u.owner)
		} else {
			s.nobody[u.owner] = u.nobody
		}
	}
	for _, f := range s.metrics.proxy.families {
		f.written.Set(seconds(now))
		var sum [2]int
		for _, n := range s.nobody {
			at := n.of(f.family)
			sum[0], sum[1] = sum[0]+at[0], sum[1]+at[1]
		}
		f.nobodyInside.Set(float64(sum[0]))
		f.nobodyOutside.Set(float64(sum[1]))
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }

// nobodyHere counts the ports of a service, by family, that have endpoints but by the policy for traffic from inside, and for that from outside, none for this node.
type nobodyHere struct{ v4, v6 [2]int }

func (n *nobodyHere) of(f family) *[2]int {
	if f == corev1.IPv6Protocol {
		return &n.v6
	}
	return &n.v4
}

// nobodyHere counts for an owner; of those that take traffic from everywhere nothing has to be looked at.
func (in *inputs) nobodyHere(o owner) (out nobodyHere) {
	svc := in.services[o]
	if o.kind != kindService || svc == nil || svc.Labels[labelProxyName] != "" {
		return out
	}
	inside, outside := insideOnly(svc), localOnly(svc)
	if !inside && !outside {
		return out
	}
	endpointSlices := in.slicesOf(svc)
	for _, port := range svc.Spec.Ports {
		for _, ip := range clusterIPs(svc) {
			endpoints := endpointsOf(port, familyOf(ip), endpointSlices, in.node)
			if len(rotation(endpoints, false, in.node)) == 0 || len(rotation(endpoints, true, in.node)) > 0 {
				continue
			}
			n := out.of(familyOf(ip))
			if inside {
				n[0]++
			}
			if outside {
				n[1]++
			}
		}
	}
	return out
}
