package postgres

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// sizeWait bounds the question for the database's size, which is asked when metrics are read.
const sizeWait = 2 * time.Second

// Kubernetes names the clusters of its database so, and ComponentStatus names it here.
var sizeDesc = prometheus.NewDesc("apiserver_storage_size_bytes", "Bytes that the database takes on disk.", nil, prometheus.Labels{"storage_cluster_id": "etcd-0"})

// size tells how large the database is, where it answers.
type size struct{ s *Store }

// Describe implements prometheus.Collector.
func (size) Describe(out chan<- *prometheus.Desc) { out <- sizeDesc }

// Collect implements prometheus.Collector.
func (z size) Collect(out chan<- prometheus.Metric) {
	select {
	case <-z.s.started:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sizeWait)
	defer cancel()
	var bytes int64
	if err := z.s.pool.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&bytes); err != nil {
		slog.DebugContext(ctx, "ask for the size of the database", "err", err)
		return
	}
	out <- prometheus.MustNewConstMetric(sizeDesc, prometheus.GaugeValue, float64(bytes))
}
