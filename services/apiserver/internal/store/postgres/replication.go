package postgres

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// Of a replica a role without the rights of pg_monitor learns nothing but that it is there.
const replicasSQL = `
SELECT CASE WHEN sync_state IN ('sync', 'quorum') THEN 'synchronous' WHEN sync_state IS NULL THEN 'unknown' ELSE 'asynchronous' END, count(*)
  FROM pg_stat_replication WHERE state IS NULL OR state = 'streaming' GROUP BY 1`

var (
	incarnationsDesc = prometheus.NewDesc("howdah_store_incarnations", "Times that the database was made, restored, or taken over by another server.", nil, nil)
	serverDesc       = prometheus.NewDesc("howdah_store_server", "Which database server this process works on: 1.", []string{"server"}, nil)
	replicasDesc     = prometheus.NewDesc("howdah_store_replicas", "Servers that follow the one this process works on.", []string{"mode"}, nil)
	waitsDesc        = prometheus.NewDesc("howdah_store_replication_synchronous", "Whether commits wait for a replica: 0 or 1.", nil, nil)
)

// replication tells which server has the state, and who follows it, where the server answers.
type replication struct{ s *Store }

// Describe implements prometheus.Collector.
func (replication) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{incarnationsDesc, serverDesc, replicasDesc, waitsDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (r replication) Collect(out chan<- prometheus.Metric) {
	select {
	case <-r.s.started:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sizeWait)
	defer cancel()
	if err := r.collect(ctx, out); err != nil {
		slog.DebugContext(ctx, "ask for the replication of the database", "err", err)
	}
}

func (r replication) collect(ctx context.Context, out chan<- prometheus.Metric) error {
	conn, err := r.s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var incarnations int64
	var waits int
	err = conn.QueryRow(ctx, "SELECT (SELECT count(*) FROM howdah.incarnation), (current_setting('synchronous_standby_names') <> '')::int").Scan(&incarnations, &waits)
	if err != nil {
		return err
	}
	replicas := map[string]int64{"synchronous": 0, "asynchronous": 0}
	rows, err := conn.Query(ctx, replicasSQL)
	if err != nil {
		return err
	}
	var mode string
	var n int64
	if _, err := pgx.ForEachRow(rows, []any{&mode, &n}, func() error { replicas[mode] = n; return nil }); err != nil {
		return err
	}
	out <- prometheus.MustNewConstMetric(incarnationsDesc, prometheus.GaugeValue, float64(incarnations))
	out <- prometheus.MustNewConstMetric(waitsDesc, prometheus.GaugeValue, float64(waits))
	out <- prometheus.MustNewConstMetric(serverDesc, prometheus.GaugeValue, 1, serverOf(conn.Conn().PgConn().Conn()))
	for mode, n := range replicas {
		out <- prometheus.MustNewConstMetric(replicasDesc, prometheus.GaugeValue, float64(n), mode)
	}
	return nil
}

// serverOf names the server at the other end of a connection, as the database URL does where its certificate was asked for.
func serverOf(conn net.Conn) string {
	if c, ok := conn.(*tls.Conn); ok {
		if name := c.ConnectionState().ServerName; name != "" {
			return name
		}
	}
	return conn.RemoteAddr().String()
}
