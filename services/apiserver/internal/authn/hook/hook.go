// Package hook asks a webhook who the holder of a token is.
package hook

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/remote"
)

// Poster asks the webhook.
type Poster interface {
	Post(ctx context.Context, question, answer runtime.Object, tried func(remote.Try)) error
}

// Config is what a verifier needs.
type Config struct {
	Poster Poster
	// Version of TokenReview that the webhook understands: v1 or v1beta1.
	Version string
	// TTL is how long an answer holds; 0 asks every time.
	TTL time.Duration
	// Audiences are the API's own: those of a webhook that names none.
	Audiences []string
	Clock     clock.Clock
	// Cache counts tokens whose answer was remembered; may be nil.
	Cache      *authn.TokenCache
	Registerer prometheus.Registerer
}

// remembered is how many answers are kept.
const remembered = 4096

// askTimeout bounds a question with its retries.
const askTimeout = 30 * time.Second

// Verifier implements authn.TokenVerifier.
type Verifier struct {
	Config
	answers  *cache.LRUExpireCache
	asking   singleflight.Group
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
}

// New returns a verifier.
func New(cfg Config) (*Verifier, error) {
	if _, known := versions[cfg.Version]; !known {
		return nil, fmt.Errorf("unsupported authentication webhook version %q, supported versions are \"v1\", \"v1beta1\"", cfg.Version)
	}
	v := &Verifier{
		Config: cfg, answers: cache.NewLRUExpireCacheWithClock(remembered, cfg.Clock),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_delegated_authn_request_total", Help: "Questions to the authentication webhook, by outcome."}, []string{"code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_delegated_authn_request_duration_seconds", Help: "How long the authentication webhook took.",
			Buckets: []float64{0.25, 0.5, 0.7, 1, 1.5, 3, 5, 10}}, []string{"code"}),
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(v.requests, v.latency)
	}
	return v, nil
}

// answer is what is remembered of a token.
type answer struct {
	user      *authn.User
	audiences []string
	err       error
}

// Verify implements authn.TokenVerifier. Whose token it is is remembered, and that it is nobody's; errors are not.
func (v *Verifier) Verify(ctx context.Context, token string, audiences []string) (*authn.User, []string, error) {
	sum := sha256.Sum256([]byte(strings.Join(audiences, "\x00") + "\x01" + token))
	if known, ok := v.answers.Get(sum); ok {
		v.Cache.Hit()
		return known.(answer).copy()
	}
	done := v.Cache.Miss()
	// The question is everybody's who asks it now: it must not end with the first of them.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	got, err, _ := v.asking.Do(string(sum[:]), func() (any, error) {
		got, err := v.ask(ctx, token, audiences)
		if err == nil && got.known() && v.TTL > 0 {
			v.answers.Add(sum, got, v.TTL)
		}
		return got, err
	})
	if done(err); err != nil {
		return nil, nil, err
	}
	return got.(answer).copy()
}

// known reports whether the webhook knows the token, or knows it to be nobody's. What it says to be wrong with one may pass.
func (a answer) known() bool { return a.err == nil || errors.Is(a.err, authn.ErrNotMine) }

// copy returns a user of the caller's own: groups are added to it.
func (a answer) copy() (*authn.User, []string, error) {
	if a.err != nil {
		return nil, nil, a.err
	}
	user := *a.user
	user.Groups = slices.Clone(user.Groups)
	return &user, a.audiences, nil
}

// ask fails where the webhook gives no answer; an answer that the token is nobody's is one.
func (v *Verifier) ask(ctx context.Context, token string, audiences []string) (answer, error) {
	status, err := versions[v.Version](authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}, func(question, reply runtime.Object) error {
		return v.Poster.Post(ctx, question, reply, v.count)
	})
	if err != nil {
		return answer{}, err
	}
	return v.read(status, audiences), nil
}

func (v *Verifier) count(try remote.Try) {
	code := "<error>"
	if try.Code != 0 {
		code = strconv.Itoa(try.Code)
	}
	v.requests.WithLabelValues(code).Inc()
	v.latency.WithLabelValues(code).Observe(try.Took.Seconds())
}

// read looks at the audiences first: what the webhook has to say of a token for others is not for the caller.
func (v *Verifier) read(status *authenticationv1.TokenReviewStatus, audiences []string) answer {
	meant := status.Audiences
	if len(meant) == 0 {
		meant = v.Audiences
	}
	if meant = authn.Common(audiences, meant); len(meant) == 0 {
		return answer{err: authn.ErrNotMine}
	}
	if !status.Authenticated {
		if status.Error != "" {
			return answer{err: errors.New(status.Error)}
		}
		return answer{err: authn.ErrNotMine}
	}
	user := &authn.User{Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups}
	for key, values := range status.User.Extra {
		if user.Extra == nil {
			user.Extra = map[string][]string{}
		}
		user.Extra[key] = values
	}
	return answer{user: user, audiences: meant}
}
