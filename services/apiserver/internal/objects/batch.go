package objects

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/obs"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/audit"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/codec"
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
	in, err = b.read(audit.ForItem(ctx, n), n)
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
		in.r.note(in.ctx)
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
