// Package clientcert has a node that has joined ask for another client certificate before the one that it has ends.
//
// Source: "TLS bootstrapping" (certificate rotation) in the Kubernetes reference.
package clientcert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"howdah.dev/kit/nodecert"
	"howdah.dev/kit/object"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/task"
	"howdah.dev/nodeagent/internal/signing"
)

const (
	firstPause = 2 * time.Second
	lastPause  = 10 * time.Minute
	// lookEvery bounds a wait: a machine that was asleep has other ideas of how long it has waited.
	lookEvery = time.Hour
	// askFor bounds one try: somebody may have to approve the request.
	askFor = 15 * time.Minute
)

// Config of a Keeper. All but Random are required.
type Config struct {
	NodeName string
	// Dir is the folder that `howdah join` has made.
	Dir        string
	Client     *object.Client
	Clock      clock.WithTicker
	Registerer prometheus.Registerer
	// Random is from 0 to 1: when, in its time, a certificate is replaced. Default: by chance.
	Random func() float64
}

// Keeper keeps the node's client certificate.
type Keeper struct {
	cfg    Config
	roots  *pki.Bundle
	errors prometheus.Counter

	mu      sync.Mutex
	leaf    *x509.Certificate
	renewal *nodecert.Renewal
	key     []byte // of a request that was not refused; nil: none

	changed chan struct{} // the authorities have
}

// New reads the folder; it asks for nothing before Run.
func New(cfg Config) (*Keeper, error) {
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	pair, err := nodecert.Load(cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("rotate the certificate: %s was not made by howdah join", cfg.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("rotate the certificate: %w", err)
	}
	roots, err := pki.LoadBundle(filepath.Join(cfg.Dir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("rotate the certificate: %w", err)
	}
	k := &Keeper{
		cfg: cfg, roots: roots, leaf: pair.Leaf, renewal: nodecert.NewRenewal(pair, cfg.Random), changed: make(chan struct{}, 1),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_certificate_manager_client_expiration_renew_errors", Help: "Tries to replace the client certificate that failed.",
		}),
	}
	cfg.Registerer.MustRegister(k.errors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubelet_certificate_manager_client_ttl_seconds", Help: "Seconds until the client certificate ends, negative once it has.",
	}, k.left))
	return k, nil
}

func (k *Keeper) has(pair *tls.Certificate) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leaf, k.key = pair.Leaf, nil
	k.renewal.Replaced(pair, k.cfg.Clock.Now())
}

// left is how many seconds the certificate lasts.
func (k *Keeper) left() float64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return math.Floor(k.leaf.NotAfter.Sub(k.cfg.Clock.Now()).Seconds())
}

func (k *Keeper) wait() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Clock.Now()
	return k.renewal.At(k.roots.Now(), now).Sub(now)
}

// Run asks for certificates until ctx ends: each when the one before is due, or when another authority has come to sign. What fails is tried again after a
// pause that grows.
func (k *Keeper) Run(ctx context.Context) error {
	if err := task.Run(ctx, k.follow, k.keep); err != nil {
		return err
	}
	return ctx.Err()
}

// follow wakes those who wait for the time when the authorities change.
func (k *Keeper) follow(ctx context.Context) error {
	return k.roots.Follow(ctx, func() {
		select {
		case k.changed <- struct{}{}:
		default:
		}
	})
}

func (k *Keeper) keep(ctx context.Context) error {
	pause := firstPause
	for ctx.Err() == nil {
		if wait := k.wait(); wait > 0 {
			k.pause(ctx, min(wait, lookEvery))
			continue
		}
		err := k.rotate(ctx)
		if err == nil || ctx.Err() != nil {
			pause = firstPause
			continue
		}
		k.errors.Inc()
		slog.Error("the node's certificate could not be replaced", "node", k.cfg.NodeName, "err", err, "after", pause)
		k.pause(ctx, pause)
		pause = min(2*pause, lastPause)
	}
	return ctx.Err()
}

func (k *Keeper) pause(ctx context.Context, d time.Duration) {
	timer := k.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-k.changed:
	case <-timer.C():
	}
}

// rotate asks for a certificate, waits for it, and puts it in place of the one before: whoever shows it reads it again by himself.
func (k *Keeper) rotate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	if k.key == nil { // only Run's goroutine writes it
		key, err := nodecert.NewKey()
		if err != nil {
			return err
		}
		k.key = key
	}
	asked, err := nodecert.NewRequest(k.cfg.NodeName, k.key)
	if err != nil {
		return err
	}
	api := signing.New(k.cfg.Client)
	fresh, certificate, err := k.ask(ctx, api, asked)
	if err != nil {
		if _, refused := errors.AsType[nodecert.Refusal](err); refused {
			k.key = nil
		}
		return err
	}
	if err := nodecert.Save(k.cfg.Dir, certificate, k.key); err != nil {
		return err
	}
	k.has(fresh)
	slog.Info("the node's certificate is replaced", "node", k.cfg.NodeName, "request", asked.Name, "until", fresh.Leaf.NotAfter)
	return nil
}

func (k *Keeper) ask(ctx context.Context, api nodecert.Requests, asked *nodecert.Request) (pair *tls.Certificate, certificate []byte, err error) {
	created, err := nodecert.Ask(ctx, api, asked)
	if err != nil {
		return nil, nil, err
	}
	if certificate, err = nodecert.Await(ctx, api, created, k.cfg.Clock); err != nil {
		return nil, nil, err
	}
	pair, err = nodecert.Check(certificate, k.key, k.cfg.NodeName, k.roots.Now().Pool, k.cfg.Clock.Now())
	if err != nil {
		return nil, nil, nodecert.Refusal{Err: fmt.Errorf("the certificate is of no use: %w", err)}
	}
	return pair, certificate, nil
}
