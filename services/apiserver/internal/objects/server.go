// Package objects serves howdah.api.v1.ObjectService: the Kubernetes API for every registered kind.
//
// Reads come from the watch cache. Writes are planned against the cache and land in the store only where the object is
// still at the revision that the plan was made from; otherwise they are planned again.
package objects

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"go.opentelemetry.io/otel"
	"google.golang.org/grpc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/allocator"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/fieldmanager"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

var tracer = otel.Tracer("howdah.dev/services/apiserver")

// Authenticator finds out who a call speaks for, or fails with 401.
type Authenticator interface {
	Authenticate(ctx context.Context) (*authn.User, error)
}

// TokenIssuer answers serviceaccounts/token.
type TokenIssuer interface {
	// Complete fills in what the request leaves to the server.
	Complete(request *TokenRequest)
	// Issue returns what the user is to be told.
	Issue(ctx context.Context, account registry.Object, request *TokenRequest) (warnings []string, err error)
}

// Ledger commits writes together with what they consume of quotas.
type Ledger interface {
	// Commit is store.Writer's WriteAtomic, and also fails where the newest quotas refuse a usage: with a *admission.RefusedError.
	Commit(ctx context.Context, usages []*admission.Usage, writes []store.Write) ([]store.Result, error)
}

// Initializers says which objects are kept back until initializers have done their part.
type Initializers interface {
	// Hides reports whether lists and watches leave an object out that do not ask for what waits.
	Hides(item *codec.Item) bool
	// Waits reports whether an object waits.
	Waits(obj registry.Object) bool
	// Fails reports whether an initializer has failed, so that the object goes.
	Fails(obj registry.Object) bool
}

// Config is what the service needs.
type Config struct {
	Table         *registry.Table
	Cache         *cache.Cache
	Store         store.Writer
	Authenticator Authenticator
	Authorizer    authz.Authorizer
	Admission     *admission.Chain
	// Ledger keeps quotas; nil counts nothing.
	Ledger    Ledger
	Fields    *fieldmanager.Managers
	Allocator *allocator.Allocator
	Tokens    TokenIssuer
	// Virtual are the resources that are not stored: those that are only created, as reviews, which Answer serves, and those of Made.
	Virtual []*registry.Resource
	// Made are the resources whose objects are made when they are read.
	Made []Made
	// NodeDialer connects to the node agent at host:port.
	NodeDialer func(ctx context.Context, address string) (*grpc.ClientConn, error)
	// NodeTLS is what nodes' HTTPS endpoints are asked with: this API server's certificate, and how theirs are told.
	NodeTLS *tls.Config
	// Aggregator serves what extension API servers serve; nil is none.
	Aggregator Aggregator
	// Network reaches pods and services, for proxies; nil answers them with 503.
	Network Network
	Metrics *Metrics
	Clock   clock.PassiveClock
	// Stale reports whether what is stored under a key would be stored in another form now, encrypted by another key: then an
	// update that changes nothing writes it anew. nil: never.
	Stale func(ctx context.Context, key string) (bool, error)
	// Written are told of updates of a resource's objects, by a status or otherwise, that were committed: both states, which they may not change.
	Written map[schema.GroupResource]func(obj, old registry.Object)
	// Decides reports whether other requests are decided by a kind's objects: whoever writes one is told at which revision that is so. nil: none are.
	Decides func(*registry.Kind) bool
	// SplitLogs lets logs be asked for one of the streams of a container; the feature gate PodLogsQuerySplitStreams.
	SplitLogs bool
	// Offer says which encodings are served beside the usual.
	Offer codec.Offer
	// Initializers says which objects wait for initializers; nil: none does.
	Initializers Initializers
	// MaxReads and MaxWrites bound the calls in flight; more are refused with 429. 0 is 400 and 200, less is no bound.
	MaxReads, MaxWrites int
	// MaxWatches bounds the watches that one user has open here; more are refused with 429. 0 is 10,000, less is no bound.
	MaxWatches int
	// MinWatch is how long a watch lasts at least whose client does not say; it ends before twice that. 0 is 30 min, less lets it last.
	MinWatch time.Duration
}

// Server implements apiv1.ObjectServiceServer.
type Server struct {
	apiv1.UnimplementedObjectServiceServer
	Config
	reads, writes gate
	watches       *share
	turns         turns
}

var _ apiv1.ObjectServiceServer = (*Server)(nil)

// New returns a server; it starts nothing.
func New(cfg Config) *Server {
	if cfg.MaxReads == 0 {
		cfg.MaxReads = 400
	}
	if cfg.MaxWrites == 0 {
		cfg.MaxWrites = 200
	}
	if cfg.MinWatch == 0 {
		cfg.MinWatch = 30 * time.Minute
	}
	if cfg.MaxWatches == 0 {
		cfg.MaxWatches = 10_000
	}
	return &Server{Config: cfg, reads: newGate(cfg.MaxReads), writes: newGate(cfg.MaxWrites), watches: newShare(cfg.MaxWatches)}
}

// gate bounds the calls in flight; nil does not.
type gate chan struct{}

func newGate(size int) gate {
	if size < 0 {
		return nil
	}
	return make(gate, size)
}

func (g gate) enter() bool {
	if g == nil {
		return true
	}
	select {
	case g <- struct{}{}:
		return true
	default:
		return false
	}
}

func (g gate) leave() {
	if g != nil {
		<-g
	}
}

// Objects implements admission.Objects over the cache.
type Objects struct {
	Table *registry.Table
	Cache *cache.Cache
}

// Get implements admission.Objects.
func (o Objects) Get(ctx context.Context, group, resource, namespace, name string) (registry.Object, error) {
	for _, k := range o.Table.Kinds() {
		if k.GVK.Group != group || k.Resource != resource {
			continue
		}
		if !k.Namespaced { // a namespace's labels, a class: who has changed one counts on it for what comes next
			_ = o.Cache.For(k).Acknowledged(ctx) // a cache that stays behind answers with what it has, as an informer does
		}
		item, err := current(ctx, o.Cache, k, k.GroupResource(), namespace, name)
		if err != nil {
			return nil, err
		}
		return item.Object()
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: group, Resource: resource}, name)
}

// List implements admission.Objects.
func (o Objects) List(ctx context.Context, group, resource, namespace string) []registry.Object {
	var objects []registry.Object
	for _, k := range o.Table.Kinds() {
		if k.GVK.Group != group || k.Resource != resource {
			continue
		}
		known := o.Cache.For(k)
		_ = known.Acknowledged(ctx) // a cache that stays behind answers with what it has, as an informer does
		for _, item := range known.List(cache.Query{Namespace: namespace}).Items {
			if obj, err := item.Object(); err == nil {
				objects = append(objects, obj)
			}
		}
	}
	return objects
}

// find returns the newest item of what a path names, and refuses a path that names nothing.
func find(ctx context.Context, c *cache.Cache, kind *registry.Kind, gr schema.GroupResource, namespace, name string) (*codec.Item, error) {
	if err := locate(kind, namespace, name); err != nil {
		return nil, err
	}
	return current(ctx, c, kind, gr, namespace, name)
}

// current returns the newest item that the cache knows. One that seems absent is looked for in the newest state before it fails
// with 404 of the group and resource.
func current(ctx context.Context, c *cache.Cache, kind *registry.Kind, gr schema.GroupResource, namespace, name string) (*codec.Item, error) {
	key := kind.Key(namespace, name)
	if item, known, err := lookUp(ctx, kind, key, name); known {
		return item, err
	}
	if item := codec.LoadOne(ctx, kind, c.For(kind).Get(key)); item != nil {
		return item, nil
	}
	if err := c.Fresh(ctx); err != nil {
		return nil, storeError(err, gr, name, "get")
	}
	if item := codec.LoadOne(ctx, kind, c.For(kind).Get(key)); item != nil {
		return item, nil
	}
	return nil, apierrors.NewNotFound(gr, name)
}

// readError is storeError of a get: to who takes one back Kubernetes names no timeout, as it does with a write.
func readError(err error, gr schema.GroupResource, name string) error {
	var status apierrors.APIStatus
	if errors.Is(err, context.Canceled) && !errors.As(err, &status) {
		return failure(context.Canceled.Error())
	}
	return storeError(err, gr, name, "get")
}

// storeError turns an error of the store or cache into the one that the API answers.
func storeError(err error, gr schema.GroupResource, name, verb string) error {
	var (
		behind   *cache.BehindError
		old      *cache.TooOldError
		conflict *store.ConflictError
		status   apierrors.APIStatus
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status):
		return err
	case errors.Is(err, store.ErrExists):
		return apierrors.NewAlreadyExists(gr, name)
	case errors.Is(err, store.ErrNotFound):
		return apierrors.NewNotFound(gr, name)
	case errors.As(err, &conflict):
		return modified(gr, name)
	case errors.Is(err, store.ErrFenced):
		return apierrors.NewForbidden(gr, name, errors.New("the leadership that this write was made under has passed on"))
	case errors.Is(err, context.Canceled): // by whoever asked, of whom the database knows nothing; only logs and metrics are told
		return apierrors.NewTimeoutError("request did not complete within requested timeout - context canceled", 0)
	case errors.Is(err, store.ErrUnknownOutcome):
		return apierrors.NewTimeoutError("the connection to the database was lost while the write was committed: its outcome is not known", 0)
	case errors.Is(err, cache.ErrLoading):
		return apierrors.NewTooManyRequests("storage is (re)initializing", 1)
	case errors.Is(err, cache.ErrBusy): // clients wait a second and ask again for the same revision
		return apierrors.NewTooManyRequests("the change log cannot be read at present, please try again", 1)
	case errors.Is(err, store.ErrFull): // without a time to come again: it takes somebody who makes room
		return apierrors.NewInternalError(errors.New("the database has no space left on its disk: nothing can be written until it has"))
	case errors.Is(err, store.ErrOverQuota):
		return apierrors.NewInternalError(errors.New("the database is over its quota (--database-quota): nothing can be created until something was deleted"))
	case errors.Is(err, store.ErrUnavailable):
		e := apierrors.NewServiceUnavailable("the database is not available, please try again")
		e.ErrStatus.Details = serverDetails(1)
		return e
	case errors.Is(err, cache.ErrBehind): // not as of a revision that is too large: the client has named none
		return apierrors.NewTimeoutError("the newest state has not arrived in time, please try again", 1)
	case errors.As(err, &behind):
		e := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", behind.Wanted, behind.Current), 1)
		e.ErrStatus.Details = tooLarge(1)
		return e
	case errors.As(err, &old):
		return apierrors.NewResourceExpired(old.Error())
	case errors.Is(err, store.ErrTooOld):
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	case errors.Is(err, store.ErrInvalid):
		return apierrors.NewBadRequest(err.Error())
	}
	return fmt.Errorf("%s %s: %w", verb, gr, err)
}

// modified is the 409 of a write to an object that has moved on.
func modified(gr schema.GroupResource, name string) error {
	return apierrors.NewConflict(gr, name,
		errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}

func parseRevision(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	revision, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, plain(field.Invalid(field.NewPath("resourceVersion"), text, err.Error()))
	}
	return int64(min(revision, math.MaxInt64)), nil
}
