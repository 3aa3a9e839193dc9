package resourceclaim

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	resourcev1 "k8s.io/api/resource/v1"

	"howdah.dev/kit/object"
)

// Metrics are Kubernetes' metrics of claims. A nil one measures nothing.
type Metrics struct {
	creates *prometheus.CounterVec
	claims  atomic.Pointer[object.Informer[*resourcev1.ResourceClaim]] // nil while this process does not lead
}

var claimCount = prometheus.NewDesc("resourceclaim_controller_resource_claims",
	"Claims, by whether they have devices, whether they are for administrators, and what they were made for: a template, an extended resource, or by somebody else.",
	[]string{"allocated", "admin_access", "source"}, nil)

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{creates: prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: "resourceclaim_controller", Name: "creates_total", Help: "Claims that were to be made of templates, by success or failure.",
	}, []string{"status", "admin_access"})}
	registerer.MustRegister(m, m.creates)
	return m
}

// follow counts the claims of a cache from now on, those of none where it is nil.
func (m *Metrics) follow(claims *object.Informer[*resourcev1.ResourceClaim]) {
	if m != nil {
		m.claims.Store(claims)
	}
}

// created counts a claim that was to be made.
func (m *Metrics) created(claim *resourcev1.ResourceClaim, err error) {
	if m == nil {
		return
	}
	status := "success"
	if err != nil {
		status = "failure"
	}
	m.creates.WithLabelValues(status, adminAccess(claim)).Inc()
}

// Describe implements prometheus.Collector.
func (*Metrics) Describe(ch chan<- *prometheus.Desc) { ch <- claimCount }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	claims := m.claims.Load()
	if claims == nil {
		return
	}
	counts := map[[3]string]int{}
	for _, c := range claims.List("") {
		counts[[3]string{strconv.FormatBool(c.Status.Allocation != nil), adminAccess(c), source(c)}]++
	}
	for labels, n := range counts {
		ch <- prometheus.MustNewConstMetric(claimCount, prometheus.GaugeValue, float64(n), labels[:]...)
	}
}

// adminAccess says whether a claim is for administrators, who get devices that are in use.
func adminAccess(c *resourcev1.ResourceClaim) string {
	for _, r := range c.Spec.Devices.Requests {
		if r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess {
			return "true"
		}
	}
	return "false"
}

// source is what a claim was made of, "" where somebody else made it.
func source(c *resourcev1.ResourceClaim) string {
	switch {
	case c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true":
		return "extended_resource"
	case c.Annotations[podClaimAnnotation] != "":
		return "resource_claim_template"
	}
	return ""
}
