package structured

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// Period is how often a file is looked at.
const Period = 5 * time.Second

// File is a configuration file that is followed.
type File struct {
	Path string
	// Subject is what it configures, as metrics and logs name it: authentication or authorization.
	Subject string
	Clock   clock.WithTicker
	// Registerer takes the metrics; may be nil.
	Registerer prometheus.Registerer

	once             sync.Once
	reloads          *prometheus.CounterVec
	reloaded, loaded *prometheus.GaugeVec
}

func (f *File) metrics() {
	prefix := "apiserver_" + f.Subject + "_config_controller_"
	f.reloads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "automatic_reloads_total", Help: "Times that a changed configuration was read, by outcome."}, []string{"status"})
	f.reloaded = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: prefix + "automatic_reload_last_timestamp_seconds", Help: "When a changed configuration was last read, by outcome."}, []string{"status"})
	f.loaded = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: prefix + "last_config_info", Help: "The hash of the configuration in force."}, []string{"hash"})
	if f.Registerer != nil {
		f.Registerer.MustRegister(f.reloads, f.reloaded, f.loaded)
	}
}

// Follow calls apply when the file has changed, until ctx ends. A change that apply refuses is logged and counted, and
// tried again only when the file changes once more.
func (f *File) Follow(ctx context.Context, apply func(ctx context.Context) error) error {
	f.once.Do(f.metrics)
	last, err := os.ReadFile(f.Path)
	if err == nil {
		f.inForce(last)
	}
	ticker := f.Clock.NewTicker(Period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
		data, err := os.ReadFile(f.Path)
		if err != nil || len(data) == 0 || bytes.Equal(data, last) { // a file that is gone for a moment is being replaced
			continue
		}
		last = data
		f.reload(ctx, data, apply)
	}
}

func (f *File) reload(ctx context.Context, data []byte, apply func(ctx context.Context) error) {
	status := "success"
	if err := apply(ctx); err != nil {
		status = "failure"
		slog.ErrorContext(ctx, "the changed configuration is not taken", "subject", f.Subject, "file", f.Path, "err", err)
	} else {
		f.inForce(data)
		slog.InfoContext(ctx, "the changed configuration is in force", "subject", f.Subject, "file", f.Path)
	}
	f.reloads.WithLabelValues(status).Inc()
	f.reloaded.WithLabelValues(status).Set(float64(f.Clock.Now().Unix()))
}

func (f *File) inForce(data []byte) {
	f.loaded.Reset()
	f.loaded.WithLabelValues(fmt.Sprintf("sha256:%x", sha256.Sum256(data))).Set(1)
}
