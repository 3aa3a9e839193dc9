package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/obs"
	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/store"
)

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
		a := newAttempt(b, items, answers, errs)
		verdict := a.run(ctx)
		if verdict == done {
			break
		}
		failed = verdict == failing || attempt == maxAttempts
	}
	for n := range b.items {
		if failed && errs[n] == nil {
			errs[n] = errOther
		}
		b.finish(n, items[n], answers[n], errs[n])
	}
}

// verdict is what came of an attempt at an atomic batch.
type verdict int

const (
	done    verdict = iota
	failing         // whatever is tried again
	stale           // the state moved on meanwhile
)

// attempt plans all items of an atomic batch, each over what those before it will have done, and commits them together.
type attempt struct {
	b       *batch
	items   []item
	answers []answer
	errs    []error // by item, as the answers are

	before overlay
	plans  []*plan
	writes []store.Write
	owner  []int // of each write, its item
	first  []int // of each item, its first write; -1 where it has none
	keys   map[string]int
	usages []*admission.Usage
}

func newAttempt(b *batch, items []item, answers []answer, errs []error) *attempt {
	clear(errs)
	return &attempt{
		b: b, items: items, answers: answers, errs: errs, before: overlay{}, keys: map[string]int{},
		plans: make([]*plan, len(items)), first: slices.Repeat([]int{-1}, len(items)),
	}
}

func (a *attempt) run(ctx context.Context) (v verdict) {
	defer func() {
		for _, p := range a.plans {
			if p != nil {
				p.end(v == done)
			}
		}
	}()
	for n := range a.items {
		// The others are looked at all the same where one is refused, so that all that is wrong is told at once.
		if a.errs[n] = a.plan(n); errors.Is(a.errs[n], errStale) {
			a.errs[n] = nil
			return stale
		}
	}
	if slices.ContainsFunc(a.errs, func(err error) bool { return err != nil }) {
		return failing
	}
	return a.commit(withOverlay(ctx, a.before))
}

// plan adds what the item writes to the transaction.
func (a *attempt) plan(n int) error {
	in := a.items[n]
	if err := a.alone(n, a.keyOf(n)); err != nil {
		return err
	}
	// The item's own trace, and what the items before it will have done.
	p, err := a.b.s.planned(withOverlay(in.ctx, a.before), in.op)
	if err != nil {
		return err
	}
	a.plans[n] = p
	key := a.keyOf(n) // a creation has its name only now
	if err := a.alone(n, key); err != nil {
		return err
	}
	a.keys[key] = n
	if a.before[key] = p.item(in.r.res.Kind, key, 0); p.deleted {
		a.before[key] = nil
	}
	if in.dryRun {
		return nil
	}
	a.usages = append(a.usages, p.usage)
	return a.add(n, p.writes)
}

func (a *attempt) keyOf(n int) string {
	r := a.items[n].r
	return r.res.Kind.Key(r.namespace, r.name)
}

// alone refuses an item whose object an earlier one has changed already: what would be stored in between could not be told to anyone.
func (a *attempt) alone(n int, key string) error {
	by, taken := a.keys[key]
	if !taken || by == n {
		return nil
	}
	r := a.items[n].r
	return apierrors.NewBadRequest(fmt.Sprintf("%s %q is changed by item %d already: an atomic batch can change an object once", r.res.GroupResource(), r.name, by))
}

func (a *attempt) add(n int, writes []store.Write) error {
	in, origin := a.items[n], a.items[n].r.origin()
	if len(writes) > 0 {
		a.first[n] = len(a.writes)
	}
	for _, w := range writes {
		if err := a.alone(n, w.Key); err != nil {
			return err
		}
		a.keys[w.Key] = n
		w.Actor, w.Origin, w.Fence, w.Trace = in.r.user.Name, origin, in.r.fence, obs.Traceparent(in.ctx)
		a.writes, a.owner = append(a.writes, w), append(a.owner, n)
	}
	return nil
}

func (a *attempt) commit(ctx context.Context) verdict {
	var results []store.Result
	if len(a.writes) > 0 {
		var err error
		if results, err = a.b.s.writeAtomic(ctx, a.writes, a.usages...); err != nil {
			return a.refused(ctx, results, err)
		}
	}
	for n := range a.items {
		a.committed(ctx, n, results)
	}
	return done
}

func (a *attempt) committed(ctx context.Context, n int, results []store.Result) {
	in, p, revision := a.items[n], a.plans[n], int64(0)
	if a.first[n] >= 0 {
		revision = results[a.first[n]].Revision
	}
	kind := in.r.res.Kind
	a.b.s.Cache.For(kind).Acknowledge(revision)
	a.b.s.tellDecisive(ctx, kind, revision)
	a.b.s.tellWritten(in.r, p)
	a.answers[n], a.errs[n] = in.op.answer(p.item(kind, a.keyOf(n), revision), p)
	a.b.committed[n] = committedWrite{first: p.first(revision), last: revision, changed: len(p.writes) > 0}
}

// refused names the item that made the commit fail, and says whether planning again may help.
func (a *attempt) refused(ctx context.Context, results []store.Result, err error) verdict {
	var quota *admission.RefusedError
	if errors.As(err, &quota) { // each fits, but not all of them
		a.errs[slices.IndexFunc(a.plans, func(p *plan) bool { return p.usage == quota.Usage })] = quota.Err
		return failing
	}
	for i := range results {
		cause := results[i].Err
		if cause == nil || errors.Is(cause, store.ErrAborted) {
			continue
		}
		n := a.owner[i]
		a.errs[n] = a.failure(n, cause)
		if mayHelp(a.items[n], a.writes[i], cause) && a.b.s.catchUp(ctx, cause) == nil {
			return stale
		}
		return failing
	}
	for n := range a.errs {
		a.errs[n] = a.failure(n, err)
	}
	return failing
}

func (a *attempt) failure(n int, cause error) error {
	r := a.items[n].r
	return storeError(cause, r.res.GroupResource(), r.name, r.verb)
}

// mayHelp says whether another plan of the item may do what this write could not.
func mayHelp(in item, w store.Write, cause error) bool {
	g, ok := in.op.(interface{ collided(error) bool })
	return retry(w.Op, cause) || ok && g.collided(cause)
}
