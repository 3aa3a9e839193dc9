package token

import (
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"howdah.dev/kit/object"
	"howdah.dev/services/apiserver/internal/audit"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/registry"
)

const (
	defaultLifetime = time.Hour
	minLifetime     = 10 * time.Minute
	maxLifetime     = 1 << 32 * time.Second
	// projectedSeconds is what projected tokens ask for that nobody asked for.
	projectedSeconds = 3607
	// extendedLifetime is how long these last, for clients that read their token once.
	extendedLifetime = 365 * 24 * time.Hour
	// deletionLeeway is how long the token of a pod in deletion stays valid.
	deletionLeeway = time.Minute
)

// Objects reads the objects that tokens depend on; a missing one is 404.
type Objects interface {
	Get(ctx context.Context, group, resource, namespace, name string) (registry.Object, error)
}

// Config is what an authority is made of.
type Config struct {
	// Issuers are whose tokens are good; the first issues.
	Issuers []string
	// Audiences are the API's own: who asks for a token without naming any gets one for these.
	Audiences []string
	// JWKSURI is where others find the keys; default <issuer>/openid/v1/jwks.
	JWKSURI string
	// Key signs; nil issues nothing.
	Key crypto.Signer
	// More keys verify, beside it.
	More []crypto.PublicKey
	// External signs and verifies in place of all of them; nil is nobody.
	External External
	// MaxLifetime bounds what is asked for, where it is not 0.
	MaxLifetime time.Duration
	// Extend makes the tokens last a year that pods get without asking for one.
	Extend  bool
	Objects Objects
	// Fresh waits until Objects has all that was written before; nil has it always.
	Fresh func(ctx context.Context) error
	// Used is told the days on which tokens in Secrets are used; it must not block. nil is nobody.
	Used  func(Use)
	Clock clock.PassiveClock
	// Cache counts tokens whose signature was remembered; may be nil.
	Cache *authn.TokenCache
	// Registerer takes the metrics; may be nil.
	Registerer prometheus.Registerer
}

// Authority issues and verifies tokens.
type Authority struct {
	Config
	source Keys
	// verified are the claims of tokens whose signature was good, by the token's hash: a signature costs more than the rest of a read.
	verified *lru.Cache
	// good and stale count tokens that were taken; the stale ones should have been replaced.
	good, stale prometheus.Counter
	legacy      legacyMetrics
	// noted are the uses that were told.
	noted *lru.Cache
}

// remembered is how many tokens' claims are kept.
const remembered = 8192

// New returns an authority.
func New(cfg Config) (*Authority, error) {
	a := &Authority{
		Config: cfg, source: cfg.External, verified: lru.New(remembered), noted: lru.New(remembered), legacy: newLegacyMetrics(),
		good:  prometheus.NewCounter(prometheus.CounterOpts{Name: "serviceaccount_valid_tokens_total", Help: "Tokens of service accounts that were taken."}),
		stale: prometheus.NewCounter(prometheus.CounterOpts{Name: "serviceaccount_stale_tokens_total", Help: "Tokens that were taken and should have been replaced by newer ones."}),
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(a.good, a.stale, a.legacy.all, a.legacy.auto, a.legacy.manual, a.legacy.invalid)
	}
	if cfg.External != nil {
		return a, nil
	}
	all := cfg.More
	if cfg.Key != nil {
		all = append([]crypto.PublicKey{cfg.Key.Public()}, cfg.More...)
	}
	keys, err := fix(all)
	if err != nil {
		return nil, err
	}
	a.source = keys
	return a, nil
}

// limits are how long tokens may last at most, and those that pods get without asking for one. 0 for the first is any time.
func (a *Authority) limits() (longest, extended time.Duration, err error) {
	longest, extended = a.MaxLifetime, extendedLifetime
	switch {
	case a.External == nil && a.Key == nil:
		return 0, 0, apierrors.NewServiceUnavailable("this cluster has no key to sign service-account tokens with")
	case a.External == nil:
		return longest, extended, nil
	}
	most := a.External.MaxLifetime()
	if most == 0 {
		return 0, 0, apierrors.NewServiceUnavailable("the external signer of service-account tokens has not answered yet")
	}
	if longest == 0 {
		longest = most
	}
	return longest, min(extended, most), nil
}

// Issue fills the request's status with a token for the account, and returns what its user is to be told.
func (a *Authority) Issue(ctx context.Context, account registry.Object, request *authenticationv1.TokenRequest) (warnings []string, _ error) {
	most, extended, err := a.limits()
	if err != nil {
		return nil, err
	}
	a.Complete(request)
	spec := &request.Spec
	if spec.ExpirationSeconds == nil {
		seconds := int64(defaultLifetime / time.Second)
		spec.ExpirationSeconds = &seconds
	}
	if errs := validate(spec); len(errs) > 0 {
		return nil, apierrors.NewInvalid(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest").GroupKind(), "", errs)
	}
	if a.External == nil && request.Annotations[object.SecretTokenAnnotation] == "true" {
		return nil, a.issueSecret(ctx, account, request)
	}
	now := a.Clock.Now()
	if longest := int64(most / time.Second); longest > 0 && *spec.ExpirationSeconds > longest {
		warnings = append(warnings, fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", *spec.ExpirationSeconds, longest))
		spec.ExpirationSeconds = &longest
	}
	expires := now.Add(time.Duration(*spec.ExpirationSeconds) * time.Second)
	c := claims{
		Audience: spec.Audiences, Expires: expires.Unix(), IssuedAt: now.Unix(), NotBefore: now.Unix(), Issuer: a.Issuers[0],
		ID: string(uuid.NewUUID()), Subject: authn.ServiceAccountName(account.GetNamespace(), account.GetName()),
		Bound: bound{
			Namespace:      account.GetNamespace(),
			ServiceAccount: reference{account.GetName(), string(account.GetUID())},
		},
	}
	if err := a.bind(ctx, account, spec.BoundObjectRef, &c.Bound); err != nil {
		return nil, err
	}
	if a.Extend && extensible(spec, a.Audiences) {
		c.Bound.WarnAfter, c.Expires = c.Expires, now.Add(extended).Unix()
	}
	signed, err := a.signed(ctx, c)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("failed to generate token: %w", err))
	}
	audit.From(ctx).Annotate("authentication.kubernetes.io/issued-credential-id", "JTI="+c.ID)
	request.Status = authenticationv1.TokenRequestStatus{Token: signed, ExpirationTimestamp: metav1.NewTime(expires.Truncate(time.Second))}
	return warnings, nil
}

// Complete gives a request that names no audiences those of the API.
func (a *Authority) Complete(request *authenticationv1.TokenRequest) {
	if len(request.Spec.Audiences) == 0 {
		request.Spec.Audiences = a.Audiences
	}
}

// extensible reports whether a client may be old enough not to read its token anew: it is meant for the API, and lasts as long
// as those that pods get without asking for one.
func extensible(spec *authenticationv1.TokenRequestSpec, api []string) bool {
	return spec.BoundObjectRef != nil && spec.BoundObjectRef.Kind == "Pod" && *spec.ExpirationSeconds == projectedSeconds && slices.Equal(spec.Audiences, api)
}

func validate(spec *authenticationv1.TokenRequestSpec) field.ErrorList {
	path := field.NewPath("spec", "expirationSeconds")
	seconds := *spec.ExpirationSeconds
	switch {
	case seconds < int64(minLifetime/time.Second):
		return field.ErrorList{field.Invalid(path, seconds, "may not specify a duration less than 10 minutes")}
	case seconds > 1<<32:
		return field.ErrorList{field.Invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")}
	}
	return nil
}

// bind ties the token to the object that the request names.
func (a *Authority) bind(ctx context.Context, account registry.Object, ref *authenticationv1.BoundObjectReference, b *bound) error {
	if ref == nil {
		return nil
	}
	resource := map[string]string{"Pod": "pods", "Secret": "secrets", "Node": "nodes"}[ref.Kind]
	if gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind); resource == "" || gvk.Group != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk))
	}
	namespace := account.GetNamespace()
	if ref.Kind == "Node" {
		namespace = ""
	}
	if ref.Name == "" {
		return apierrors.NewBadRequest("Name parameter required.")
	}
	if bad := path.IsValidPathSegmentName(ref.Name); len(bad) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", ref.Name, strings.Join(bad, ";")))
	}
	obj, err := a.Objects.Get(ctx, "", resource, namespace, ref.Name)
	if err != nil {
		return err
	}
	if ref.UID != "" && ref.UID != obj.GetUID() {
		return apierrors.NewConflict(corev1.Resource(ref.Kind), ref.Name, fmt.Errorf(
			"the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	to := &reference{obj.GetName(), string(obj.GetUID())}
	switch o := obj.(type) {
	case *corev1.Pod:
		if o.Spec.ServiceAccountName != account.GetName() {
			return apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account.GetName()))
		}
		b.Pod = to
		if b.Node, err = a.nodeOf(ctx, o); err != nil {
			return err
		}
	case *corev1.Secret:
		b.Secret = to
	case *corev1.Node:
		b.Node = to
	}
	return nil
}

// nodeOf is the node that a pod is assigned to, by its name alone where there is none of that name; nil: it is not assigned.
func (a *Authority) nodeOf(ctx context.Context, pod *corev1.Pod) (*reference, error) {
	name := pod.Spec.NodeName
	if name == "" {
		return nil, nil
	}
	node, err := a.Objects.Get(ctx, "", "nodes", "", name)
	switch {
	case apierrors.IsNotFound(err):
		return &reference{Name: name}, nil
	case err != nil:
		return nil, err
	}
	return &reference{name, string(node.GetUID())}, nil
}

// Verify implements authn.TokenVerifier.
func (a *Authority) Verify(ctx context.Context, token string, audiences []string) (*authn.User, []string, error) {
	known, err := a.claimed(ctx, token)
	if err != nil {
		return nil, nil, err
	}
	c, ok := known.(*claims)
	if !ok {
		return a.verifySecret(ctx, token, known.(*secretClaims), audiences)
	}
	now := a.Clock.Now()
	meant := authn.Common(c.Audience, audiences)
	switch {
	case now.Unix() >= c.Expires:
		return nil, nil, errors.New("service account token has expired")
	case now.Unix() < c.NotBefore-10:
		return nil, nil, errors.New("service account token is not valid yet")
	case len(meant) == 0:
		return nil, nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", []string(c.Audience), audiences)
	}
	user, err := a.user(ctx, c)
	if err == nil {
		err = a.bound(ctx, c, user)
	}
	switch {
	case err != nil:
	case c.Bound.WarnAfter > 0 && now.Unix() > c.Bound.WarnAfter:
		a.stale.Inc()
	default:
		a.good.Inc()
	}
	if err != nil {
		return nil, nil, err
	}
	return user, meant, nil
}

// claimed returns the claims of a token whose signature and issuer are good, *claims or *secretClaims. They are shared, and not to be changed.
func (a *Authority) claimed(ctx context.Context, token string) (any, error) {
	sum := sha256.Sum256([]byte(token))
	_, version := a.source.Known()
	if v, ok := a.verified.Get(sum); ok && v.(verified).version == version {
		a.Cache.Hit()
		return v.(verified).claims, nil
	}
	var peek struct {
		Issuer string `json:"iss"`
	}
	if err := unverified(token, &peek); err != nil {
		return nil, authn.ErrNotMine
	}
	var c any
	switch {
	case slices.Contains(a.Issuers, peek.Issuer):
		c = &claims{}
	case peek.Issuer == secretIssuer:
		c = &secretClaims{}
	default:
		return nil, authn.ErrNotMine
	}
	done := a.Cache.Miss()
	err := open(token, func(id string) []Key { return a.source.Find(ctx, id) }, c)
	switch { // as Kubernetes tells them
	case errors.As(err, &malformed{}):
		err = authn.ErrNotMine
	case errors.Is(err, errAlgorithm):
		err = errSignature
	}
	if done(err); err != nil {
		return nil, err
	}
	a.verified.Add(sum, verified{c, version})
	return c, nil
}

// verified are claims that were signed by one of the keys of a version.
type verified struct {
	claims  any
	version uint64
}

func (a *Authority) user(ctx context.Context, c *claims) (*authn.User, error) {
	name := authn.ServiceAccountName(c.Bound.Namespace, c.Bound.ServiceAccount.Name)
	if c.Subject != name {
		return nil, errors.New("the token's subject is not its service account")
	}
	if err := a.alive(ctx, c); err != nil {
		return nil, err
	}
	user := &authn.User{
		Name: name, UID: c.Bound.ServiceAccount.UID,
		Groups: authn.ServiceAccountGroups(c.Bound.Namespace),
		Extra:  map[string][]string{"authentication.kubernetes.io/credential-id": {"JTI=" + c.ID}},
	}
	if p := c.Bound.Pod; p != nil {
		user.Extra["authentication.kubernetes.io/pod-name"] = []string{p.Name}
		user.Extra["authentication.kubernetes.io/pod-uid"] = []string{p.UID}
	}
	if n := c.Bound.Node; n != nil {
		user.Extra["authentication.kubernetes.io/node-name"] = []string{n.Name}
		if n.UID != "" {
			user.Extra["authentication.kubernetes.io/node-uid"] = []string{n.UID}
		}
	}
	return user, nil
}

// alive fails where something that the token depends on is gone.
func (a *Authority) alive(ctx context.Context, c *claims) error {
	account := c.Bound.ServiceAccount
	obj, err := a.Objects.Get(ctx, "", "serviceaccounts", c.Bound.Namespace, account.Name)
	if err != nil {
		return err
	}
	if uid := string(obj.GetUID()); uid != account.UID {
		return fmt.Errorf("service account UID (%s) does not match claim (%s)", uid, account.UID)
	}
	if a.gone(obj) {
		return errInvalidated
	}
	for resource, to := range map[string]*reference{"pods": c.Bound.Pod, "secrets": c.Bound.Secret, "nodes": c.Bound.Node} {
		if to == nil || resource == "nodes" && c.Bound.Pod != nil { // with a pod the node is for information
			continue
		}
		namespace := c.Bound.Namespace
		if resource == "nodes" {
			namespace = ""
		}
		obj, err := a.Objects.Get(ctx, "", resource, namespace, to.Name)
		switch {
		case apierrors.IsNotFound(err):
			return errInvalidated
		case err != nil:
			return err
		case string(obj.GetUID()) != to.UID:
			return fmt.Errorf("%s UID (%s) does not match service account %s ref claim (%s)", strings.TrimSuffix(resource, "s"), obj.GetUID(), strings.TrimSuffix(resource, "s"), to.UID)
		case a.gone(obj):
			return errInvalidated
		}
	}
	return nil
}

// errInvalidated says that something is gone which a token depends on.
var errInvalidated = errors.New("service account token has been invalidated")

// gone reports whether the object has been in deletion for a while.
func (a *Authority) gone(obj registry.Object) bool {
	t := obj.GetDeletionTimestamp()
	return t != nil && a.Clock.Now().After(t.Add(deletionLeeway))
}

// Document implements discovery.Documents: the two documents by which others can verify tokens.
func (a *Authority) Document(path, _, accept string) (body []byte, contentType string, err error) {
	switch path {
	case "/.well-known/openid-configuration":
		if !takes(accept, issuerType) {
			return nil, "", notAcceptable(issuerType)
		}
		body, err = json.Marshal(issuerDocument{
			Issuer: a.Issuers[0], Keys: a.jwksURI(), Responses: []string{"id_token"}, Subjects: []string{"public"}, Algorithms: a.algorithms(),
		})
		return body, issuerType, err
	case "/openid/v1/jwks":
		if !takes(accept, keysType) {
			return nil, "", notAcceptable(keysType)
		}
		keys := []*webKey{}
		for _, k := range a.told() {
			keys = append(keys, jwk(k.ID, k.Public))
		}
		body, err = json.Marshal(map[string][]*webKey{"keys": keys})
		return body, keysType, err
	}
	return nil, "", nil
}

// MaxAge says for how long others may keep both documents, which change with the keys.
func (a *Authority) MaxAge(string) time.Duration { return a.source.Fresh() }

func (a *Authority) jwksURI() string {
	if a.JWKSURI != "" {
		return a.JWKSURI
	}
	return strings.TrimSuffix(a.Issuers[0], "/") + "/openid/v1/jwks"
}

func (a *Authority) algorithms() []string {
	seen, all := map[string]bool{}, []string{}
	for _, k := range a.told() {
		if alg, err := Algorithm(k.Public); err == nil && !seen[alg] {
			seen[alg] = true
			all = append(all, alg)
		}
	}
	return all
}

// told are the keys that others hear of.
func (a *Authority) told() []Key {
	all, _ := a.source.Known()
	return slices.DeleteFunc(slices.Clone(all), func(k Key) bool { return k.Hidden })
}
