package objects

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/services/apiserver/internal/audit"
)

// Metrics counts requests under the names that dashboards for Kubernetes expect.
type Metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	sli       *prometheus.HistogramVec
	sizes     *prometheus.HistogramVec
	bodies    *prometheus.HistogramVec
	// terminations are requests that were given up: refused because there are too many, out of time, or panicked.
	terminations *prometheus.CounterVec
	// deprecated says which versions that will go are asked for.
	deprecated *prometheus.GaugeVec
	current    *prometheus.GaugeVec
	long       *prometheus.GaugeVec
	// watchEvents counts what watches were told.
	watchEvents *prometheus.CounterVec
	watchSizes  *prometheus.HistogramVec
	watchLists  *prometheus.HistogramVec
	watchers    *prometheus.GaugeVec
	retries     prometheus.Counter
	// Panics counts handlers that panicked.
	Panics prometheus.Counter
}

// NewMetrics registers the metrics; a nil registerer leaves them unregistered.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total", Help: "Requests by verb, resource and HTTP code.",
		}, append(requestLabels(), "code")),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_request_duration_seconds", Help: "Time to answer requests, watches and streams excepted.",
			Buckets: append([]float64{0.0005, 0.001, 0.0025, 0.005, 0.025}, sliBuckets...),
		}, requestLabels()),
		sli: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_request_sli_duration_seconds", Help: "The same, by which Kubernetes' objectives for the answers of an API server are measured.", Buckets: sliBuckets,
		}, []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}),
		sizes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_response_sizes", Help: "Bytes of the answers to gets and lists.", Buckets: prometheus.ExponentialBuckets(1000, 10, 7),
		}, []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}),
		bodies: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_request_body_size_bytes", Help: "Bytes of the bodies of writes.", Buckets: prometheus.LinearBuckets(50000, 100000, 31),
		}, []string{"resource", "verb", "group"}),
		terminations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_terminations_total", Help: "Requests that were given up in self-defense: there were too many, they took too long, or their handler panicked.",
		}, []string{"verb", "group", "version", "resource", "subresource", "scope", "component", "code"}),
		deprecated: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_requested_deprecated_apis", Help: "Versions that are deprecated and were asked for, with the release that removes them.",
		}, []string{"group", "version", "resource", "subresource", "removed_release"}),
		current: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_current_inflight_requests", Help: "Requests that are being answered.",
		}, []string{"request_kind"}),
		long: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests", Help: "Watches and byte streams that stand.",
		}, []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}),
		watchEvents: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_watch_events_total", Help: "Events that were sent to watches.",
		}, []string{"group", "version", "resource"}),
		watchSizes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_watch_events_sizes", Help: "Bytes of the objects of events that were sent to watches.", Buckets: prometheus.ExponentialBuckets(1024, 2, 8),
		}, []string{"group", "version", "resource"}),
		watchLists: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_watch_list_duration_seconds", Help: "Time until watches that begin with the state had it.",
			Buckets: []float64{0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 15, 20, 30, 45, 60},
		}, []string{"group", "version", "resource", "scope"}),
		watchers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_registered_watchers", Help: "Watches that stand.",
		}, []string{"group", "version", "kind"}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_write_retries_total", Help: "Writes that were planned again because the object had moved on.",
		}),
		Panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_panics_total", Help: "Handlers that panicked.",
		}),
	}
	if registerer != nil {
		registerer.MustRegister(m.requests, m.durations, m.sli, m.sizes, m.bodies, m.terminations, m.deprecated, m.current, m.long, m.watchEvents,
			m.watchSizes, m.watchLists, m.watchers, m.retries, m.Panics)
	}
	return m
}

func (m *Metrics) inflight(r *request, by float64) {
	kind := "mutating"
	switch r.verb {
	case "get", "list":
		kind = "readOnly"
	case "watch", "connect":
		kind = "longRunning"
	}
	m.current.WithLabelValues(kind).Add(by)
}

// observe counts a request. Resources that are not served share one label, so that callers cannot make labels.
func (m *Metrics) observe(r *request, code int32) {
	var group, version, resource, subresource string
	if r.res != nil {
		group, version, resource, subresource = r.res.GVR.Group, r.res.GVR.Version, r.res.GVR.Resource, known(r.subresource)
	}
	dryRun := ""
	if r.dryRun {
		dryRun = "All"
	}
	labels := [...]string{metricVerb(r), dryRun, group, version, resource, subresource, scopeOf(r), component}
	m.requests.WithLabelValues(append(labels[:], strconv.Itoa(int(code)))...).Inc()
	took := time.Since(r.start).Seconds()
	m.durations.WithLabelValues(labels[:]...).Observe(took)
	if r.verb != "watch" && !r.dryRun {
		m.sli.WithLabelValues(labels[0], group, version, resource, subresource, labels[6], component).Observe(took)
	}
	if r.size > 0 {
		m.sizes.WithLabelValues(labels[0], group, version, resource, subresource, labels[6], component).Observe(float64(r.size))
	}
}

// received notes the size of a write's body.
func (m *Metrics) received(r *request, size int) {
	verb := r.verb
	if verb == "deletecollection" {
		verb = "delete_collection"
	}
	m.bodies.WithLabelValues(r.res.GVR.Resource, verb, r.res.GVR.Group).Observe(float64(size))
}

// terminated counts a request that was given up.
func (m *Metrics) terminated(r *request, code int32) {
	var group, version, resource, subresource string
	if r.res != nil {
		group, version, resource, subresource = r.res.GVR.Group, r.res.GVR.Version, r.res.GVR.Resource, known(r.subresource)
	}
	m.terminations.WithLabelValues(metricVerb(r), group, version, resource, subresource, scopeOf(r), component, strconv.Itoa(int(code))).Inc()
}

// known is a subresource that there is, or nothing: callers must not make labels.
func known(subresource string) string {
	if _, there := knownSubresources[subresource]; !there {
		return ""
	}
	return subresource
}

// removedIn finds the release in the text of a warning.
var removedIn = regexp.MustCompile(`unavailable in v(\d+\.\d+)\+`)

// outdated notes that a deprecated version was asked for, as those who prepare an upgrade look for it, here and in the audit log.
func (m *Metrics) outdated(ctx context.Context, r *request) {
	release := ""
	if found := removedIn.FindStringSubmatch(r.outdated); found != nil {
		release = found[1]
	}
	entry := audit.From(ctx)
	entry.Annotate("k8s.io/deprecated", "true")
	if release != "" {
		entry.Annotate("k8s.io/removed-release", release)
	}
	m.deprecated.WithLabelValues(r.res.GVR.Group, r.res.GVR.Version, r.res.GVR.Resource, known(r.subresource), release).Set(1)
}

// sliBuckets are those whose bounds rules for Kubernetes name, in seconds.
var sliBuckets = []float64{0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60}

// component is who answers, as Kubernetes labels it.
const component = "apiserver"

// requestLabels are those of a request, as Kubernetes has them. dry_run is All of what is tried out.
func requestLabels() []string {
	return []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}
}

// metricVerb is the verb under which a request is counted: a write by its HTTP method.
func metricVerb(r *request) string {
	switch r.verb {
	case "create":
		return "POST"
	case "update":
		return "PUT"
	case "deletecollection":
		return "DELETE" // of the scope namespace or cluster
	case "patch":
		if r.applies {
			return "APPLY"
		}
	}
	return strings.ToUpper(r.verb)
}

// scopeOf is how much a request is about.
func scopeOf(r *request) string {
	switch {
	case r.res == nil:
		return ""
	case r.name != "" || r.verb == "create":
		return "resource"
	case r.namespace != "":
		return "namespace"
	}
	return "cluster"
}

// streaming counts a watch or byte stream that has begun; the function that it returns counts it out.
func (m *Metrics) streaming(r *request) (end func()) {
	if r.res == nil {
		return func() {}
	}
	g := m.long.WithLabelValues(strings.ToUpper(r.verb), r.res.GVR.Group, r.res.GVR.Version, r.res.GVR.Resource, known(r.subresource), scopeOf(r), component)
	g.Inc()
	return g.Dec
}

// Other counts a request that is for no resource, as a document, or was refused before it came to one.
func (m *Metrics) Other(verb, group, version, resource, subresource string, code int32) {
	subresource = known(subresource)
	text := strconv.Itoa(int(code))
	m.requests.WithLabelValues(verb, "", group, version, resource, subresource, "", component, text).Inc()
	if code == http.StatusTooManyRequests { // there is nothing else before resources that would say so
		m.terminations.WithLabelValues(verb, group, version, resource, subresource, "", component, text).Inc()
	}
}

// Document counts a request for a document, as Kubernetes does: by where it lies, and a probe under no component.
func (m *Metrics) Document(path string, code int32) {
	root, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	part := component
	switch root {
	case "api", "apis":
	case "healthz", "livez", "readyz":
		root, part = "/"+root, ""
	default:
		root = ""
	}
	m.requests.WithLabelValues("GET", "", "", "", "", root, "", part, strconv.Itoa(int(code))).Inc()
}

var knownSubresources = map[string]struct{}{
	"status": {}, "scale": {}, "binding": {}, "eviction": {}, "token": {}, "finalize": {}, "log": {}, "exec": {},
	"attach": {}, "portforward": {}, "proxy": {}, "ephemeralcontainers": {}, "resize": {},
}
