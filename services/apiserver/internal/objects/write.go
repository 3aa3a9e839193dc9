package objects

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/allocator"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/kind/unversioned"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// maxAttempts is how often a write is planned anew when the object moves on under it. Those of one API server take turns, so that it is others' writes that make
// it move on; where one of two servers is busy with the object for a while, the other's writes may lose some twenty times.
const maxAttempts = 100

// errStale says that a plan contradicts a state that is not the newest any more.
var errStale = errors.New("the object has moved on")

// operation is a write that can be planned, and planned again.
type operation interface {
	// plan decides against the newest state that the cache has what is to be written. It has no effect but on the
	// allocator, through the plan's session.
	plan(ctx context.Context) (*plan, error)
	// answer encodes the outcome.
	answer(item *codec.Item, p *plan) (answer, error)
	about() *request
}

// staged is an operation that has another one written before it, in a transaction of its own; nil is none.
type staged interface {
	before() operation
}

// plan is what a write will do.
type plan struct {
	// writes are committed together, the object's own first. None: the state stands as current says.
	writes  []store.Write
	session *allocator.Session
	// usage is what the writes consume of quotas; nil: nothing.
	usage *admission.Usage
	// obj and value are the object's new state; after a deletion, its last.
	obj   registry.Object
	value []byte
	// old is the state before an update.
	old            registry.Object
	createRevision int64
	current        *codec.Item
	deleted        bool
	created        bool
	// applied says that obj is what server-side apply made, or that it is a custom one that may be read otherwise than it is: with fields
	// that the schema does not know, or without one that has a default, as the status that a creation leaves out.
	applied bool
	// let says that an update lets the object go, which is answered at the revision that it had before.
	let bool
	// accepted asks for 202: the deletion has only begun.
	accepted bool
	// told says that a deletion tells of obj as the last state, at the revision before its own: whoever watches hears that it has begun.
	told bool
}

// first returns the revision of the plan's first event, where its last is at the given one.
func (p *plan) first(last int64) int64 {
	if p.told {
		return last - 1
	}
	return last
}

func (p *plan) end(committed bool) {
	if p.session != nil {
		p.session.End(committed)
	}
}

// asStored reports whether the object is what will be read of its stored bytes. Of a custom kind it may not be: what the stored
// version has no fields for is lost.
func (p *plan) asStored(kind *registry.Kind) bool {
	return kind.Custom == nil || kind.Custom.Stored() && !p.applied
}

// item returns the outcome at its revision; 0 is a dry run, whose object keeps the revision it has.
func (p *plan) item(kind *registry.Kind, key string, revision int64) *codec.Item {
	if len(p.writes) == 0 && p.current != nil {
		return p.current
	}
	createRevision := p.createRevision
	if createRevision == 0 {
		createRevision = revision
	}
	if p.asStored(kind) {
		return codec.NewDecodedItem(kind, key, p.value, p.obj, revision, createRevision)
	}
	// What the stored version has no fields for is lost, and so it is in the answer.
	item := codec.NewItem(kind, key, p.value, revision, createRevision)
	if revision > 0 {
		return item
	}
	obj, err := item.Copy()
	if err != nil {
		return item // its answer is the error
	}
	obj.SetResourceVersion(p.obj.GetResourceVersion())
	return codec.NewDecodedItem(kind, key, p.value, obj, revision, createRevision)
}

// outcome returns what a committed plan has made of the object.
func (s *Server) outcome(p *plan, handed *cache.Handed, kind *registry.Kind, key string, revision int64) *codec.Item {
	if handed == nil {
		return p.item(kind, key, revision)
	}
	createRevision := p.createRevision
	if createRevision == 0 {
		createRevision = revision
	}
	if p.told {
		return handed.Done(s.Cache, revision-1, createRevision).At(revision)
	}
	return handed.Done(s.Cache, revision, createRevision)
}

// execute plans and commits a write until it lands, fails, or the object keeps moving on.
func (s *Server) execute(ctx context.Context, op operation, dryRun bool) (answer, error) {
	r := op.about()
	r.dryRun = dryRun
	if dryRun {
		if err := s.settled(ctx, r); err != nil {
			return answer{}, err
		}
	}
	if two, ok := op.(staged); ok && !dryRun {
		if first := two.before(); first != nil {
			if _, err := s.execute(ctx, first, false); err != nil {
				return answer{}, err
			}
		}
	}
	kind := r.res.Kind
	turn, err := s.waitTurn(ctx, r, s.turns.join)
	if err != nil {
		return answer{}, err
	}
	defer func() { turn.leave() }()
	for attempt := 1; ; attempt++ {
		p, err := s.planned(ctx, op)
		if errors.Is(err, errStale) && attempt < maxAttempts {
			continue
		}
		if err != nil {
			return answer{}, err
		}
		key := kind.Key(r.namespace, r.name) // a creation has its name from the plan
		if len(p.writes) == 0 || dryRun {
			p.end(false)
			return op.answer(p.item(kind, key, 0), p)
		}
		var handed *cache.Handed
		if (!p.deleted || p.told) && p.asStored(kind) {
			handed = s.Cache.Hand(kind, key, p.value, p.obj)
		}
		revision, again, err := s.commit(ctx, r, p)
		p.end(err == nil)
		if err == nil {
			turn.land(revision)
			s.tellDecisive(ctx, kind, revision)
			if p.let {
				return op.answer(p.item(kind, key, 0), p)
			}
			s.Cache.For(kind).Acknowledge(revision)
			s.tellWritten(r, p)
			return op.answer(s.outcome(p, handed, kind, key, revision), p)
		}
		if handed != nil {
			handed.Drop()
		}
		if g, ok := op.(interface{ collided(error) bool }); ok && g.collided(err) {
			continue
		}
		if exists, ok := op.(interface{ exists(context.Context) error }); ok && !again && errors.Is(err, store.ErrExists) {
			return answer{}, exists.exists(ctx)
		}
		if !again || attempt == maxAttempts {
			return answer{}, storeError(err, r.res.GroupResource(), r.name, r.verb)
		}
		s.Metrics.retries.Inc()
		if err := s.catchUp(ctx, err); err != nil {
			return answer{}, storeError(err, r.res.GroupResource(), r.name, r.verb)
		}
		if turn == nil {
			if turn, err = s.waitTurn(ctx, r, s.turns.take); err != nil {
				return answer{}, err
			}
		}
	}
}

// waitTurn waits until it is a write's turn to be planned, and until the cache has what the one before it wrote.
func (s *Server) waitTurn(ctx context.Context, r *request, wait func(context.Context, string) (*turn, error)) (*turn, error) {
	if r.dryRun || r.name == "" { // nothing is written, or not known where
		return nil, nil
	}
	turn, err := wait(ctx, r.res.Kind.Key(r.namespace, r.name))
	if turn != nil {
		if err = s.Cache.WaitFor(ctx, turn.line.landed); err != nil {
			turn.leave()
		}
	}
	if err != nil {
		return nil, storeError(err, r.res.GroupResource(), r.name, r.verb)
	}
	return turn, nil
}

// tellWritten tells of a committed update whoever asked to hear of it.
func (s *Server) tellWritten(r *request, p *plan) {
	if told := s.Written[r.res.Kind.GroupResource()]; told != nil && p.old != nil {
		told(p.obj, p.old)
	}
}

// DecisiveKey is the metadata by which a caller learns the revision of a write that other requests are decided by. What asks an API server next may say, as
// KnowKey, that it is to be known there.
const (
	DecisiveKey = "howdah-decisive"
	KnowKey     = "howdah-know"
)

func (s *Server) tellDecisive(ctx context.Context, kind *registry.Kind, revision int64) {
	if revision > 0 && s.Decides != nil && s.Decides(kind) {
		_ = grpc.SetHeader(ctx, metadata.Pairs(DecisiveKey, strconv.FormatInt(revision, 10))) // it fails only where there is no call, as in bootstrap
	}
}

// settled waits until all is known that was committed before: a dry run commits nothing that would tell that its plan was made from a
// state that has passed.
func (s *Server) settled(ctx context.Context, r *request) error {
	if err := s.Cache.Fresh(ctx); err != nil {
		return storeError(err, r.res.GroupResource(), r.name, r.verb)
	}
	return nil
}

// planned makes a plan. What it refuses because of a state that may have passed is asked of the newest state once more:
// another apiserver may have committed what makes it right, as the binding of a pod whose node writes its status.
//
// What webhooks and policies refuse of an object is asked of them once more only where just that object is another one by now: they see it as it was.
func (s *Server) planned(ctx context.Context, op operation) (*plan, error) {
	known := s.Cache.Applied()
	r := op.about()
	judged := s.Cache.For(r.res.Kind).Get(r.res.Kind.Key(r.namespace, r.name))
	p, err := op.plan(ctx)
	switch {
	case err == nil:
		return p, nil
	case dependsOnState(err):
		if s.Cache.Fresh(ctx) != nil || s.Cache.Applied() == known {
			return nil, err
		}
		return op.plan(ctx)
	case judged != nil && judgedBy(err):
		if s.Cache.Fresh(ctx) != nil || s.Cache.For(r.res.Kind).Get(judged.Key) == judged {
			return nil, err
		}
		return op.plan(ctx)
	}
	return nil, err
}

// judgedBy reports whether a refusal is that of a webhook or a policy.
func judgedBy(err error) bool {
	var verdict admission.Verdict
	return errors.As(err, &verdict)
}

// dependsOnState reports whether a refusal may be due to what is stored, and not to the request alone.
func dependsOnState(err error) bool {
	return !judgedBy(err) &&
		(apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err))
}

// commit writes a plan. again says that the failure is the plan's, which was made from a state that has passed.
func (s *Server) commit(ctx context.Context, r *request, p *plan) (revision int64, again bool, err error) {
	origin := r.origin()
	for i := range p.writes {
		p.writes[i].Actor, p.writes[i].Origin, p.writes[i].Fence = r.user.Name, origin, r.fence
	}
	if p.usage == nil && len(p.writes) == 1 {
		result := s.Store.Write(ctx, p.writes[0])
		return result.Revision, retry(p.writes[0].Op, result.Err), result.Err
	}
	results, err := s.writeAtomic(ctx, p.writes, p.usage)
	if err != nil {
		for i := range results {
			if cause := results[i].Err; cause != nil && !errors.Is(cause, store.ErrAborted) {
				// A reservation that exists was taken by another apiserver meanwhile: take another.
				return 0, i > 0 && errors.Is(cause, store.ErrExists) || retry(p.writes[i].Op, cause), cause
			}
		}
		return 0, false, err
	}
	return results[0].Revision, false, nil
}

// writeAtomic commits writes together, with what they consume of quotas.
func (s *Server) writeAtomic(ctx context.Context, writes []store.Write, usages ...*admission.Usage) ([]store.Result, error) {
	usages = slices.DeleteFunc(usages, func(u *admission.Usage) bool { return u == nil })
	if len(usages) == 0 || s.Ledger == nil {
		return s.Store.WriteAtomic(ctx, writes)
	}
	return s.Ledger.Commit(ctx, usages, writes)
}

// retry reports whether planning again may help.
func retry(op store.Op, err error) bool {
	var conflict *store.ConflictError
	return errors.As(err, &conflict) || op != store.Create && errors.Is(err, store.ErrNotFound)
}

// catchUp waits until the cache knows the state that a plan fell over.
func (s *Server) catchUp(ctx context.Context, cause error) error {
	var conflict *store.ConflictError
	if errors.As(cause, &conflict) {
		return s.Cache.WaitFor(ctx, conflict.Current)
	}
	return s.Cache.Fresh(ctx)
}

// encode returns the stored form of an object's state.
func (s *Server) encode(ctx context.Context, kind *registry.Kind, obj registry.Object) ([]byte, error) {
	value, err := codec.Encode(ctx, kind, obj)
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return nil, err
	}
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return value, nil
}

// allocate runs the kind's allocation, and turns its problems into a 422.
func (s *Server) allocate(ctx context.Context, r *request, p *plan, obj, old registry.Object, dryRun bool) error {
	kind := r.res.Kind
	if kind.Allocate == nil || s.Allocator == nil {
		return nil
	}
	owner := allocator.Owner{Key: kind.Key(r.namespace, r.name), Namespace: r.namespace, Name: r.name}
	p.session = s.Allocator.Begin(owner, dryRun)
	err := kind.Allocate(ctx, p.session, obj, old)
	if err == nil {
		return nil
	}
	p.end(false)
	var problem *field.Error
	if errors.As(err, &problem) {
		return invalid(r, obj.GetName(), field.ErrorList{problem})
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return apierrors.NewInternalError(err)
}

// invalid is the 422 that lists the problems. Whatever version it is written through, the object is one of its kind's own group.
func invalid(r *request, name string, errs field.ErrorList) error {
	return apierrors.NewInvalid(r.res.Kind.GVK.GroupKind(), name, unversioned.Values(errs))
}

func (s *Server) now() time.Time { return s.Clock.Now().UTC().Truncate(time.Second) }
