// Package apiserver is the apiserver role: the Kubernetes API over gRPC, on a store of ordered writes.
package apiserver

import (
	"context"
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"howdah.dev/kit/task"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/admission/plugin"
	"howdah.dev/services/apiserver/internal/aggregate"
	"howdah.dev/services/apiserver/internal/allocator"
	"howdah.dev/services/apiserver/internal/audit"
	"howdah.dev/services/apiserver/internal/bootstrap"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/definitions"
	"howdah.dev/services/apiserver/internal/discovery"
	"howdah.dev/services/apiserver/internal/fieldmanager"
	"howdah.dev/services/apiserver/internal/flow"
	"howdah.dev/services/apiserver/internal/front"
	"howdah.dev/services/apiserver/internal/kind"
	"howdah.dev/services/apiserver/internal/objects"
	"howdah.dev/services/apiserver/internal/openapi"
	"howdah.dev/services/apiserver/internal/podnet"
	"howdah.dev/services/apiserver/internal/rbac"
	"howdah.dev/services/apiserver/internal/rbacpolicy"
	"howdah.dev/services/apiserver/internal/review"
	"howdah.dev/services/apiserver/internal/sqlview"
	"howdah.dev/services/apiserver/internal/store"
	"howdah.dev/services/apiserver/internal/store/postgres"
	"howdah.dev/services/apiserver/internal/transaction"
)

// Config is what an apiserver needs. Zero values of what is optional have the defaults named.
type Config struct {
	// DatabaseURL as pgx takes it; the schema must be migrated.
	DatabaseURL string
	// ServiceAccountKey signs service-account tokens, RSA or ECDSA P-256, P-384 or P-521; nil issues none.
	ServiceAccountKey crypto.Signer
	// PublicKeys verify service-account tokens, beside the key above: those of other apiservers, and older ones.
	PublicKeys []crypto.PublicKey
	// Issuer is the tokens' issuer; default https://kubernetes.default.svc.<ClusterDomain>.
	Issuer string
	// Authentication says who is let in, beside nodes, services and service accounts.
	Authentication Authentication
	// Authorization sets the authorizers up that AuthorizationModes name.
	Authorization Authorization
	// ServiceCIDRs are where cluster IPs come from: one range, or one of each family, the default one first. The default is 10.96.0.0/12.
	ServiceCIDRs []netip.Prefix
	// NodePortRange is "first-last"; default 30000-32767.
	NodePortRange string
	// ClusterDomain is the cluster's DNS domain; default cluster.local.
	ClusterDomain string
	// NodeDialer connects to a node agent at host:port, for exec, logs and the like; nil answers those with 503.
	NodeDialer func(ctx context.Context, address string) (*grpc.ClientConn, error)
	// NodeTLS is what nodes' HTTPS endpoints are asked with, by proxies to nodes: a client certificate that they trust, and whose theirs
	// have to be; nil has none, and believes only those of the machine's authorities.
	NodeTLS *tls.Config
	// Usage is the connection to the metrics service, of which metrics.k8s.io is made unless an APIService names an extension API server for it; nil serves no
	// such group.
	Usage grpc.ClientConnInterface
	// GatewayTLS is what gateways are asked with, whether they answer; nil asks none.
	GatewayTLS *tls.Config
	// PodDialer dials endpoints that are on no node, and all where there is no NodeDialer; nil is net.Dialer's.
	PodDialer func(ctx context.Context, network, address string) (net.Conn, error)
	// FrontProxy returns the client certificate that extension API servers are shown; nil shows none, and what they are told of
	// users they will not believe. FrontProxyCA returns the PEM of its authority, ClientCA that of clients' authorities, as they are now, where they are
	// not nil, and FrontProxyNames are the common names that it may have: extension API servers find them in the ConfigMap
	// kube-system/extension-apiserver-authentication.
	FrontProxy      func() *tls.Certificate
	FrontProxyCA    func() []byte
	ClientCA        func() []byte
	FrontProxyNames []string
	// Authorities returns the PEM of the cluster's authorities as they are now, that which signs first; nil tells nobody.
	Authorities func() []byte
	// GatewayEndpoints are the gateways' host:port, to which the service default/kubernetes leads.
	GatewayEndpoints []netip.AddrPort
	// DisabledAdmission names admission plugins that are switched off.
	DisabledAdmission []string
	// EnabledAdmission names admission plugins that are switched on beside those that are by default.
	EnabledAdmission []string
	// AdmissionConfig is the path of an AdmissionConfiguration, with the settings of plugins that have any; empty is none.
	AdmissionConfig string
	// AuthorizationModes are asked in order: Node, RBAC, ABAC, Webhook, AlwaysAllow, AlwaysDeny; default Node, RBAC.
	AuthorizationModes []string
	// EncryptionConfig is the path of an EncryptionConfiguration that says what is stored encrypted; empty stores all in plain.
	// With EncryptionReload, changes of the file take effect without a restart.
	EncryptionConfig string
	EncryptionReload bool
	// Audit says what is recorded of requests.
	Audit Audit
	// HistoryRetention is how long the change log is kept at least; default 1 h.
	HistoryRetention time.Duration
	// DatabaseQuota bounds the bytes that objects and the change log take in the database; 0 sets no bound.
	DatabaseQuota int64
	// Identity names this apiserver, by its host: it shows itself as a Lease in kube-system. Empty shows none.
	Identity string
	// EventTTL is how long an Event stays after it was last written; default 1 h, less than 0 is for ever.
	EventTTL time.Duration
	// MaxReads and MaxWrites bound the requests in flight; default 400 and 200. Their sum is what priority and fairness
	// shares out; without it, more are refused with 429.
	MaxReads, MaxWrites int
	// MaxWatches bounds the watches that one user has open here; more are refused with 429. 0 is 10,000, less is no bound.
	MaxWatches int
	// NoPriorityAndFairness leaves FlowSchemas and PriorityLevelConfigurations without effect.
	NoPriorityAndFairness bool
	// RequestTimeout is how long a request may take, watches and streams excepted; default 1 min.
	RequestTimeout time.Duration
	// MinWatch is how long a watch lasts at least whose client does not say; it ends before twice that. 0 is 30 min, less lets it last.
	MinWatch time.Duration
	// RuntimeConfig says what versions of the API are served, as --runtime-config of kube-apiserver does; none is those that are
	// stable.
	RuntimeConfig []string
	// Features are the feature gates that are on, by Kubernetes' names, of those that kinds go by.
	Features map[string]bool
	// CBOR serves application/cbor too, as Kubernetes does with its feature gate CBORServingAndStorage. Nothing is stored as CBOR.
	CBOR bool
	// Registerer takes the metrics; nil registers them nowhere.
	Registerer prometheus.Registerer
	// Clock is the time; default the real one.
	Clock clock.WithTickerAndDelayedExecution
}

// backend is a store that has to be run.
type backend interface {
	store.Store
	store.Historian
	Run(ctx context.Context) error
}

// Server is one apiserver.
type Server struct {
	cfg        Config
	store      backend
	cache      *cache.Cache
	fields     *fieldmanager.Managers
	documents  *openapi.Documents
	follower   *definitions.Follower
	objects    *objects.Server
	discovery  *discovery.Server
	known      objects.Objects
	network    *podnet.Dialer
	aggregator *aggregate.Aggregator
	reviews    *review.Server
	// transactions and history are what Kubernetes has not.
	transactions *transaction.Server
	history      *objects.History
	ready        chan struct{}
	background   []task.Func     // what authenticators have to do beside answering
	signs        <-chan struct{} // closed when tokens can be signed and verified; nil where that needs nobody
	stopped      chan struct{}   // closed when Run is to end
	front        *front.Front
	flow         *flow.Dispatcher // nil where priority and fairness is off
	keeper       flow.Keeper
	audit        *audit.Log // nil where nothing is recorded
}

// New builds a server; it connects to nothing and starts nothing.
func New(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	st, err := postgres.New(postgres.Config{DatabaseURL: cfg.DatabaseURL, Retention: cfg.HistoryRetention, Quota: cfg.DatabaseQuota, Metrics: cfg.Registerer})
	if err != nil {
		return nil, err
	}
	return build(cfg, st)
}

func (cfg *Config) complete() error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if len(cfg.ServiceCIDRs) == 0 {
		cfg.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}
	}
	cfg.ServiceCIDRs = slices.Clone(cfg.ServiceCIDRs)
	for i, p := range cfg.ServiceCIDRs {
		cfg.ServiceCIDRs[i] = p.Masked()
	}
	if cfg.NodePortRange == "" {
		cfg.NodePortRange = "30000-32767"
	}
	if cfg.ClusterDomain == "" {
		cfg.ClusterDomain = "cluster.local"
	}
	if cfg.Issuer == "" {
		cfg.Issuer = "https://kubernetes.default.svc." + cfg.ClusterDomain
	}
	if len(cfg.AuthorizationModes) == 0 {
		cfg.AuthorizationModes = []string{"Node", "RBAC"}
	}
	if cfg.Authorization.AlwaysAllowPaths == nil {
		cfg.Authorization.AlwaysAllowPaths = []string{"/healthz", "/readyz", "/livez"}
	}
	if cfg.EventTTL == 0 {
		cfg.EventTTL = time.Hour
	}
	if cfg.MaxReads == 0 {
		cfg.MaxReads = 400
	}
	if cfg.MaxWrites == 0 {
		cfg.MaxWrites = 200
	}
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = time.Minute
	}
	_, _, err := cfg.ports()
	return err
}

func (cfg *Config) ports() (first, last int, err error) {
	n, err := fmt.Sscanf(cfg.NodePortRange, "%d-%d", &first, &last)
	if err != nil || n != 2 || first < 1 || last < first || last > 65535 {
		return 0, 0, fmt.Errorf("node port range %q is not first-last", cfg.NodePortRange)
	}
	return first, last, nil
}

func build(cfg Config, plain backend) (*Server, error) {
	st, encryption, err := cfg.encrypted(measured{backend: plain, requests: newRequests(cfg.Registerer)})
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, store: st, ready: make(chan struct{}), stopped: make(chan struct{})}
	kinds, err := cfg.kinds(s.made())
	if err != nil {
		return nil, err
	}
	if s.audit, err = cfg.auditLog(); err != nil {
		return nil, err
	}
	table := kinds.table
	s.documents = openapi.New(table, kinds.virtual, discovery.Version.Major+"."+discovery.Version.Minor)
	s.fields = fieldmanager.New(table, s.documents.Others)
	first, last, err := cfg.ports()
	if err != nil {
		return nil, err
	}
	addresses := &objects.Addresses{Table: table, Fields: s.fields, Clock: cfg.Clock}
	allocations := allocator.New(allocator.Config{
		ServiceCIDRs: cfg.ServiceCIDRs, Addresses: addresses, FirstPort: first, LastPort: last,
		Fresh: func(ctx context.Context) error { return s.cache.Fresh(ctx) },
	})
	s.cache = cache.New(st, table, cfg.Clock, map[string]cache.Observer{allocator.Prefix: allocations.Ports(), addresses.Prefix(): allocations.Held()})
	addresses.Cache = s.cache
	s.define(table)
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(s.cache, allocations)
	}
	known := objects.Objects{Table: table, Cache: s.cache}
	s.known = known
	s.network = &podnet.Dialer{Objects: known, Nodes: cfg.NodeDialer, Direct: cfg.PodDialer}
	authorizer, guard, err := s.authorizer(rbac.Follow(table, s.cache))
	if err != nil {
		return nil, err
	}
	chain, err := s.admission(authorizer, guard, &plugin.PodCertificateSigning{Authorizer: authorizer}, &plugin.ResourceClaimStatus{Authorizer: authorizer})
	if err != nil {
		return nil, err
	}
	authenticator, tokens, err := s.authenticator(authorizer)
	if err != nil {
		return nil, err
	}
	metrics := objects.NewMetrics(cfg.Registerer)
	cfg.tellBuild()
	remembering := front.Remembering{Authenticator: authenticator}
	maxReads, maxWrites := s.share(authenticator, authorizer, metrics)
	s.aggregator = aggregate.New(aggregate.Config{
		Table: table, Cache: s.cache, API: lateAPI{s}, Network: s.network, Certificate: cfg.FrontProxy, ClientCA: cfg.ClientCA,
		RequestHeaderCA: cfg.FrontProxyCA, AllowedNames: cfg.FrontProxyNames, Registerer: cfg.Registerer, Clock: cfg.Clock,
	})
	s.objects = objects.New(objects.Config{
		Table: table, Cache: s.cache, Store: st, Authenticator: remembering,
		Authorizer: s.audited(authorizer), Ledger: s.ledger(table, st),
		Admission: chain, Fields: s.fields, Allocator: allocations, Tokens: tokens, Virtual: kinds.virtual, Made: kinds.made, NodeDialer: cfg.NodeDialer, NodeTLS: cfg.NodeTLS,
		Network: s.network, Aggregator: s.aggregator,
		Metrics: metrics, Clock: cfg.Clock, Stale: encryption.stale, Initializers: s.waiting(), MaxReads: maxReads, MaxWrites: maxWrites, MaxWatches: cfg.MaxWatches, MinWatch: cfg.MinWatch, Offer: codec.Offer{CBOR: cfg.CBOR},
		Written: written(cfg.Registerer), Decides: kind.Decides, SplitLogs: cfg.Features["PodLogsQuerySplitStreams"],
	})
	s.keeper.API = s.objects
	s.expire()
	s.announce()
	s.reviews = &review.Server{Objects: s.objects, Authenticator: authenticator, Authorizer: authorizer, Lister: authorizer, Clock: cfg.Clock, Served: kinds.has}
	s.transactions, s.history = transaction.New(table, s.reviews, cfg.Registerer), objects.NewHistory(s.objects, st)
	s.discovery = discovery.New(discovery.Config{
		Table: table, Address: cfg.address(), Virtual: kinds.virtual, Authenticator: remembering, Authorizer: s.audited(authorizer), AlwaysAllowed: cfg.Authorization.AlwaysAllowPaths,
		Fresh: s.cache.Fresh, More: []discovery.Documents{tokens, s.flow, discovery.Authorities(cfg.Authorities), aggregate.NewOpenAPI(s.documents, s.aggregator)},
		Remote: s.aggregator.Versions, Registered: s.aggregator.Registered,
		Checks: s.checks(encryption.checks, func(ctx context.Context) error { _, err := st.Revision(ctx); return err }), Metrics: cfg.gatherer(), Registerer: cfg.Registerer,
	})
	return s, nil
}

// Register adds the services to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	r = s.front.Registrar(r)
	apiv1.RegisterObjectServiceServer(r, s.served())
	apiv1.RegisterDiscoveryServiceServer(r, s.discovery)
	apiv1.RegisterTransactionServiceServer(r, s.transactions)
	apiv1.RegisterHistoryServiceServer(r, s.history)
}

// Ready is closed when the server answers: the cache stands and the cluster's own objects exist.
func (s *Server) Ready() <-chan struct{} { return s.ready }

func (s *Server) notReady() error {
	select {
	case <-s.ready:
		return nil
	default:
		return errors.New("the cache is being filled")
	}
}

// Run serves until ctx ends: it owns the store's connections, the log's tail, the cache and the bootstrap.
func (s *Server) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { close(s.stopped) })()
	return task.Run(ctx, append([]task.Func{s.store.Run, s.cache.Run, s.keepDefinitions, s.publish, s.aggregate, s.start, s.keepOwn, s.followGateways, s.runAudit}, s.background...)...)
}

// publish tells the database of the kinds, for those who ask in SQL.
func (s *Server) publish(ctx context.Context) error {
	if s.cfg.DatabaseURL == "" {
		<-ctx.Done()
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ready:
	}
	return sqlview.Run(ctx, s.cfg.DatabaseURL, s.known.Table.Kinds)
}

// start waits for the cache and makes what every cluster has.
func (s *Server) start(ctx context.Context) error {
	go s.fields.Warm()
	select {
	case <-ctx.Done():
		return nil
	case <-s.cache.Ready():
	}
	if err := bootstrap.Run(ctx, s.bootstrap()); err != nil {
		return nil // ctx ended
	}
	if slices.Contains(s.cfg.AuthorizationModes, "RBAC") {
		if err := rbacpolicy.Run(ctx, s.objects, s.known, s.cache.Fresh, rbacpolicy.Served{Features: s.cfg.Features, Usage: s.cfg.Usage != nil}); err != nil {
			return nil // ctx ended
		}
	}
	if err := s.keeper.Bootstrap(ctx); err != nil {
		return nil // ctx ended
	}
	if s.signs != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-s.signs:
		}
	}
	s.aggregator.Register(ctx)
	close(s.ready)
	s.discovery.Probe(ctx)
	return s.runFlow(ctx)
}
