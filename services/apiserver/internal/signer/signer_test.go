package signer

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	externaljwt "k8s.io/externaljwt/apis/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/signer/signertest"
	"howdah.dev/services/apiserver/internal/token"
)

const issuer = "https://cluster"

var account = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa", UID: "1"}}

type objects struct{}

func (objects) Get(_ context.Context, _, resource, _, name string) (registry.Object, error) {
	switch resource {
	case "serviceaccounts":
		return account, nil
	case "pods":
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "2"}, Spec: corev1.PodSpec{ServiceAccountName: "sa"}}, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource(resource), name)
}

// server is the part of an API server that has to do with tokens.
type server struct {
	*Signer
	tokens  *token.Authority
	clock   *clocktesting.FakeClock
	metrics *prometheus.Registry
	ran     chan error
	stop    func()
}

func start(t *testing.T, path string, most time.Duration) *server {
	t.Helper()
	s := &server{clock: clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0)), metrics: prometheus.NewRegistry(), ran: make(chan error, 1)}
	var err error
	s.Signer, err = New(Config{Endpoint: path, MaxLifetime: most, Clock: s.clock, Registerer: s.metrics})
	if err != nil {
		t.Fatal(err)
	}
	s.tokens, err = token.New(token.Config{
		Issuers: []string{issuer}, Audiences: []string{issuer}, External: s.Signer, MaxLifetime: most, Extend: true, Objects: objects{}, Clock: s.clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.ran <- s.Run(ctx) }()
	s.stop = func() { cancel(); <-done }
	t.Cleanup(s.stop)
	return s
}

func (s *server) await(t *testing.T) {
	t.Helper()
	select {
	case <-s.Connected():
	case err := <-s.ran:
		t.Fatalf("run: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("it does not connect")
	}
}

func (s *server) issue(ctx context.Context) (string, error) {
	r := &authenticationv1.TokenRequest{}
	_, err := s.tokens.Issue(ctx, account, r)
	return r.Status.Token, err
}

func (s *server) issued(t *testing.T) string {
	t.Helper()
	text, err := s.issue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// good reports whether a token is taken.
func (s *server) good(t *testing.T, text string) bool {
	t.Helper()
	user, _, err := s.tokens.Verify(t.Context(), text, []string{issuer})
	return err == nil && user.Name == "system:serviceaccount:ns:sa"
}

func (s *server) document(t *testing.T, path string) string {
	t.Helper()
	body, _, err := s.tokens.Document(path, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// later lets time go by once it is waited for, and returns when the signer was asked for its keys.
func (s *server) later(t *testing.T, other *signertest.Signer, d time.Duration) {
	t.Helper()
	before := other.Fetches()
	patience := time.After(time.Minute)
	for stepped := false; !stepped || other.Fetches() == before; {
		if !stepped && s.clock.HasWaiters() {
			s.clock.Step(d)
			stepped = true
		}
		select {
		case <-patience:
			t.Fatal("the signer is not asked")
		case <-time.After(time.Millisecond):
		}
	}
	for !s.clock.HasWaiters() { // it has taken the answer
		select {
		case <-patience:
			t.Fatal("the answer is not taken")
		case <-time.After(time.Millisecond):
		}
	}
}

// counted returns a counter of calls by their code.
func (s *server) counted(t *testing.T, name, code string) float64 {
	t.Helper()
	families, err := s.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "apiserver_externaljwt_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			if len(m.GetLabel()) == 0 {
				return m.GetGauge().GetValue()
			}
			if m.GetLabel()[0].GetValue() == code {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func setup(t *testing.T) (*server, *signertest.Signer) {
	t.Helper()
	other := signertest.New(t)
	other.Listen(t)
	s := start(t, other.Path, 0)
	s.await(t)
	return s, other
}

// TestRotation verifies by new keys as soon as one is seen, and refuses by old ones as soon as they are known to be gone.
func TestRotation(t *testing.T) {
	t.Parallel()
	s, other := setup(t)
	first := s.issued(t)
	if !s.good(t, first) || s.good(t, first[:len(first)-8]+"AAAAAAAA") {
		t.Error("the first token is not good, or one that nobody signed is")
	}
	other.Rotate(t, "two", func(k *externaljwt.Key) { k.ExcludeFromOidcDiscovery = true })
	second := s.issued(t)
	if !s.good(t, second) || !s.good(t, first) {
		t.Error("tokens of both keys are not good")
	}
	if keys := s.document(t, "/openid/v1/jwks"); !strings.Contains(keys, `"kid":"two"`) || strings.Contains(keys, `"kid":"one"`) {
		t.Errorf("told keys %s", keys)
	}
	if about := s.document(t, "/.well-known/openid-configuration"); !strings.Contains(about, `["ES256"]`) {
		t.Errorf("told %s", about)
	}
	other.Rotate(t, "three")
	if !s.good(t, first) {
		t.Error("refused before it is known that the key is gone")
	}
	if got := s.tokens.MaxAge("/openid/v1/jwks"); got != time.Minute {
		t.Errorf("others may keep the keys for %v", got)
	}
	s.later(t, other, time.Minute)
	if s.good(t, first) || s.good(t, second) || !s.good(t, s.issued(t)) {
		t.Error("tokens of keys that are gone are good, or the new one's are not")
	}
	if ok := s.counted(t, "sign_request_total", "OK"); ok != 3 {
		t.Errorf("counted %v tokens", ok)
	}
	if from := s.counted(t, "fetch_keys_data_timestamp", ""); from != 1_700_000_000 {
		t.Errorf("keys as of %v", from)
	}
	if at := s.counted(t, "fetch_keys_success_timestamp", ""); at != 1_800_000_060 {
		t.Errorf("fetched at %v", at)
	}
}

// TestLimits bounds tokens to what the signer signs, those too that pods get without asking for one.
func TestLimits(t *testing.T) {
	t.Parallel()
	ask := func(seconds int64, pod bool) authenticationv1.TokenRequestSpec {
		spec := authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}
		if pod {
			spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "p"}
		}
		return spec
	}
	for name, c := range map[string]struct {
		most     int64
		own      time.Duration
		ask      authenticationv1.TokenRequestSpec
		says, is int64 // how long it says to last, and how long it does
	}{
		"as asked":                {86400, 0, ask(7200, false), 7200, 7200},
		"the signer's":            {7200, 0, ask(86400, false), 7200, 7200},
		"the API server's":        {86400, 2 * time.Hour, ask(86400, false), 7200, 7200},
		"a pod's":                 {86400, 0, ask(3607, true), 3607, 86400},
		"a pod's, more than year": {1 << 40, 0, ask(3607, true), 3607, 365 * 86400},
		"a pod's, of less":        {3600, 0, ask(3607, true), 3600, 3600},
	} {
		other := signertest.New(t)
		other.Change(func(s *signertest.Signer) { s.Seconds = c.most })
		other.Listen(t)
		s := start(t, other.Path, c.own)
		s.await(t)
		r := &authenticationv1.TokenRequest{Spec: c.ask}
		asked := *c.ask.ExpirationSeconds
		told, err := s.tokens.Issue(t.Context(), account, r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := []string{}
		if asked != c.says {
			want = append(want, fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", asked, c.says))
		}
		if !slices.Equal(told, want) {
			t.Errorf("%s: told %q, want %q", name, told, want)
		}
		raw, err := base64.RawURLEncoding.DecodeString(strings.Split(r.Status.Token, ".")[1])
		if err != nil {
			t.Fatal(err)
		}
		var claims struct{ Exp, Iat int64 }
		if err := json.Unmarshal(raw, &claims); err != nil {
			t.Fatal(err)
		}
		if is, says := claims.Exp-claims.Iat, r.Status.ExpirationTimestamp.Unix()-s.clock.Now().Unix(); is != c.is || says != c.says {
			t.Errorf("%s: lasts %d s and says %d", name, is, says)
		}
	}
}

// TestBadSignatures are never handed on.
func TestBadSignatures(t *testing.T) {
	t.Parallel()
	s, other := setup(t)
	head := func(text string) func(*externaljwt.SignJWTResponse) {
		return func(r *externaljwt.SignJWTResponse) { r.Header = base64.RawURLEncoding.EncodeToString([]byte(text)) }
	}
	for want, spoil := range map[string]func(*externaljwt.SignJWTResponse){
		"while unwrapping header":                func(r *externaljwt.SignJWTResponse) { r.Header = "=" },
		"while parsing header JSON":              head("{"),
		`unknown field "jku"`:                    head(`{"alg":"ES256","kid":"one","typ":"JWT","jku":"https://elsewhere"}`),
		"more than one header":                   head(`{"alg":"ES256","kid":"one","typ":"JWT"}{}`),
		"bad type":                               head(`{"alg":"ES256","kid":"one"}`),
		"key id missing":                         head(`{"alg":"ES256","typ":"JWT"}`),
		"key id longer than 1 kb":                head(`{"alg":"ES256","kid":"` + strings.Repeat("x", 1025) + `","typ":"JWT"}`),
		`bad signing algorithm "none"`:           head(`{"alg":"none","kid":"one","typ":"JWT"}`),
		"the token's algorithm is not its key's": head(`{"alg":"RS256","kid":"one","typ":"JWT"}`),
		"empty signature returned":               func(r *externaljwt.SignJWTResponse) { r.Signature = "" },
		"go-jose/go-jose: error in cryptographic": func(r *externaljwt.SignJWTResponse) {
			r.Signature = base64.RawURLEncoding.EncodeToString(make([]byte, 64))
		},
		"the token's signature: illegal base64": func(r *externaljwt.SignJWTResponse) { r.Signature = "=" },
	} {
		other.Change(func(s *signertest.Signer) { s.Spoil = spoil })
		if text, err := s.issue(t.Context()); err == nil || text != "" || !strings.Contains(err.Error(), want) || !apierrors.IsInternalError(err) {
			t.Errorf("%s: %q, %v", want, text, err)
		}
	}
	other.Change(func(s *signertest.Signer) { s.Spoil = nil })
	s.issued(t)
	if bad := s.counted(t, "sign_request_total", "unknown-non-grpc"); bad != 12 {
		t.Errorf("counted %v bad ones", bad)
	}
	// A key that is for tokens of the past does not sign new ones.
	other.Change(func(s *signertest.Signer) {
		s.SpoilKeys = func(r *externaljwt.FetchKeysResponse) error { r.Keys[0].ExcludeFromOidcDiscovery = true; return nil }
	})
	s.later(t, other, time.Minute)
	if _, err := s.issue(t.Context()); err == nil || !strings.Contains(err.Error(), "key used for signing JWT (kid: one) is excluded from OIDC discovery docs") {
		t.Errorf("%v", err)
	}
}

// TestBadKeys are not taken; those before go on.
func TestBadKeys(t *testing.T) {
	t.Parallel()
	s, other := setup(t)
	text := s.issued(t)
	pause := time.Minute
	for name, spoil := range map[string]func(*externaljwt.FetchKeysResponse) error{
		"refused": func(*externaljwt.FetchKeysResponse) error { return errors.New("down") },
		"no hint": func(r *externaljwt.FetchKeysResponse) error { r.RefreshHintSeconds = 0; return nil },
		"none":    func(r *externaljwt.FetchKeysResponse) error { r.Keys = nil; return nil },
		"no time": func(r *externaljwt.FetchKeysResponse) error { r.DataTimestamp = nil; return nil },
		"nameless": func(r *externaljwt.FetchKeysResponse) error {
			r.Keys = []*externaljwt.Key{{Key: r.Keys[0].Key}}
			return nil
		},
		"a long name": func(r *externaljwt.FetchKeysResponse) error {
			r.Keys = []*externaljwt.Key{{KeyId: strings.Repeat("x", 1025), Key: r.Keys[0].Key}}
			return nil
		},
		"empty": func(r *externaljwt.FetchKeysResponse) error { r.Keys = []*externaljwt.Key{{KeyId: "x"}}; return nil },
		"no key": func(r *externaljwt.FetchKeysResponse) error {
			r.Keys = []*externaljwt.Key{{KeyId: "x", Key: []byte("x")}}
			return nil
		},
	} {
		other.Change(func(s *signertest.Signer) { s.SpoilKeys = spoil })
		s.later(t, other, pause)
		pause = retryPause
		if all, version := s.Known(); len(all) != 1 || all[0].ID != "one" || version != 1 || !s.good(t, text) {
			t.Errorf("%s: keys %v of version %d", name, all, version)
		}
	}
	if bad := s.counted(t, "fetch_keys_request_total", "Unknown") + s.counted(t, "fetch_keys_request_total", "unknown-non-grpc"); bad != 8 {
		t.Errorf("counted %v bad answers", bad)
	}
	other.Rotate(t, "two")
	other.Change(func(s *signertest.Signer) { s.SpoilKeys = nil })
	s.later(t, other, retryPause)
	if all, version := s.Known(); len(all) != 1 || all[0].ID != "two" || version != 2 {
		t.Errorf("keys %v of version %d", all, version)
	}
}

// TestSignerThatComesLate is waited for; until it is there no token is signed, and none is good.
func TestSignerThatComesLate(t *testing.T) {
	t.Parallel()
	other := signertest.New(t)
	s := start(t, other.Path, 0)
	if _, err := s.issue(t.Context()); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("%v", err)
	}
	other.Listen(t)
	s.await(t)
	if !s.good(t, s.issued(t)) {
		t.Error("not good")
	}
}

// TestSignerThatGoes leaves tokens good that it has signed. New ones have to wait for it, but not for ever.
func TestSignerThatGoes(t *testing.T) {
	t.Parallel()
	s, other := setup(t)
	text := s.issued(t)
	other.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.issue(ctx); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed to generate token: while signing jwt: ") {
		t.Errorf("%v", err)
	}
	if !s.good(t, text) {
		t.Error("a token is good no more")
	}
	if late := s.counted(t, "sign_request_total", "DeadlineExceeded") + s.counted(t, "sign_request_total", "Unavailable"); late != 1 {
		t.Errorf("counted %v", late)
	}
	other.Rotate(t, "two")
	other.Listen(t)
	if !s.good(t, s.issued(t)) || s.good(t, text) {
		t.Error("the signer that came back is not heard")
	}
}

// TestSignersThatCannotBeUsed end the API server.
func TestSignersThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		change func(*signertest.Signer)
		own    time.Duration
	}{
		"while setting up external-jwt-signer: while initially filling key cache: found invalid refresh hint (-1s)":                                                                                {change: func(s *signertest.Signer) { s.Hint = -1 }},
		"while setting up external-jwt-signer: max token life supported by external-jwt-signer (599s) is less than acceptable (min 600s)":                                                          {change: func(s *signertest.Signer) { s.Seconds = 599 }},
		"while setting up external-jwt-signer: service-account-max-token-expiration cannot be set longer than the token expiration supported by service-account-signing-endpoint: 2h0m0s > 1h0m0s": {change: func(s *signertest.Signer) { s.Seconds = 3600 }, own: 2 * time.Hour},
	} {
		other := signertest.New(t)
		other.Change(c.change)
		other.Listen(t)
		s := start(t, other.Path, c.own)
		select {
		case err := <-s.ran:
			if err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		case <-s.Connected():
			t.Errorf("used, want %s", want)
		}
	}
	if _, err := New(Config{Endpoint: "@a b"}); err == nil || !strings.Contains(err.Error(), "must be a valid abstract socket name") {
		t.Errorf("%v", err)
	}
}

// TestKeysAreFetchedTogether asks the signer once or twice for any number of tokens of a key that nobody knows.
func TestKeysAreFetchedTogether(t *testing.T) {
	t.Parallel()
	s, other := setup(t)
	text := s.issued(t)
	parts := strings.Split(text, ".")
	parts[0] = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"nobody","typ":"JWT"}`))
	before := other.Fetches()
	hold, held := make(chan struct{}), make(chan struct{}, 100)
	other.Change(func(o *signertest.Signer) {
		o.SpoilKeys = func(*externaljwt.FetchKeysResponse) error { held <- struct{}{}; <-hold; return nil }
	})
	done := make(chan bool)
	const many = 50
	for range many {
		go func() {
			_, _, err := s.tokens.Verify(t.Context(), strings.Join(parts, "."), []string{issuer})
			done <- err != nil && err.Error() == "invalid signature, no keys found"
		}()
	}
	<-held
	close(hold)
	for range many {
		if !<-done {
			t.Error("not refused")
		}
	}
	if n := other.Fetches() - before; n > many/2 {
		t.Errorf("asked %d times", n)
	}
}
