package verify

import "github.com/prometheus/client_golang/prometheus"

// result is how a check has ended, in the words of the kubelet's metric.
type result string

const (
	policyAllowed    result = "credentialPolicyAllowed"
	recordFound      result = "credentialRecordFound"
	mustAuthenticate result = "mustAuthenticate"
	failed           result = "error"
)

type metrics struct {
	checks           *prometheus.CounterVec
	intents, records prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_imagemanager_image_mustpull_checks_total",
			Help: "Images on the node of which it was asked whether a pod has to prove that it may use them, by the answer.",
		}, []string{"result"}),
		intents: prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_imagemanager_ondisk_pullintents", Help: "Records of pulls that have begun."}),
		records: prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_imagemanager_ondisk_pulledrecords", Help: "Records of images that were pulled."}),
	}
	if registerer != nil {
		registerer.MustRegister(m.checks, m.intents, m.records)
	}
	return m
}

func (m *metrics) checked(r result) { m.checks.WithLabelValues(string(r)).Inc() }

func (m *metrics) stored(intents, records int) {
	m.intents.Set(float64(intents))
	m.records.Set(float64(records))
}
