package apiserver

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// stopping fails once the server is being stopped, so that nobody new is sent here.
func (s *Server) stopping(context.Context) error {
	select {
	case <-s.stopped:
		return errors.New("process is shutting down")
	default:
		return nil
	}
}

// gatherer is where the metrics can be read again; nil where they cannot.
func (cfg *Config) gatherer() prometheus.Gatherer {
	g, _ := cfg.Registerer.(prometheus.Gatherer)
	return g
}
