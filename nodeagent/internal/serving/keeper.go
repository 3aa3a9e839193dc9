package serving

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/nodecert"
	"howdah.dev/kit/object"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/task"
	"howdah.dev/nodeagent/internal/signing"
)

const (
	firstPause = 2 * time.Second
	lastPause  = 32 * time.Second
	// refusedPause is how long nothing is asked for after somebody has refused it.
	refusedPause = 15 * time.Minute
)

// Authorities may change.
type Authorities interface {
	Now() *pki.Authorities
	Follow(ctx context.Context, changed func()) error
}

// Config of a Keeper. All but Random are required.
type Config struct {
	NodeName string
	// Dir keeps the certificate over the agent's lives.
	Dir    string
	Client *object.Client
	// Authorities are the cluster's. A certificate by another of them than the first, which signs, is replaced.
	Authorities Authorities
	// Otherwise gives the certificate to show while there is none of the signer's.
	Otherwise  func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Clock      clock.WithTicker
	Registerer prometheus.Registerer
	// Random is from 0 to 1: when, in its time, a certificate is replaced. Default: by chance.
	Random func() float64
}

// Keeper keeps the node's serving certificate.
type Keeper struct {
	cfg     Config
	metrics *metrics
	changed chan struct{} // the node has come to say something else of itself, or there are other authorities

	mu       sync.Mutex
	template *Template        // nil: not known yet
	shown    *tls.Certificate // nil: none yet
	renewal  *nodecert.Renewal
	outdated func() // ends the wait for a certificate that would not say what the node does; nil: nobody waits
}

// New returns a keeper that shows what an earlier life of the agent was given. It asks for nothing before Run.
func New(cfg Config) *Keeper {
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	k := &Keeper{cfg: cfg, changed: make(chan struct{}, 1)}
	k.metrics = newMetrics(cfg.Registerer, k.left)
	kept, err := load(cfg.Dir)
	if err != nil {
		slog.Warn("another serving certificate will be asked for", "err", err)
	}
	if kept != nil {
		k.show(kept)
	}
	return k
}

// Update tells of a node as the API has it; all others than the keeper's are ignored.
func (k *Keeper) Update(node *corev1.Node) {
	if node.Name != k.cfg.NodeName {
		return
	}
	t, ok := TemplateOf(node)
	if !ok {
		return // one that has lost its addresses is reached where it was
	}
	k.mu.Lock()
	same := k.template != nil && k.template.equal(t)
	k.template = &t
	if !same && k.outdated != nil {
		k.outdated()
	}
	k.mu.Unlock()
	if same {
		return
	}
	k.wake()
}

// wake has Run look again at what there is to do.
func (k *Keeper) wake() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// Certificate is for tls.Config: the signer's, or the other one while there is none that lasts.
func (k *Keeper) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	shown := k.shown
	k.mu.Unlock()
	if shown == nil || !k.cfg.Clock.Now().Before(shown.Leaf.NotAfter) {
		return k.cfg.Otherwise(hello)
	}
	return shown, nil
}

// left is how many seconds the certificate lasts.
func (k *Keeper) left() float64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.shown == nil {
		return math.Inf(1)
	}
	return k.shown.Leaf.NotAfter.Sub(k.cfg.Clock.Now()).Seconds()
}

func (k *Keeper) show(c *tls.Certificate) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.shown != nil {
		k.metrics.lived.Observe(k.cfg.Clock.Now().Sub(k.shown.Leaf.NotBefore).Seconds())
	}
	k.shown = c
	if k.renewal == nil {
		k.renewal = nodecert.NewRenewal(c, k.cfg.Random)
	} else {
		k.renewal.Replaced(c, k.cfg.Clock.Now())
	}
}

// Run asks for certificates until ctx ends:
//
//  1. Without an address of the node there is nothing to ask for.
//  2. A certificate that says all that the node does is kept until it is due, or until another authority has come to sign.
//  3. Otherwise one is asked for, and shown once it is there. What is shown meanwhile goes on to be.
//  4. What fails is tried again after a pause that grows; what somebody has refused, after a long one, or when the node says something else of itself.
func (k *Keeper) Run(ctx context.Context) error {
	follow := func(ctx context.Context) error { return k.cfg.Authorities.Follow(ctx, k.wake) }
	if err := task.Run(ctx, follow, k.keep); err != nil {
		return err
	}
	return ctx.Err()
}

func (k *Keeper) keep(ctx context.Context) error {
	pause := firstPause
	for ctx.Err() == nil {
		template, wait := k.next()
		if template == nil || wait > 0 {
			k.pause(ctx, wait)
			continue
		}
		err := k.rotate(ctx, *template)
		if err == nil || ctx.Err() != nil || errors.Is(err, errOutdated) {
			pause = firstPause
			continue
		}
		k.metrics.errors.Inc()
		wait = pause
		pause = min(2*pause, lastPause)
		if _, ok := errors.AsType[nodecert.Refusal](err); ok {
			wait = refusedPause
		}
		slog.Error("the serving certificate could not be replaced", "node", k.cfg.NodeName, "err", err, "after", wait)
		k.pause(ctx, wait)
	}
	return ctx.Err()
}

// next is what to ask for, and how long there is nothing to ask; with no template there is nothing before a change.
func (k *Keeper) next() (*Template, time.Duration) {
	select {
	case <-k.changed: // it is seen to with this look
	default:
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.template == nil || k.shown == nil || k.template.check(k.shown.Leaf) != nil {
		return k.template, 0
	}
	now := k.cfg.Clock.Now()
	return k.template, max(k.renewal.At(k.cfg.Authorities.Now(), now).Sub(now), 0)
}

// pause waits for a change of the node; for as long as given, where that is not 0.
func (k *Keeper) pause(ctx context.Context, d time.Duration) {
	var over <-chan time.Time
	if d > 0 {
		timer := k.cfg.Clock.NewTimer(d)
		defer timer.Stop()
		over = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-k.changed:
	case <-over:
	}
}

// errOutdated ends the wait for a certificate that would not say any more what the node does.
var errOutdated = errors.New("the node says something else of itself by now")

// rotate asks for a certificate, waits for it, and shows it.
func (k *Keeper) rotate(ctx context.Context, t Template) error {
	asked, key, err := newRequest(t)
	if err != nil {
		return err
	}
	ctx, done := k.asking(ctx, t)
	defer done()
	requests := signing.New(k.cfg.Client)
	created, err := nodecert.Ask(ctx, requests, asked)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	slog.Info("a serving certificate is asked for, which somebody has to approve", "node", k.cfg.NodeName, "request", created.Name, "names", t.DNSNames, "addresses", t.Addresses)
	certificate, err := nodecert.Await(ctx, requests, created, k.cfg.Clock) // for as long as it is there: somebody may have to come to answer it
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	fresh, err := pair(certificate, key, t, k.cfg.Clock.Now())
	if err != nil {
		return fmt.Errorf("request %s: %w", created.Name, err)
	}
	if err := save(k.cfg.Dir, certificate, key); err != nil { // the next life asks for another one
		slog.Error("the serving certificate is lost with the agent", "node", k.cfg.NodeName, "err", err)
	}
	k.show(fresh)
	slog.Info("serving certificate replaced", "node", k.cfg.NodeName, "request", created.Name, "until", fresh.Leaf.NotAfter)
	return nil
}

// asking returns the context of a wait for a certificate: errOutdated ends it when the node says something else of itself than the template.
func (k *Keeper) asking(ctx context.Context, t Template) (asking context.Context, done func()) {
	asking, cancel := context.WithCancelCause(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.outdated = func() { cancel(errOutdated) }
	if !k.template.equal(t) { // it has changed before somebody could tell
		k.outdated()
	}
	return asking, func() {
		k.mu.Lock()
		k.outdated = nil
		k.mu.Unlock()
		cancel(nil)
	}
}
