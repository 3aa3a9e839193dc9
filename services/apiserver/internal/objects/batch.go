package objects

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/obs"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/store"
)

const (
	// maxBatch is the most items of one batch.
	maxBatch = 1000
	// batchWorkers is how many items of a batch wait for the store at once: as many as one commit takes.
	batchWorkers = 256
)

// Batch implements apiv1.ObjectServiceServer.
func (s *Server) Batch(ctx context.Context, req *apiv1.BatchRequest) (resp *apiv1.BatchResponse, err error) {
	r := &request{verb: "batch", start: time.Now()}
	if !s.enter(r) {
		err = apierrors.NewTooManyRequests(apistatus.TooManyRequests, 1)
	}
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return nil, err
	}
	if r.user, err = s.authenticate(ctx); err != nil {
		return nil, err
	}
	ctx = authn.WithUser(ctx, r.user)
	if len(req.GetItems()) > maxBatch {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("a batch has at most %d items, this one has %d", maxBatch, len(req.GetItems())))
	}
	b := &batch{s: s, user: r.user, items: req.GetItems(), results: make([]*apiv1.BatchResult, len(req.GetItems())), committed: make([]committedWrite, len(req.GetItems()))}
	if req.GetAtomic() {
		b.atomic(ctx)
	} else {
		b.each(ctx)
	}
	return &apiv1.BatchResponse{Results: b.results}, nil
}

type batch struct {
	s       *Server
	user    *authn.User
	items   []*apiv1.BatchItem
	results []*apiv1.BatchResult
	// committed are the outcomes of the writes, where the batch is atomic.
	committed []committedWrite
}

// committedWrite is the outcome of a write: the revisions of its first and its last event, 0 where nothing was written, and whether it changes
// anything.
type committedWrite struct {
	first, last int64
	changed     bool
}

// item is one write of a batch, read and ready to be planned.
type item struct {
	op     operation
	r      *request
	dryRun bool
	ctx    context.Context
}

// read resolves and decodes one item.
func (b *batch) read(ctx context.Context, n int) (item, error) {
	in := b.items[n]
	if parent := obs.ParseTraceparent(in.GetTraceparent()); parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	out := item{ctx: ctx, r: &request{user: b.user, start: time.Now()}}
	r := out.r
	var err error
	prepare := func(verb string, t target, name, subresource string) error {
		r.verb, r.namespace, r.name, r.subresource = verb, t.GetNamespace(), name, subresource
		return b.s.resolve(ctx, r, t, "")
	}
	switch w := in.GetWrite().(type) {
	case *apiv1.BatchItem_Create:
		if err = prepare("create", w.Create, w.Create.GetName(), w.Create.GetSubresource()); err == nil {
			out.op, out.dryRun, err = b.s.createOperation(ctx, r, w.Create)
		}
	case *apiv1.BatchItem_Update:
		if err = prepare("update", w.Update, w.Update.GetName(), w.Update.GetSubresource()); err == nil {
			out.op, out.dryRun, err = b.s.updateOperation(ctx, r, w.Update)
		}
	case *apiv1.BatchItem_Patch:
		if err = prepare("patch", w.Patch, w.Patch.GetName(), w.Patch.GetSubresource()); err == nil {
			out.op, out.dryRun, err = b.s.patchOperation(ctx, r, w.Patch)
		}
	case *apiv1.BatchItem_Delete:
		if err = prepare("delete", w.Delete, w.Delete.GetName(), ""); err == nil {
			out.op, out.dryRun, err = b.s.deleteOperation(ctx, r, w.Delete)
		}
	default:
		err = apierrors.NewBadRequest("the batch item has no write")
	}
	return out, err
}

// each applies the items one by one. Items for the same object keep their order; all others overlap, so that the store
// commits them together.
func (b *batch) each(ctx context.Context) {
	chains, order := map[string][]int{}, []string{}
	for n, in := range b.items {
		key := itemKey(in, n)
		if _, seen := chains[key]; !seen {
			order = append(order, key)
		}
		chains[key] = append(chains[key], n)
	}
	each(len(order), batchWorkers, func(i int) {
		for _, n := range chains[order[i]] {
			b.one(ctx, n)
		}
	})
}

// itemKey names the object of an item; objects without a name are each their own.
func itemKey(in *apiv1.BatchItem, n int) string {
	type named interface {
		target
		GetName() string
	}
	var t named
	switch w := in.GetWrite().(type) {
	case *apiv1.BatchItem_Create:
		if w.Create.GetSubresource() == "" {
			return fmt.Sprint("create ", n)
		}
		t = w.Create
	case *apiv1.BatchItem_Update:
		t = w.Update
	case *apiv1.BatchItem_Patch:
		t = w.Patch
	case *apiv1.BatchItem_Delete:
		t = w.Delete
	default:
		return fmt.Sprint("none ", n)
	}
	return t.GetGroup() + "/" + t.GetResource() + "/" + t.GetNamespace() + "/" + t.GetName()
}

func (b *batch) one(ctx context.Context, n int) {
	var a answer
	in, err := b.guard(ctx, n, func(ctx context.Context, in item) error {
		var err error
		a, err = b.s.execute(ctx, in.op, in.dryRun)
		return err
	})
	b.finish(n, in, a, err)
}

// guard reads an item and runs f for it; a panic is that item's failure.
func (b *batch) guard(ctx context.Context, n int, f func(context.Context, item) error) (in item, err error) {
	defer func() {
		if p := recover(); p != nil {
			b.s.Metrics.Panics.Inc()
			slog.ErrorContext(ctx, "panic in a batch item", "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = apierrors.NewInternalError(fmt.Errorf("this request caused apiserver to panic (trace %s)", trace.SpanContextFromContext(ctx).TraceID()))
		}
	}()
	in, err = b.read(ctx, n)
	if err != nil {
		return in, err
	}
	return in, f(in.ctx, in)
}

func (b *batch) finish(n int, in item, a answer, err error) {
	code := int32(200)
	if err == nil {
		b.results[n] = &apiv1.BatchResult{Object: a.object, ContentType: a.contentType, Code: a.code,
			Revision: b.committed[n].last, FirstRevision: b.committed[n].first, Changed: b.committed[n].changed}
		code = a.code
	} else {
		status := apistatus.Of(err)
		code = status.Code
		form, formErr := b.s.Offer.Negotiate(itemAccept(b.items[n]), "", "")
		if formErr != nil {
			form = codec.Form{}
		}
		form.As = codec.Whole
		body, contentType, encodeErr := codec.Any(&status, statusGVK, form)
		if encodeErr != nil {
			body, contentType = []byte(err.Error()), "text/plain"
		}
		b.results[n] = &apiv1.BatchResult{Object: body, ContentType: contentType, Code: status.Code}
	}
	if in.r != nil {
		b.results[n].Warnings = in.r.warnings
		b.s.Metrics.observe(in.r, code)
	}
}

func itemAccept(in *apiv1.BatchItem) string {
	switch w := in.GetWrite().(type) {
	case *apiv1.BatchItem_Create:
		return w.Create.GetAccept()
	case *apiv1.BatchItem_Update:
		return w.Update.GetAccept()
	case *apiv1.BatchItem_Patch:
		return w.Patch.GetAccept()
	case *apiv1.BatchItem_Delete:
		return w.Delete.GetAccept()
	}
	return ""
}

// OtherFailed is what the items of an atomic batch are told that had nothing wrong themselves.
const OtherFailed = "another item of the atomic batch failed"

var errOther = apierrors.NewConflict(noResource, "", errors.New(OtherFailed))

// atomic plans all items and commits them in one transaction; a state that moved on meanwhile makes all be planned again.
func (b *batch) atomic(ctx context.Context) {
	items := make([]item, len(b.items))
	errs := make([]error, len(b.items))
	failed := false
	for n := range b.items {
		items[n], errs[n] = b.guard(ctx, n, func(ctx context.Context, in item) error {
			if !in.dryRun {
				return nil
			}
			return b.s.settled(ctx, in.r)
		})
		failed = failed || errs[n] != nil
	}
	answers := make([]answer, len(b.items))
	for attempt := 1; !failed && attempt <= maxAttempts; attempt++ {
		again, ok := b.attempt(ctx, items, answers, errs)
		if ok {
			break
		}
		failed = !again || attempt == maxAttempts
	}
	for n := range b.items {
		if failed && errs[n] == nil {
			errs[n] = errOther
		}
		b.finish(n, items[n], answers[n], errs[n])
	}
}

func (b *batch) attempt(ctx context.Context, items []item, answers []answer, errs []error) (again, ok bool) {
	clear(errs)
	before := overlay{}
	ctx = withOverlay(ctx, before)
	plans := make([]*plan, len(items))
	committed := false
	defer func() {
		for _, p := range plans {
			if p != nil {
				p.end(committed)
			}
		}
	}()
	var writes []store.Write
	var usages []*admission.Usage
	owner := []int{} // of each write, its item
	first := make([]int, len(items))
	keys := map[string]int{}
	refused := false
	for n, in := range items {
		key := in.r.res.Kind.Key(in.r.namespace, in.r.name)
		if by, taken := keys[key]; taken {
			errs[n], refused = twice(in, by), true
			continue
		}
		// The item's own trace, and what the items before it will have done.
		p, err := b.s.planned(withOverlay(in.ctx, before), in.op)
		if errors.Is(err, errStale) {
			return true, false
		}
		if err != nil {
			// The others are looked at all the same, so that all that is wrong is told at once.
			errs[n], refused = err, true
			continue
		}
		plans[n], first[n] = p, -1
		key = in.r.res.Kind.Key(in.r.namespace, in.r.name) // a creation has its name only now
		if by, taken := keys[key]; taken {
			errs[n], refused = twice(in, by), true
			continue
		}
		keys[key] = n
		if before[key] = p.item(in.r.res.Kind, key, 0); p.deleted {
			before[key] = nil
		}
		if in.dryRun {
			continue
		}
		usages = append(usages, p.usage)
		origin := in.r.origin()
		for i, w := range p.writes {
			if by, taken := keys[w.Key]; taken && by != n {
				errs[n], refused = twice(in, by), true
			}
			keys[w.Key] = n
			w.Actor, w.Origin, w.Fence, w.Trace = in.r.user.Name, origin, in.r.fence, obs.Traceparent(in.ctx)
			if i == 0 {
				first[n] = len(writes)
			}
			writes, owner = append(writes, w), append(owner, n)
		}
	}
	if refused {
		return false, false
	}
	results, err := b.write(ctx, writes, usages)
	if err != nil {
		var quota *admission.RefusedError
		if errors.As(err, &quota) { // each fits, but not all of them
			errs[slices.IndexFunc(plans, func(p *plan) bool { return p.usage == quota.Usage })] = quota.Err
			return false, false
		}
		return b.failure(ctx, items, writes, owner, results, err, errs), false
	}
	committed = true
	for n, in := range items {
		revision := int64(0)
		if first[n] >= 0 {
			revision = results[first[n]].Revision
		}
		kind := in.r.res.Kind
		b.s.Cache.For(kind).Acknowledge(revision)
		answers[n], errs[n] = in.op.answer(plans[n].item(kind, kind.Key(in.r.namespace, in.r.name), revision), plans[n])
		b.committed[n] = committedWrite{first: plans[n].first(revision), last: revision, changed: len(plans[n].writes) > 0}
	}
	return false, true
}

// twice refuses an item whose object an earlier one has changed already: what would be stored in between could not be told to anyone.
func twice(in item, by int) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s %q is changed by item %d already: an atomic batch can change an object once", in.r.res.GroupResource(), in.r.name, by))
}

func (b *batch) write(ctx context.Context, writes []store.Write, usages []*admission.Usage) ([]store.Result, error) {
	if len(writes) == 0 {
		return nil, nil
	}
	return b.s.writeAtomic(ctx, writes, usages...)
}

// failure names the item that made the commit fail, and reports whether planning again may help.
func (b *batch) failure(ctx context.Context, items []item, writes []store.Write, owner []int, results []store.Result, err error, errs []error) bool {
	for i := range results {
		cause := results[i].Err
		if cause == nil || errors.Is(cause, store.ErrAborted) {
			continue
		}
		in := items[owner[i]]
		errs[owner[i]] = storeError(cause, in.r.res.GroupResource(), in.r.name, in.r.verb)
		again := retry(writes[i].Op, cause)
		if g, ok := in.op.(interface{ collided(error) bool }); ok && g.collided(cause) {
			again = true
		}
		return again && b.s.catchUp(ctx, cause) == nil
	}
	for n := range errs {
		errs[n] = storeError(err, items[n].r.res.GroupResource(), items[n].r.name, items[n].r.verb)
	}
	return false
}
