package oidc

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are named as Kubernetes' are; they name issuers by hashes. A nil one counts nothing.
type Metrics struct {
	latency       *prometheus.HistogramVec
	fetched, keys *prometheus.GaugeVec
}

// NewMetrics registers the metrics: those of the keys with identified, whose labels say which server fetched them.
func NewMetrics(r, identified prometheus.Registerer) *Metrics {
	const prefix = "apiserver_authentication_jwt_authenticator_"
	m := &Metrics{
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "latency_seconds", Help: "How long it took to know the holder of a token that was not remembered.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}, []string{"result", "jwt_issuer_hash"}),
		fetched: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "jwks_fetch_last_timestamp_seconds", Help: "When an issuer's keys were last fetched, by outcome."}, []string{"result", "jwt_issuer_hash"}),
		keys: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "jwks_fetch_last_key_set_info", Help: "The hash of the keys that were fetched last."}, []string{"jwt_issuer_hash", "hash"}),
	}
	if r != nil {
		r.MustRegister(m.latency)
		identified.MustRegister(m.fetched, m.keys)
	}
	return m
}

// known counts a token of an issuer of which was found out whose it is, or that it is nobody's.
func (m *Metrics) known(issuer string, err error, took time.Duration) {
	if m != nil {
		m.latency.WithLabelValues(result(err), hashOf(issuer)).Observe(took.Seconds())
	}
}

// fetchedKeys notes an attempt to fetch an issuer's keys, unless its provider has been replaced meanwhile.
func (m *Metrics) fetchedKeys(ctx context.Context, issuer string, keys []byte, now time.Time, err error) {
	if m == nil || ctx.Err() != nil {
		return
	}
	m.fetched.WithLabelValues(result(err), hashOf(issuer)).Set(float64(now.UnixNano()) / 1e9)
	if err == nil {
		m.keys.DeletePartialMatch(prometheus.Labels{"jwt_issuer_hash": hashOf(issuer)})
		m.keys.WithLabelValues(hashOf(issuer), hashOf(string(keys))).Set(1)
	}
}

// forget removes what is told of the keys of an issuer that is configured no more.
func (m *Metrics) forget(issuer string) {
	if m != nil {
		of := prometheus.Labels{"jwt_issuer_hash": hashOf(issuer)}
		m.fetched.DeletePartialMatch(of)
		m.keys.DeletePartialMatch(of)
	}
}

func result(err error) string {
	if err != nil {
		return "failure"
	}
	return "success"
}

func hashOf(text string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))
}
