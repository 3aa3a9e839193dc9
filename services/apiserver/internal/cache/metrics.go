package cache

import "github.com/prometheus/client_golang/prometheus"

var (
	objectsDesc = prometheus.NewDesc("apiserver_storage_objects", "Objects in the cache, by resource.", []string{"resource"}, nil)
	// The same, as Kubernetes names it since 1.34.
	resourceDesc = prometheus.NewDesc("apiserver_resource_objects", "Objects in the cache, by group and resource.", []string{"group", "resource"}, nil)
	eventsDesc   = prometheus.NewDesc("apiserver_cache_events", "Recent events that watches can resume from, by resource.", []string{"resource"}, nil)
	appliedDesc  = prometheus.NewDesc("apiserver_cache_revision", "Revision that the cache has reached.", nil, nil)
	// What follows is Kubernetes' own of its watch cache, by group and resource.
	receivedDesc = byResource("apiserver_watch_cache_events_received_total", "Events that the cache has applied.")
	offeredDesc  = byResource("apiserver_watch_cache_events_dispatched_total", "Events that watchers were given.")
	loadsDesc    = byResource("apiserver_watch_cache_initializations_total", "Times that all objects were read from the database.")
	// The same: nothing of the log is kept from the cache.
	tailedDesc   = byResource("apiserver_storage_events_received_total", "Events that the database has told of.")
	sizeDesc     = byResource("apiserver_resource_size_estimate_bytes", "Bytes of the stored objects.")
	capacityDesc = byResource("watch_cache_capacity", "Recent events that are remembered at most.")
	lastDesc     = byResource("apiserver_watch_cache_resource_version", "Revision of the newest change in the cache, its 15 last digits.")
	endedDesc    = prometheus.NewDesc("apiserver_slow_watchers_total", "Watches that were ended because they did not keep up.", []string{"resource"}, nil)
)

func byResource(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"group", "resource"}, nil)
}

// Describe implements prometheus.Collector.
func (c *Cache) Describe(out chan<- *prometheus.Desc) {
	out <- objectsDesc
	out <- resourceDesc
	out <- eventsDesc
	out <- appliedDesc
	for _, d := range []*prometheus.Desc{receivedDesc, offeredDesc, loadsDesc, tailedDesc, sizeDesc, capacityDesc, lastDesc} {
		out <- d
	}
	out <- endedDesc
	describeReads(out)
	c.replays.resumed.Describe(out)
	c.replays.events.Describe(out)
	c.replays.seconds.Describe(out)
	c.waits.Describe(out)
}

// Collect implements prometheus.Collector.
func (c *Cache) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(appliedDesc, prometheus.GaugeValue, float64(c.Applied()))
	c.replays.resumed.Collect(out)
	c.replays.events.Collect(out)
	c.replays.seconds.Collect(out)
	c.waits.Collect(out)
	for kind, r := range c.resources.Load().byKind {
		name := kind.GroupResource().String()
		r.mu.RLock()
		objects, events, slow := len(r.items), len(r.ring.events)-r.ring.head, r.watchers.slow
		received, offered, loads, last, size := r.received, r.watchers.offered, r.loads, r.last, r.size
		r.mu.RUnlock()
		out <- prometheus.MustNewConstMetric(objectsDesc, prometheus.GaugeValue, float64(objects), name)
		out <- prometheus.MustNewConstMetric(resourceDesc, prometheus.GaugeValue, float64(objects), kind.GVK.Group, kind.Resource)
		out <- prometheus.MustNewConstMetric(eventsDesc, prometheus.GaugeValue, float64(events), name)
		counter := func(desc *prometheus.Desc, n int) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), kind.GVK.Group, kind.Resource)
		}
		counter(receivedDesc, received)
		counter(offeredDesc, offered)
		counter(loadsDesc, loads)
		counter(tailedDesc, received)
		out <- prometheus.MustNewConstMetric(sizeDesc, prometheus.GaugeValue, float64(size), kind.GVK.Group, kind.Resource)
		out <- prometheus.MustNewConstMetric(capacityDesc, prometheus.GaugeValue, ringMax, kind.GVK.Group, kind.Resource)
		r.reads.collect(out, kind.GVK.Group, kind.Resource)
		out <- prometheus.MustNewConstMetric(lastDesc, prometheus.GaugeValue, float64(last%1e15), kind.GVK.Group, kind.Resource)
		out <- prometheus.MustNewConstMetric(endedDesc, prometheus.CounterValue, float64(slow), name)
	}
}

// replayMetrics count what is read from the store's past.
type replayMetrics struct {
	resumed, events prometheus.Counter
	seconds         prometheus.Histogram
}

func newReplayMetrics() replayMetrics {
	return replayMetrics{
		resumed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_replayed_watches_total", Help: "Watches that began with events from the log, from before what the cache remembers."}),
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_replayed_events_total", Help: "Events that watches were given from the log."}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "apiserver_past_read_seconds", Help: "Reads of pieces of the log and of states of old revisions, with the wait for a place.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 30}}),
	}
}
