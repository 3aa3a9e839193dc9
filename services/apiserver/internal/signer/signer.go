// Package signer has a program beside the API server sign the tokens of service accounts, and say with which keys they are verified. Kubernetes calls it
// an external JWT signer: gRPC on a Unix socket.
package signer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	externaljwt "k8s.io/externaljwt/apis/v1"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/token"
)

const (
	// fetchTimeout, metadataTimeout and signTimeout bound the calls, the last one also those for keys that a request waits for. A signer that begins to listen meanwhile is waited for.
	fetchTimeout    = time.Minute
	metadataTimeout = 10 * time.Second
	signTimeout     = 10 * time.Second
	// retryPause is between two calls for keys of which the first has failed.
	retryPause = 10 * time.Second
	// minLifetime is the shortest that a signer may bound tokens to.
	minLifetime = 10 * time.Minute
)

// Config is what a Signer needs.
type Config struct {
	// Endpoint is the path of the socket; with @ before it, the name of an abstract one.
	Endpoint string
	// MaxLifetime is what the API server bounds tokens to by itself; 0 is nothing.
	MaxLifetime time.Duration
	Clock       clock.Clock
	// Registerer takes the metrics; may be nil.
	Registerer prometheus.Registerer
}

// Signer is the other program.
type Signer struct {
	cfg     Config
	conn    *grpc.ClientConn
	client  externaljwt.ExternalJWTSignerClient
	metrics *metrics

	connected chan struct{}
	turn      chan struct{} // held while keys are fetched

	mu      sync.Mutex
	longest time.Duration
	begun   uint64 // fetches
	last    error  // what came of the last one
	keys    keyset
}

var abstract = regexp.MustCompile(`^@([a-zA-Z0-9_-]+\.)*[a-zA-Z0-9_-]+$`)

// New returns a Signer; it calls nobody.
func New(cfg Config) (*Signer, error) {
	if strings.HasPrefix(cfg.Endpoint, "@") && !abstract.MatchString(cfg.Endpoint) {
		return nil, fmt.Errorf("invalid value %q passed for `--service-account-signing-endpoint`, when prefixed with @ must be a valid abstract socket name", cfg.Endpoint)
	}
	s := &Signer{cfg: cfg, metrics: newMetrics(cfg.Registerer), connected: make(chan struct{}), turn: make(chan struct{}, 1)}
	var err error
	s.conn, err = grpc.NewClient("passthrough:///external-jwt-signer", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", cfg.Endpoint)
		}),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)), grpc.WithChainUnaryInterceptor(s.metrics.measure))
	if err != nil {
		return nil, fmt.Errorf("while dialing grpc socket at %q: %w", cfg.Endpoint, err)
	}
	s.client = externaljwt.NewExternalJWTSignerClient(s.conn)
	return s, nil
}

// Connected is closed when the signer has told its keys and its bounds.
func (s *Signer) Connected() <-chan struct{} { return s.connected }

// Run asks for the keys, and anew as often as the signer wishes, until ctx ends. A signer that does not answer at the start, or wrongly, ends it.
func (s *Signer) Run(ctx context.Context) error {
	defer s.conn.Close()
	if err := s.connect(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("while setting up external-jwt-signer: %w", err)
	}
	close(s.connected)
	pause := s.hint()
	for {
		timer := s.cfg.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
		if err := s.refresh(ctx); err == nil {
			pause = s.hint()
		} else if ctx.Err() == nil {
			slog.Error("fetch the keys of service-account tokens; those before go on", "err", err)
			pause = retryPause
		}
	}
}

func (s *Signer) connect(ctx context.Context) error {
	if err := s.refresh(ctx); err != nil {
		return fmt.Errorf("while initially filling key cache: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	answer, err := s.client.Metadata(ctx, &externaljwt.MetadataRequest{})
	if err != nil {
		return err
	}
	most, err := bound(answer.GetMaxTokenExpirationSeconds(), s.cfg.MaxLifetime)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.longest = most
	return nil
}

// bound returns the longest life of a token that the signer signs, which has to be as long as what the API server allows.
func bound(seconds int64, own time.Duration) (time.Duration, error) {
	least := int64(minLifetime / time.Second)
	if seconds < least {
		return 0, fmt.Errorf("max token life supported by external-jwt-signer (%ds) is less than acceptable (min %ds)", seconds, least)
	}
	most := time.Duration(min(seconds, 1<<32)) * time.Second // no token may last longer anyway
	if own > most {
		return 0, fmt.Errorf("service-account-max-token-expiration cannot be set longer than the token expiration supported by service-account-signing-endpoint: %s > %s", own, most)
	}
	return most, nil
}

// MaxLifetime implements token.Signer.
func (s *Signer) MaxLifetime() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.longest
}

// Sign implements token.Signer.
func (s *Signer) Sign(ctx context.Context, claims string, check func(ctx context.Context, header, signature string) error) (header, signature string, err error) {
	defer func() { s.metrics.signed.WithLabelValues(code(err)).Inc() }()
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	answer, err := s.client.Sign(ctx, &externaljwt.SignJWTRequest{Claims: claims})
	if err != nil {
		return "", "", fmt.Errorf("while signing jwt: %w", err)
	}
	return answer.GetHeader(), answer.GetSignature(), check(ctx, answer.GetHeader(), answer.GetSignature())
}

// Known implements token.Keys.
func (s *Signer) Known() ([]token.Key, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys.all, s.keys.version
}

// Find implements token.Keys. Where it does not know a key the signer is asked whether there is a new one.
func (s *Signer) Find(ctx context.Context, id string) []token.Key {
	all, _ := s.Known()
	if found := token.With(all, id); len(found) > 0 {
		return found
	}
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	if err := s.refresh(ctx); err != nil {
		slog.Warn("fetch the keys of service-account tokens, for one that is not known", "err", err)
		return nil
	}
	all, _ = s.Known()
	return token.With(all, id)
}

// Fresh implements token.Keys: until the signer is asked again.
func (s *Signer) Fresh() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.keys.until.Sub(s.cfg.Clock.Now()))
}

// hint is how long the keys are good as they are.
func (s *Signer) hint() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys.hint
}

// refresh fetches the keys. Any number of those who ask at the same time wait for one call, which begins after they have asked.
func (s *Signer) refresh(ctx context.Context) error {
	s.mu.Lock()
	asked := s.begun
	s.mu.Unlock()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	s.mu.Lock()
	if s.begun > asked && !ended(s.last) {
		defer s.mu.Unlock()
		return s.last
	}
	s.begun++
	s.mu.Unlock()
	err := s.fetch(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = err
	return err
}

// ended reports whether a call ended because who made it did not wait any longer.
func ended(err error) bool {
	c := status.Code(errors.Unwrap(err))
	return err != nil && (c == codes.Canceled || c == codes.DeadlineExceeded)
}

// fetch asks for the keys and takes them, if they are good.
func (s *Signer) fetch(ctx context.Context) (err error) {
	defer func() { s.metrics.fetch(err, s.cfg.Clock.Now()) }()
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	answer, err := s.client.FetchKeys(ctx, &externaljwt.FetchKeysRequest{})
	if err != nil {
		return fmt.Errorf("while getting externally supported jwt signing keys: %w", err)
	}
	got, err := read(answer)
	if err != nil {
		return err
	}
	s.metrics.data.WithLabelValues().Set(float64(got.from.UnixNano()) / float64(time.Second))
	s.mu.Lock()
	defer s.mu.Unlock()
	if got.version = s.keys.version; !got.same(&s.keys) {
		got.version++
	}
	got.until = s.cfg.Clock.Now().Add(got.hint)
	s.keys = got
	return nil
}
