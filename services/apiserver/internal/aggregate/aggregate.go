// Package aggregate makes extension API servers part of this API: what an APIService with a Service says that it serves is
// proxied there, told of in discovery and OpenAPI, and watched for being available.
package aggregate

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/itself"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/weakcert"
)

// API is what the package writes through.
type API interface {
	Create(ctx context.Context, req *apiv1.CreateRequest) (*apiv1.CreateResponse, error)
	Patch(ctx context.Context, req *apiv1.PatchRequest) (*apiv1.PatchResponse, error)
	Delete(ctx context.Context, req *apiv1.DeleteRequest) (*apiv1.DeleteResponse, error)
}

// Network connects to Services.
type Network interface {
	Service(ctx context.Context, namespace, name string, port int32) (net.Conn, error)
}

// Config is what an Aggregator needs.
type Config struct {
	Table   *registry.Table
	Cache   *cache.Cache
	API     API
	Network Network
	// Certificate is the client certificate by which extension API servers know this one; nil presents none, and they will
	// believe no header.
	Certificate func() *tls.Certificate
	// ClientCA and RequestHeaderCA return PEM: the authorities of clients' certificates and of that above, as they are now; nil is none. AllowedNames
	// are the common names that the latter may have. They are published for extension API servers.
	ClientCA, RequestHeaderCA func() []byte
	AllowedNames              []string
	// Registerer takes the metrics; nil registers them nowhere.
	Registerer prometheus.Registerer
	Clock      clock.WithTicker
}

// Aggregator follows the APIServices.
type Aggregator struct {
	cfg                  Config
	services, configMaps *cache.Resource
	backing              backing
	metrics              *metrics
	weaknesses           *weakcert.Weaknesses
	wake                 chan struct{} // a proxied request has failed: look at once

	current    atomic.Pointer[snapshot]
	mu         sync.Mutex
	transports map[string]*transport
	known      map[string]*knowledge
	generation atomic.Int64 // counts changes of what is known
	registered atomic.Int64 // the table's generation whose APIServices exist; -1 is none
	begun      atomic.Bool  // those of built-in kinds have been made
	told       authorities  // as they were published last; Run's alone
}

// snapshot are the APIServices at a revision of their cache.
type snapshot struct {
	revision   int64
	byGV       map[schema.GroupVersion]*apiregistrationv1.APIService // those that a Service serves
	registered []Registration
}

// knowledge is what checks have found out about one APIService.
type knowledge struct {
	available bool
	reason    string
	message   string
	resources *metav1.APIResourceList
	stale     bool     // the resources were told before, and not when it was asked last
	v2, v3    document // OpenAPI of the group version
	group     document // and of the path of its group alone

	checkedVersion string // of the spec that was checked
	checkedBacking string // of the Service and the endpoints behind which it was
	failures       int
	due            time.Time
}

// New returns an Aggregator; it starts nothing.
func New(cfg Config) *Aggregator {
	a := &Aggregator{
		cfg: cfg, metrics: newMetrics(cfg.Registerer), weaknesses: weakcert.New(cfg.Registerer, "apiserver_kube_aggregator"), wake: make(chan struct{}, 1),
		transports: map[string]*transport{}, known: map[string]*knowledge{}, backing: newBacking(cfg.Table, cfg.Cache),
	}
	a.registered.Store(-1)
	for _, k := range cfg.Table.Kinds() {
		switch k.GroupResource() {
		case schema.GroupResource{Group: apiregistrationv1.GroupName, Resource: "apiservices"}:
			a.services = cfg.Cache.For(k)
		case schema.GroupResource{Resource: "configmaps"}:
			a.configMaps = cfg.Cache.For(k)
		}
	}
	return a
}

// remotes returns the APIServices that a Service serves, as the cache has them now.
func (a *Aggregator) remotes() map[schema.GroupVersion]*apiregistrationv1.APIService {
	return a.snapshot().byGV
}

// snapshot returns what the cache has now.
func (a *Aggregator) snapshot() *snapshot {
	revision := a.services.Last()
	if s := a.current.Load(); s != nil && s.revision == revision {
		return s
	}
	// What is listed is at least as new as the revision, so that nothing newer can be missed.
	s := &snapshot{revision: revision, byGV: map[schema.GroupVersion]*apiregistrationv1.APIService{}}
	for _, service := range a.all() {
		if service.Spec.Service != nil {
			s.byGV[schema.GroupVersion{Group: service.Spec.Group, Version: service.Spec.Version}] = service
		}
		s.registered = append(s.registered, registrationOf(service))
	}
	a.current.Store(s)
	return s
}

func (a *Aggregator) all() []*apiregistrationv1.APIService {
	var out []*apiregistrationv1.APIService
	for _, item := range a.services.List(cache.Query{}).Items {
		if obj, err := item.Object(); err == nil {
			if service, ok := obj.(*apiregistrationv1.APIService); ok {
				out = append(out, service)
			}
		}
	}
	return out
}

// Remote returns the APIService of a group version that is not served here, or nil.
func (a *Aggregator) Remote(group, version string) *apiregistrationv1.APIService {
	if a == nil || group == "" {
		return nil
	}
	return a.remotes()[schema.GroupVersion{Group: group, Version: version}]
}

// Version is a remote group version, for discovery.
type Version struct {
	schema.GroupVersion
	GroupPriority, VersionPriority int32
	// Resources are those that it told of when it was last asked; nil where it never answered.
	Resources *metav1.APIResourceList
	// Stale says that it does not tell them now.
	Stale bool
}

// GroupBefore reports whether the version's group stands before another one of a priority: that of the higher priority first, then by name.
func (v Version) GroupBefore(group string, priority int32) bool {
	if v.GroupPriority != priority {
		return v.GroupPriority > priority
	}
	return v.Group < group
}

// Before reports whether the version stands before another one of its group: that of the higher priority first, then as Kubernetes orders versions.
func (v Version) Before(other string, priority int32) bool {
	if v.VersionPriority != priority {
		return v.VersionPriority > priority
	}
	return version.CompareKubeAwareVersionStrings(v.Version, other) > 0
}

// Versions returns the remote group versions in order, and a number that changes with them. A group's priority is the highest of its versions.
func (a *Aggregator) Versions() ([]Version, int64) {
	generation := a.generation.Load() + a.services.Last()
	remotes := a.remotes()
	highest := map[string]int32{}
	for gv, s := range remotes {
		highest[gv.Group] = max(highest[gv.Group], s.Spec.GroupPriorityMinimum)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]Version, 0, len(remotes))
	for gv, s := range remotes {
		v := Version{GroupVersion: gv, GroupPriority: highest[gv.Group], VersionPriority: s.Spec.VersionPriority, Stale: true}
		if k := a.known[s.Name]; k != nil {
			v.Resources, v.Stale = k.resources, k.stale
		}
		out = append(out, v)
	}
	sort.Slice(out, func(i, j int) bool {
		x, y := out[i], out[j]
		if x.Group != y.Group {
			return x.GroupBefore(y.Group, y.GroupPriority)
		}
		return x.Before(y.Version, y.VersionPriority)
	})
	return out, generation
}

// Run registers what is served here and checks what is not, until ctx ends. The cache must stand.
func (a *Aggregator) Run(ctx context.Context) {
	ctx = itself.Context(ctx)
	all := cache.Scope{}
	own, services, endpoints := a.services.Changes(all), cmp.Or(a.backing.services, a.services).Changes(all), cmp.Or(a.backing.slices, a.services).Changes(all)
	trust := a.configMaps.Changes(cache.Scope{Namespace: metav1.NamespaceSystem, Name: published})
	defer func() { own.Stop(); services.Stop(); endpoints.Stop(); trust.Stop() }()
	if !a.register(ctx) { // no signal tells of what somebody has removed between Register and now
		a.registered.Store(-1)
	}
	for {
		if a.cfg.Table.Generation() != a.registered.Load() {
			a.Register(ctx)
		}
		if !a.authorities().equal(a.told) && !a.publish(ctx) {
			a.registered.Store(-1)
		}
		wait := a.checkAll(ctx)
		if a.registered.Load() < 0 {
			wait = min(wait, again)
		}
		timer := a.cfg.Clock.NewTimer(min(wait, longest))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		case <-a.wake:
		case <-own.Signal():
			own.Drain()
			if !a.keep(ctx) {
				a.registered.Store(-1)
			}
		case <-trust.Signal():
			trust.Drain()
			if !a.publish(ctx) {
				a.registered.Store(-1)
			}
		case <-services.Signal():
			services.Drain()
		case <-endpoints.Signal():
			endpoints.Drain()
		}
		timer.Stop()
	}
}

// longest is how long custom kinds wait for their APIServices, and available ones for their next check.
const longest = 10 * time.Second

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // types of this package have no field that cannot be encoded
		panic(err)
	}
	return b
}
