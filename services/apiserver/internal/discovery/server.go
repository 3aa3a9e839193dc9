package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"howdah.dev/kit/release"
	"howdah.dev/kit/sli"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/aggregate"
	"howdah.dev/services/apiserver/internal/audit"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// Authenticator finds out who a call speaks for.
type Authenticator interface {
	Authenticate(ctx context.Context) (*authn.User, error)
	Token(ctx context.Context, token string) (*authn.User, error)
}

// Authorizer decides who may read what.
type Authorizer interface {
	Authorize(ctx context.Context, a *authz.Attributes) (authz.Decision, string, error)
}

// Documents answers paths that other packages know, as /openapi/v2. nil, nil means that no such document stands.
type Documents interface {
	Document(path, query, accept string) (body []byte, contentType string, err error)
}

// hashed are Documents that know what names the answers that they give: making a hash takes longer than most of these do.
type hashed interface {
	Hash(path, accept string) string
}

// aged are Documents of which others may keep a copy.
type aged interface {
	MaxAge(path string) time.Duration
}

// Check is one part of the server's health.
type Check struct {
	Name string
	// Live says that its failure wants a restart; otherwise it only makes the server not ready.
	Live bool
	// Ready says that only /readyz has it: /healthz is of those that are asked for both.
	Ready bool
	// Alive takes Run's place where it is asked whether a restart would help; nil is Run.
	Alive func(ctx context.Context) error
	Run   func(ctx context.Context) error
}

// Config is what the service needs.
type Config struct {
	Table *registry.Table
	// Address is the host:port at which clients find the API, as /api tells; empty where it is not known.
	Address string
	// Virtual are resources that are not stored: they are only created, as reviews, or only read.
	Virtual       []*registry.Resource
	Authenticator Authenticator
	// Fresh, which may be nil, brings the table up to date.
	Fresh      func(ctx context.Context) error
	Authorizer Authorizer
	// AlwaysAllowed are paths that are not authorized; one that ends in a star stands for all that it begins. Kubernetes' own
	// default is /healthz, /readyz and /livez.
	AlwaysAllowed []string
	More          []Documents
	Checks        []Check
	// Metrics are served at /metrics; nil: there is no such path.
	Metrics prometheus.Gatherer
	// Registerer takes the server's own metrics; nil leaves them unregistered.
	Registerer prometheus.Registerer
	// Remote, which may be nil, returns the group versions that extension API servers serve, in order, and a number that changes
	// with them.
	Remote func() ([]aggregate.Version, int64)
	// Registered, which may be nil, returns what APIServices say; the number of Remote changes with it.
	Registered func() []aggregate.Registration
}

// Server implements apiv1.DiscoveryServiceServer.
type Server struct {
	apiv1.UnimplementedDiscoveryServiceServer
	cfg    Config
	checks *sli.Checks
	// aggregations counts documents that were made of all groups.
	aggregations prometheus.Counter

	mu      sync.Mutex
	current *served
}

// served is what one generation of the table serves, with the documents that were made of it.
type served struct {
	generation, remote int64
	groups             []group
	registered         []aggregate.Registration // what the lists of groups tell, in their order
	address            string
	aggregations       prometheus.Counter

	mu   sync.Mutex
	made map[string]*document
}

var _ apiv1.DiscoveryServiceServer = (*Server)(nil)

// New returns a server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, checks: sli.New(), aggregations: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "aggregator_discovery_aggregation_count_total", Help: "Times that aggregated discovery was made anew.",
	})}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(s.aggregations)
	}
	return s
}

// served returns what is served now. Custom kinds that another apiserver has established meanwhile are among it.
func (s *Server) served(ctx context.Context) *served {
	if s.cfg.Fresh != nil {
		_ = s.cfg.Fresh(ctx) // what is known is told even where the store cannot be asked
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	generation, remoteGeneration := s.cfg.Table.Generation(), int64(0)
	var remote []aggregate.Version
	if s.cfg.Remote != nil {
		remote, remoteGeneration = s.cfg.Remote()
	}
	if s.current == nil || s.current.generation != generation || s.current.remote != remoteGeneration {
		var registered []aggregate.Registration
		if s.cfg.Registered != nil {
			registered = s.cfg.Registered()
		}
		groups := withRemote(groupsOf(s.cfg.Table, s.cfg.Virtual), remote)
		s.current = &served{
			generation: generation, remote: remoteGeneration, address: s.cfg.Address, groups: groups, registered: registrations(groups, registered),
			made: map[string]*document{}, aggregations: s.aggregations,
		}
	}
	return s.current
}

// Version is what /version tells.
var Version = version.Info{
	Major: "1", Minor: "36", EmulationMajor: "1", EmulationMinor: "36", MinCompatibilityMajor: "1", MinCompatibilityMinor: "35",
	GitVersion: release.Version() + "+howdah", GitTreeState: "clean",
	GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
}

// Authenticate implements apiv1.DiscoveryServiceServer.
func (s *Server) Authenticate(ctx context.Context, req *apiv1.AuthenticateRequest) (*apiv1.AuthenticateResponse, error) {
	var user *authn.User
	var err error
	want := accessOf(req.GetAccess())
	if req.GetAccess() != nil {
		ctx = authn.WithAsked(ctx, func() authn.Access { return want })
	}
	if req.GetToken() != "" {
		user, err = s.cfg.Authenticator.Token(ctx, req.GetToken())
	} else {
		user, err = s.cfg.Authenticator.Authenticate(ctx)
	}
	if err != nil {
		return nil, err
	}
	if req.GetAccess() != nil {
		if err := s.authorize(ctx, authz.For(user, want)); err != nil {
			return nil, err
		}
	}
	resp := &apiv1.AuthenticateResponse{User: user.Name, Groups: user.Groups, Uid: user.UID}
	for _, key := range slices.Sorted(maps.Keys(user.Extra)) {
		resp.Extra = append(resp.Extra, &apiv1.UserExtra{Key: key, Values: user.Extra[key]})
	}
	return resp, nil
}

// Report implements apiv1.DiscoveryServiceServer. What is reported was recorded before it came here.
func (s *Server) Report(context.Context, *apiv1.ReportRequest) (*apiv1.ReportResponse, error) {
	return &apiv1.ReportResponse{}, nil
}

func accessOf(a *apiv1.Access) authn.Access {
	return authn.Access{
		Verb: a.GetVerb(), Path: a.GetPath(), Group: a.GetGroup(), Version: a.GetVersion(), Resource: a.GetResource(),
		Subresource: a.GetSubresource(), Namespace: authz.NamespaceOf(a.GetGroup(), a.GetResource(), a.GetNamespace(), a.GetName()), Name: a.GetName(),
	}
}

func (s *Server) authorize(ctx context.Context, a *authz.Attributes) error {
	if a.Path != "" && (a.Verb == "get" || a.Verb == "head") && s.alwaysAllowed(a.Path) {
		audit.From(ctx).Allowed()
		return nil
	}
	decision, reason, err := s.cfg.Authorizer.Authorize(ctx, a)
	if decision == authz.Allow {
		return nil
	}
	return authz.Refused(a, audit.URIOf(ctx, a), reason, err)
}

func (s *Server) alwaysAllowed(path string) bool {
	return slices.ContainsFunc(s.cfg.AlwaysAllowed, func(allowed string) bool {
		if prefix, star := strings.CutSuffix(allowed, "*"); star {
			return strings.HasPrefix(path, prefix)
		}
		return path == allowed
	})
}

// customKey is the metadata that tells a gateway that a document lists custom resources, which take methods otherwise than built-in ones.
const customKey = "howdah-custom"

// Document implements apiv1.DiscoveryServiceServer.
func (s *Server) Document(ctx context.Context, req *apiv1.DocumentRequest) (*apiv1.DocumentResponse, error) {
	path := req.GetPath()
	if slashed(path) {
		path = unslashed(path)
	}
	user, err := s.cfg.Authenticator.Authenticate(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.authorize(ctx, &authz.Attributes{User: user, Verb: "get", Path: req.GetPath()}); err != nil {
		return nil, err
	}
	d, err := s.document(ctx, path, req.GetQuery(), req.GetAccept())
	if err != nil {
		return nil, err
	}
	if d.custom {
		_ = grpc.SetHeader(ctx, metadata.Pairs(customKey, "true")) // it fails only where there is no call
	}
	resp := &apiv1.DocumentResponse{ContentType: d.contentType, Etag: d.etag, Remote: d.remote, MaxAgeSeconds: d.maxAge}
	if d.etag != "" && req.GetIfNoneMatch() == d.etag {
		resp.NotModified = true
		return resp, nil
	}
	resp.Object = d.body
	return resp, nil
}

func (s *Server) document(ctx context.Context, path, query, accept string) (*document, error) {
	switch {
	case path == "/version":
		if err := offered(accept, "application/json"); err != nil {
			return nil, err
		}
		body, err := json.MarshalIndent(Version, "", "  ")
		return &document{body: body, contentType: "application/json"}, err
	case isHealth(path):
		return s.health(ctx, path, query)
	case path == "/metrics":
		return metricsOf(s.cfg.Metrics)
	case path == "/metrics/slis":
		slis := prometheus.NewRegistry()
		slis.MustRegister(s.checks)
		return metricsOf(slis)
	case path == "/" || path == "/index.html":
		return s.index(ctx)
	case path == "/api" || strings.HasPrefix(path, "/api/") || path == "/apis" || strings.HasPrefix(path, "/apis/"):
		return s.served(ctx).apis(path, accept)
	}
	for _, more := range s.cfg.More {
		body, contentType, err := more.Document(path, query, accept)
		if err != nil {
			return nil, err
		}
		if body != nil {
			d := &document{body: body, contentType: contentType}
			if a, ok := more.(aged); ok {
				seconds := int64(a.MaxAge(path) / time.Second)
				d.maxAge = &seconds
			}
			if h, ok := more.(hashed); ok {
				if hash := h.Hash(path, accept); hash != "" {
					d.etag = `"` + hash + `"`
				}
			}
			return d, nil
		}
	}
	if strings.HasPrefix(path, "/version/") {
		return nil, notFound()
	}
	return nil, pageNotFound()
}

// slashed reports whether a path stands for the same document with a slash at its end as without.
func slashed(path string) bool {
	root, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return root != "" && root != "openapi" && !isHealth(path)
}

// unslashed is the path of the document that one with slashes at its end stands for: any number of them, but for the list of the groups.
func unslashed(path string) string {
	if plain := strings.TrimRight(path, "/"); plain != "/apis" {
		return plain
	}
	return strings.TrimSuffix(path, "/")
}

func notFound() *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
	}}
}

// absent is the answer for a document that there is not. A group that there is not is no part of the API at all, and neither is a version of
// one that has custom resources alone.
func (s *served) absent(path string) error {
	err := notFound()
	if v := s.remoteVersion(path); v != nil {
		err.ErrStatus.Message = "stale GroupVersion discovery: " + v.GroupVersion.String()
		return err
	}
	name, is := strings.CutPrefix(path, "/apis/")
	name, _, _ = strings.Cut(name, "/")
	if is && !slices.ContainsFunc(s.groups, func(g group) bool { return name != "" && g.name == name && !g.custom() }) {
		err.ErrStatus.Message = "404 page not found"
	}
	return err
}

func (s *served) apis(path, accept string) (*document, error) {
	var aggregate string
	var media codec.Media
	var err error
	if path == "/api" || strings.HasPrefix(path, "/api/") || strings.Count(path, "/") == 3 {
		err = offered(accept, "application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
	}
	if err == nil {
		aggregate, media, err = want(accept, path == "/api" || path == "/apis")
	}
	if err != nil {
		if plain(s.groups, s.registered, s.address)[path] == nil { // what is not there is so in every form
			err = s.absent(path)
		}
		return nil, err
	}
	key := fmt.Sprint(path, " ", aggregate, " ", media)
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.made[key]; d != nil {
		return d, nil
	}
	var d *document
	if aggregate != "" {
		s.aggregations.Inc()
		d, err = aggregatedDocument(aggregated(s.groups, path == "/api"), aggregate, media)
	} else {
		obj := plain(s.groups, s.registered, s.address)[path]
		if obj == nil {
			return nil, s.absent(path)
		}
		var body []byte
		var contentType string
		body, contentType, err = codec.Any(obj, obj.GetObjectKind().GroupVersionKind(), codec.Form{Media: media})
		d = &document{body: body, contentType: contentType, remote: s.remoteVersion(path) != nil, custom: s.custom(path)} // which Kubernetes gives no ETag
	}
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	s.made[key] = d
	return d, nil
}

// elsewhere are the paths of documents that others make: those of Documents, and of the gateway.
var elsewhere = []string{
	"/.well-known/openid-configuration", "/api", "/apis", "/apis/", "/flagz", "/metrics", "/metrics/slis",
	"/openapi/v2", "/openapi/v3", "/openapi/v3/", "/openid/v1/jwks", "/statusz", "/version",
}

// index lists the paths that are served.
func (s *Server) index(ctx context.Context) (*document, error) {
	paths := slices.Clone(elsewhere)
	served := s.served(ctx)
	for _, g := range served.groups {
		for _, v := range g.versions {
			if g.name == "" {
				paths = append(paths, "/api/"+v.gv.Version)
			}
		}
	}
	for _, r := range served.registered {
		paths = append(paths, "/apis/"+r.Group, "/apis/"+r.String())
	}
	for _, probe := range []string{"healthz", "livez", "readyz"} {
		paths = append(paths, "/"+probe)
		for _, c := range s.checksOf(probe) {
			paths = append(paths, "/"+probe+"/"+c.Name)
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths) // a group of many versions
	body, err := json.MarshalIndent(metav1.RootPaths{Paths: paths}, "", "  ")
	return &document{body: body, contentType: "application/json"}, err
}
