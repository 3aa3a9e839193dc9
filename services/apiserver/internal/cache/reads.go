package cache

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// reads counts what was read of a resource for clients.
type reads struct {
	group, resource string
	// closed says that the kind is not served any more: it shall have no series.
	closed         atomic.Bool
	cached, stored tally
	// indexed are those that found objects by a field, which is the key.
	indexed map[string]*tally
	// initial are objects that watches began with.
	initial atomic.Int64
	// consistent and inconsistent are reads of the newest state that waited for the cache: with success, and in vain.
	consistent, inconsistent atomic.Int64
}

// tallies has one for each of the names.
func tallies(names []string) map[string]*tally {
	out := map[string]*tally{}
	for _, name := range names {
		out[name] = &tally{}
	}
	return out
}

// tally is of lists: how many, how many objects they read, looked at and returned.
type tally struct{ lists, read, looked, returned atomic.Int64 }

func (t *tally) add(read, looked, returned int) {
	t.lists.Add(1)
	t.read.Add(int64(read))
	t.looked.Add(int64(looked))
	t.returned.Add(int64(returned))
}

func newWaits() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "apiserver_watch_cache_read_wait_seconds", Help: "Time that reads waited for the cache to be as new as they ask for.",
		Buckets: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3},
	}, []string{"group", "resource"})
}

// Listed counts a page that a client is answered with.
func (r *Resource) Listed(page Page) {
	if page.stored {
		r.reads.stored.add(page.read, page.looked, len(page.Items))
		return
	}
	tally := &r.reads.cached
	if page.index != "" {
		tally = r.reads.indexed[page.index]
	}
	tally.add(page.looked, page.looked, len(page.Items))
}

// Began counts a page that a client's watch begins with.
func (r *Resource) Began(page Page) { r.reads.initial.Add(int64(len(page.Items))) }

// Waited counts the wait of a client's read for the cache; newest says that it asked for all that was committed.
func (r *Resource) Waited(took time.Duration, newest bool, err error) {
	if r.reads.closed.Load() {
		return
	}
	r.cache.waits.WithLabelValues(r.reads.group, r.reads.resource).Observe(took.Seconds())
	switch {
	case !newest:
	case err != nil:
		r.reads.inconsistent.Add(1)
	default:
		r.reads.consistent.Add(1)
	}
}

var (
	cachedLists    = prometheus.NewDesc("apiserver_cache_list_total", "Lists that were answered from the cache.", []string{"group", "resource", "index"}, nil)
	cachedRead     = prometheus.NewDesc("apiserver_cache_list_fetched_objects_total", "Objects that lists looked at in the cache.", []string{"group", "resource", "index"}, nil)
	cachedReturned = byResource("apiserver_cache_list_returned_objects_total", "Objects that lists from the cache returned.")
	storedLists    = byResource("apiserver_storage_list_total", "Lists that were answered from the database: of old revisions, and to fill the cache.")
	storedRead     = byResource("apiserver_storage_list_fetched_objects_total", "Objects that lists read from the database.")
	storedLooked   = byResource("apiserver_storage_list_evaluated_objects_total", "Objects of these that were looked at.")
	storedReturned = byResource("apiserver_storage_list_returned_objects_total", "Objects that lists from the database returned.")
	initialDesc    = byResource("apiserver_init_events_total", "Objects that watches began with.")
	consistentDesc = prometheus.NewDesc("apiserver_watch_cache_consistent_read_total", "Reads of the newest state that waited for the cache; none goes to the database instead.",
		[]string{"group", "resource", "success", "fallback"}, nil)
)

func describeReads(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{cachedLists, cachedRead, cachedReturned, storedLists, storedRead, storedLooked, storedReturned, initialDesc, consistentDesc} {
		out <- d
	}
}

// collect tells of what was read at least once.
func (r *reads) collect(out chan<- prometheus.Metric, group, resource string) {
	tell := func(desc *prometheus.Desc, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), append([]string{group, resource}, labels...)...)
	}
	returned := r.cached.returned.Load()
	found := func(t *tally, index string) {
		if n := t.lists.Load(); n > 0 {
			tell(cachedLists, n, index)
			tell(cachedRead, t.read.Load(), index)
		}
	}
	found(&r.cached, "")
	for field, t := range r.indexed {
		found(t, "f:"+field) // as Kubernetes names its indexes
		returned += t.returned.Load()
	}
	if r.cached.lists.Load() > 0 || returned > 0 {
		tell(cachedReturned, returned)
	}
	if n := r.stored.lists.Load(); n > 0 {
		tell(storedLists, n)
		tell(storedRead, r.stored.read.Load())
		tell(storedLooked, r.stored.looked.Load())
		tell(storedReturned, r.stored.returned.Load())
	}
	if n := r.initial.Load(); n > 0 {
		tell(initialDesc, n)
	}
	if n := r.consistent.Load(); n > 0 {
		tell(consistentDesc, n, "true", "false")
	}
	if n := r.inconsistent.Load(); n > 0 {
		tell(consistentDesc, n, "false", "false")
	}
}
