// Package authorities has a node that has joined trust the authorities that its cluster has: while one of them is replaced, nobody need bring ca.crt to the
// machine.
package authorities

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/wholefile"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

const (
	// path is where API servers tell the cluster's authorities.
	path = "/howdah/v1/authorities"
	// every is how often they are asked, varied by half of it, so that nodes do not ask all at once.
	every = 40 * time.Second
	// askFor bounds a call.
	askFor = 10 * time.Second
)

// Documents are what API servers tell about the cluster.
type Documents interface {
	Document(ctx context.Context, r *apiv1.DocumentRequest, options ...grpc.CallOption) (*apiv1.DocumentResponse, error)
}

// Config of a Follower. All are required.
type Config struct {
	File       string // whose certificates the node trusts; whoever does reads it again by himself
	Documents  Documents
	Clock      clock.WithTicker
	Registerer prometheus.Registerer
}

// Follower keeps the node's file of authorities as the API servers' is. They are believed for the connection's sake, which is by an authority that the file has.
type Follower struct {
	cfg    Config
	errors prometheus.Counter
	failed string // why, as logged last
}

// New returns a Follower; it asks nobody before Run.
func New(cfg Config) *Follower {
	f := &Follower{cfg: cfg, errors: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "howdah_nodeagent_authorities_errors_total", Help: "Tries to learn the cluster's authorities that failed.",
	})}
	cfg.Registerer.MustRegister(f.errors)
	return f
}

// Run asks within a minute, again and again, until ctx ends. While nobody answers, or what is told is no certificate, the file stays.
func (f *Follower) Run(ctx context.Context) error {
	timer := f.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C():
		}
		f.tell(f.look(ctx))
		timer.Reset(every/2 + rand.N(every))
	}
}

// tell counts failures, and logs each once.
func (f *Follower) tell(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		f.failed = ""
		return
	}
	f.errors.Inc()
	if err.Error() != f.failed {
		f.failed = err.Error()
		slog.Warn("the cluster's authorities are not known anew; those before go on", "err", err)
	}
}

func (f *Follower) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	response, err := f.cfg.Documents.Document(ctx, &apiv1.DocumentRequest{Path: path})
	if err != nil {
		if status := apistatus.Of(apistatus.FromGRPC(err)); status.Code == http.StatusNotFound {
			return nil // an API server of before there was such a document
		}
		return apistatus.FromGRPC(err)
	}
	told, err := pki.NewAuthorities(response.GetObject())
	if err != nil {
		return fmt.Errorf("what the API server tells is no certificate: %w", err)
	}
	known, err := os.ReadFile(f.cfg.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if bytes.Equal(known, told.PEM) {
		return nil
	}
	if err := wholefile.Write(f.cfg.File, told.PEM, 0o644); err != nil {
		return err
	}
	slog.Info("the node trusts the authorities that its cluster has now", "file", f.cfg.File, "certificates", len(told.Certificates))
	return nil
}
