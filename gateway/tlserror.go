package gateway

import (
	"bytes"
	"log"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

// serverLog is where net/http tells of connections that came to nothing: noise of strangers mostly, so what counts is counted.
type serverLog struct{ handshakes prometheus.Counter }

func newServerLog(registerer prometheus.Registerer) serverLog {
	l := serverLog{prometheus.NewCounter(prometheus.CounterOpts{
		Name: "apiserver_tls_handshake_errors_total", Help: "Connections whose TLS handshake failed.",
	})}
	if registerer != nil {
		registerer.MustRegister(l.handshakes)
	}
	return l
}

// Write takes a line.
func (l serverLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("TLS handshake error from ")) {
		l.handshakes.Inc()
	}
	slog.Debug("of the server for HTTP", "text", string(bytes.TrimSpace(line)))
	return len(line), nil
}

func (l serverLog) logger() *log.Logger { return log.New(l, "", 0) }
