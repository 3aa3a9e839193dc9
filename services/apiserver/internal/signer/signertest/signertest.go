// Package signertest is a program that signs service-account tokens, made up for tests.
package signertest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
	externaljwt "k8s.io/externaljwt/apis/v1"
)

// Signer signs with its newest key.
type Signer struct {
	externaljwt.UnimplementedExternalJWTSignerServer
	Path string

	mu      sync.Mutex
	signing *ecdsa.PrivateKey
	id      string
	keys    []*externaljwt.Key
	fetches int
	server  *grpc.Server
	// Seconds is how long tokens may last, and Hint for how long keys are good.
	Seconds, Hint int64
	// Spoil, where set, changes what is answered.
	Spoil func(*externaljwt.SignJWTResponse)
	// SpoilKeys, where set, changes what is said of keys, or refuses to say it.
	SpoilKeys func(*externaljwt.FetchKeysResponse) error
}

// New returns a Signer with a key "one", which does not listen yet.
func New(t testing.TB) *Signer {
	t.Helper()
	s := &Signer{Path: filepath.Join(t.TempDir(), "signer.sock"), Seconds: 86400, Hint: 60}
	s.Rotate(t, "one")
	return s
}

// Change changes what the signer answers.
func (s *Signer) Change(f func(*Signer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

// Rotate has the signer sign with a new key, and forget those before but for what keep says of them.
func (s *Signer) Rotate(t testing.TB, id string, keep ...func(*externaljwt.Key)) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var old []*externaljwt.Key
	for _, f := range keep {
		for _, k := range s.keys {
			f(k)
			old = append(old, k)
		}
	}
	s.signing, s.id, s.keys = key, id, append([]*externaljwt.Key{{KeyId: id, Key: der}}, old...)
}

// Listen serves until the test ends, or Stop.
func (s *Signer) Listen(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("unix", s.Path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	externaljwt.RegisterExternalJWTSignerServer(server, s)
	s.mu.Lock()
	s.server = server
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-done })
}

// Stop ends Listen.
func (s *Signer) Stop() {
	s.mu.Lock()
	server := s.server
	s.mu.Unlock()
	server.Stop()
}

// Fetches is how often keys were asked for.
func (s *Signer) Fetches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetches
}

// Sign implements the service.
func (s *Signer) Sign(_ context.Context, r *externaljwt.SignJWTRequest) (*externaljwt.SignJWTResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := json.Marshal(map[string]string{"alg": "ES256", "kid": s.id, "typ": "JWT"})
	if err != nil {
		return nil, err
	}
	head := base64.RawURLEncoding.EncodeToString(raw)
	sum := sha256.Sum256([]byte(head + "." + r.GetClaims()))
	a, b, err := ecdsa.Sign(rand.Reader, s.signing, sum[:])
	if err != nil {
		return nil, err
	}
	signature := make([]byte, 64)
	a.FillBytes(signature[:32])
	b.FillBytes(signature[32:])
	answer := &externaljwt.SignJWTResponse{Header: head, Signature: base64.RawURLEncoding.EncodeToString(signature)}
	if s.Spoil != nil {
		s.Spoil(answer)
	}
	return answer, nil
}

// FetchKeys implements the service.
func (s *Signer) FetchKeys(context.Context, *externaljwt.FetchKeysRequest) (*externaljwt.FetchKeysResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetches++
	answer := &externaljwt.FetchKeysResponse{Keys: s.keys, DataTimestamp: &timestamppb.Timestamp{Seconds: 1_700_000_000}, RefreshHintSeconds: s.Hint}
	if s.SpoilKeys != nil {
		if err := s.SpoilKeys(answer); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// Metadata implements the service.
func (s *Signer) Metadata(context.Context, *externaljwt.MetadataRequest) (*externaljwt.MetadataResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &externaljwt.MetadataResponse{MaxTokenExpirationSeconds: s.Seconds}, nil
}
