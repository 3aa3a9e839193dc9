package rootca

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Metrics are Kubernetes' metrics of how the authority is published. A nil one measures nothing.
type Metrics struct {
	syncs   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// NewMetrics registers the metrics of publishing to namespaces.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	return newMetrics(registerer, "root_ca_cert_publisher", "a namespace")
}

// NewBundleMetrics registers the metrics of publishing as a ClusterTrustBundle.
func NewBundleMetrics(registerer prometheus.Registerer) *Metrics {
	return newMetrics(registerer, "clustertrustbundle_publisher", "the trust bundles")
}

func newMetrics(registerer prometheus.Registerer, subsystem, what string) *Metrics {
	m := &Metrics{
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "sync_total", Help: "Looks at " + what + ", by the code of the answer to what was written; 200 where nothing had to be.",
		}, []string{"code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "sync_duration_seconds", Help: "How long a look at " + what + " took.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"code"}),
	}
	registerer.MustRegister(m.syncs, m.seconds)
	return m
}

// synced measures a look.
func (m *Metrics) synced(took time.Duration, err error) {
	if m == nil {
		return
	}
	code := "200"
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.ErrStatus.Code != 0 {
		code = strconv.Itoa(int(status.ErrStatus.Code))
	} else if err != nil {
		code = "500"
	}
	m.syncs.WithLabelValues(code).Inc()
	m.seconds.WithLabelValues(code).Observe(took.Seconds())
}
