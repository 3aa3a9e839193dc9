package objects

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// Delete implements apiv1.ObjectServiceServer.
func (s *Server) Delete(ctx context.Context, req *apiv1.DeleteRequest) (resp *apiv1.DeleteResponse, err error) {
	ctx, r, err := s.begin(ctx, "delete", req, req.GetName(), "", "")
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return nil, err
	}
	op, dryRun, err := s.deleteOperation(ctx, r, req)
	if err != nil {
		return nil, err
	}
	a, err := s.execute(ctx, op, dryRun)
	if err != nil {
		return nil, err
	}
	r.header(ctx)
	r.code = a.code
	return &apiv1.DeleteResponse{Object: a.object, ContentType: a.contentType, Code: a.code}, nil
}

func (s *Server) deleteOperation(ctx context.Context, r *request, req *apiv1.DeleteRequest) (operation, bool, error) {
	form, err := r.formOfStatus(req.GetAccept(), req.GetPretty())
	if err != nil {
		return nil, false, err
	}
	if err := r.whole(req.GetOptions()); err != nil {
		return nil, false, err
	}
	o, err := deleteOptions(r.offer, req.GetOptions(), req.GetContentType(), req.GetDryRun(), req.GetGracePeriodSeconds(),
		req.GetPropagationPolicy(), req.GetOrphanDependents())
	if err != nil {
		return nil, false, err
	}
	s.Metrics.received(r, len(req.GetOptions()))
	receivedOptions(ctx, req.GetOptions(), o)
	r.warnOfOrphans(o)
	return &deletion{s: s, r: r, form: form, options: o, dryRun: len(o.DryRun) > 0}, len(o.DryRun) > 0, nil
}

// deleteOptions reads the options of the body or, where there is none, those of the query.
func deleteOptions(offer codec.Offer, body []byte, contentType string, dryRun []string, grace, policy, orphan string) (*metav1.DeleteOptions, error) {
	o := &metav1.DeleteOptions{}
	var err error
	if len(body) > 0 {
		err = offer.Options(body, contentType, o)
	} else {
		err = queryOptions(o, dryRun, grace, policy, orphan)
	}
	if err != nil {
		return nil, err
	}
	// Nothing is stored that could not be read, so that there is nothing to delete in spite of that.
	o.IgnoreStoreReadErrorWithClusterBreakingPotential = nil
	if errs := metav1validation.ValidateDeleteOptions(o); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	if o.GracePeriodSeconds != nil && *o.GracePeriodSeconds < 0 {
		one := int64(1)
		o.GracePeriodSeconds = &one
	}
	return o, nil
}

// queryOptions reads the options of the query; empty ones are not there.
func queryOptions(o *metav1.DeleteOptions, dryRun []string, grace, policy, orphan string) error {
	o.DryRun = dryRun
	if grace != "" {
		seconds, err := strconv.ParseInt(grace, 10, 64)
		if problem := (*strconv.NumError)(nil); errors.As(err, &problem) {
			return apierrors.NewBadRequest(fmt.Sprintf("strconv.ParseInt: parsing %q: %v", grace, problem.Err))
		}
		o.GracePeriodSeconds = &seconds
	}
	if policy != "" {
		p := metav1.DeletionPropagation(policy)
		o.PropagationPolicy = &p
	}
	if orphan != "" {
		b := orphan == "true" || orphan == "1"
		o.OrphanDependents = &b
	}
	return nil
}

// deletion is the deletion of one object.
type deletion struct {
	s       *Server
	r       *request
	form    codec.Form
	options *metav1.DeleteOptions
	dryRun  bool
	// collective says that the object goes with a collection, whose request names none.
	collective bool
	// unchecked spares it admission.
	unchecked bool
	// eviction says that it is one, which admission has let pass, and not a DELETE.
	eviction bool
	// announced says that what comes before an eviction's deletion is done, and told that the pod says why it goes, with its budget charged.
	announced, told bool
}

func (d *deletion) about() *request { return d.r }

func (d *deletion) plan(ctx context.Context) (*plan, error) {
	r, kind := d.r, d.r.res.Kind
	if kind.Kept != nil && !d.collective {
		if why := kind.Kept(r.name); why != "" {
			return nil, apierrors.NewForbidden(r.res.GroupResource(), r.name, errors.New(why))
		}
	}
	item, err := find(ctx, d.s.Cache, kind, r.res.GroupResource(), r.namespace, r.name)
	if err != nil {
		return nil, err
	}
	old, err := item.Object()
	if err != nil {
		return nil, err
	}
	if !d.eviction || d.told {
		if err := d.preconditions(ctx, item, old); err != nil {
			return nil, err
		}
	}
	if !d.eviction && d.pending(old) {
		return d.unchanged(item), nil
	}
	if err := d.permit(ctx, old); err != nil {
		return nil, err
	}
	obj := old.DeepCopyObject().(registry.Object)
	p := &plan{obj: obj, createRevision: item.CreateRevision}
	var budget []store.Write
	if d.eviction && !d.told {
		if budget, err = d.evict(ctx, item, old, obj); err != nil {
			return nil, err
		}
	}
	if d.eviction && d.pending(old) { // which may be wrong all the same, and then is told so
		return d.unchanged(item), nil
	}
	waits := d.mark(obj, old)
	if p.value, err = d.s.encode(ctx, kind, obj); err != nil {
		return nil, err
	}
	if !waits {
		remove := store.Write{Op: store.Delete, Key: item.Key, Revision: item.Revision}
		if p.told = kind.GracePeriod != nil && !item.Holds(p.value); p.told {
			remove.Value = p.value
		}
		p.deleted = true
		p.writes = append(p.writes, remove)
		if kind.Release != nil && d.s.Allocator != nil {
			p.writes = append(p.writes, d.s.Allocator.Release(kind.Release(p.obj))...)
		}
		p.writes = append(p.writes, budget...)
		return p, nil
	}
	if item.Holds(p.value) {
		return d.unchanged(item), nil // its deletion is under way already
	}
	p.accepted = d.accepts()
	p.writes = append(p.writes, store.Write{Op: store.Update, Key: item.Key, Value: p.value, Revision: item.Revision})
	p.writes = append(p.writes, budget...)
	return p, nil
}

// pending reports whether the deletion has begun and there is nothing in this one that would hasten it: then it changes nothing, finalizers neither, and nobody is asked.
func (d *deletion) pending(old registry.Object) bool {
	kind := d.r.res.Kind
	if old.GetDeletionTimestamp() == nil {
		return false
	}
	if kind.GracePeriod == nil {
		return kind.BeginDelete != nil && kind.Holds != nil && kind.Holds(old)
	}
	current, asked := old.GetDeletionGracePeriodSeconds(), d.options.GracePeriodSeconds
	return current != nil && *current > 0 && (asked == nil || *asked >= *current)
}

// unchanged is the plan of a deletion that leaves the object as it is.
func (d *deletion) unchanged(item *codec.Item) *plan {
	return &plan{current: item, accepted: d.accepts()}
}

// accepts reports whether an object that is not gone yet is answered with 202.
func (d *deletion) accepts() bool {
	return d.options.OrphanDependents != nil && !*d.options.OrphanDependents
}

// effective are the options as admission sees them: with the time that the object is given, and, of what goes in phases of its own, with its uid. Those of a collection
// are everybody's.
func (d *deletion) effective(old registry.Object) *metav1.DeleteOptions {
	kind := d.r.res.Kind
	if d.collective || kind.GracePeriod == nil && kind.BeginDelete == nil {
		return d.options
	}
	o := d.options.DeepCopy()
	if kind.GracePeriod != nil && old.GetDeletionTimestamp() == nil {
		grace := kind.GracePeriod(old, o)
		o.GracePeriodSeconds = &grace
	}
	if kind.BeginDelete != nil && (o.Preconditions == nil || o.Preconditions.UID == nil) {
		if o.Preconditions == nil {
			o.Preconditions = &metav1.Preconditions{}
		}
		uid := old.GetUID()
		o.Preconditions.UID = &uid
	}
	return o
}

// permit asks admission.
func (d *deletion) permit(ctx context.Context, old registry.Object) error {
	if d.unchecked {
		return nil
	}
	attributes := &admission.Attributes{
		Operation: admission.Delete, Resource: d.r.res, Namespace: d.r.namespace, Name: d.r.name, Old: old,
		Options: d.effective(old), User: d.r.user, DryRun: d.dryRun, Notes: d.r,
	}
	if d.collective {
		attributes.Name = ""
	}
	if err := d.s.Admission.Admit(ctx, attributes); err != nil {
		return err
	}
	return d.s.Admission.Validate(ctx, attributes)
}

func (d *deletion) preconditions(ctx context.Context, item *codec.Item, old registry.Object) error {
	want := d.options.Preconditions
	if want == nil {
		return nil
	}
	var problem error
	if want.UID != nil && *want.UID != old.GetUID() {
		problem = fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *want.UID, old.GetUID())
	} else if want.ResourceVersion != nil && *want.ResourceVersion != old.GetResourceVersion() {
		problem = fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *want.ResourceVersion, old.GetResourceVersion())
	}
	if problem == nil {
		return nil
	}
	if err := (&update{s: d.s, r: d.r}).latest(ctx, item); err != nil {
		return err
	}
	if d.r.res.Kind.BeginDelete != nil { // which begins where Kubernetes compares them in other words
		return apierrors.NewConflict(d.r.res.GroupResource(), d.r.name, contradicted(want, old))
	}
	return apierrors.NewConflict(schema.GroupResource{Group: d.r.res.GVK.Group, Resource: d.r.res.GVK.Kind}, d.r.name, problem)
}

// contradicted says which precondition the object does not meet.
func contradicted(want *metav1.Preconditions, old registry.Object) error {
	if want.UID != nil && *want.UID != old.GetUID() {
		return fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", *want.UID, old.GetUID())
	}
	return fmt.Errorf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", *want.ResourceVersion, old.GetResourceVersion())
}

// mark begins the deletion in obj and reports whether something makes it wait: a grace period, finalizers or what
// else the kind names. Where nothing does, obj is the last state, which tells of the deletion where the kind knows a grace period.
func (d *deletion) mark(obj, old registry.Object) bool {
	kind := d.r.res.Kind
	grace := int64(0)
	if kind.GracePeriod != nil {
		grace = kind.GracePeriod(old, d.options)
	}
	finalizers := d.propagate(old)
	held := len(finalizers) > 0 || kind.Holds != nil && kind.Holds(old)
	if begun := old.GetDeletionTimestamp(); begun != nil {
		// Begun before: the grace period may only get shorter.
		obj.SetFinalizers(finalizers)
		current := int64(0)
		if g := old.GetDeletionGracePeriodSeconds(); g != nil {
			current = *g
		}
		if asked := d.options.GracePeriodSeconds; current > 0 && asked != nil && *asked < current {
			ends, period := shortened(begun.Time, current, *asked, d.s.now())
			obj.SetDeletionTimestamp(&metav1.Time{Time: ends})
			obj.SetDeletionGracePeriodSeconds(&period)
			current = period
		}
		return held || current > 0
	}
	if !held && grace == 0 && kind.GracePeriod == nil {
		return false
	}
	obj.SetFinalizers(finalizers) // what is given time is marked even where it takes none
	obj.SetDeletionTimestamp(&metav1.Time{Time: d.s.now().Add(time.Duration(grace) * time.Second)})
	if kind.BeginDelete != nil {
		kind.BeginDelete(obj)
		return true
	}
	obj.SetDeletionGracePeriodSeconds(&grace)
	if g := obj.GetGeneration(); g > 0 {
		obj.SetGeneration(g + 1)
	}
	return held || grace > 0
}

// shortened is when a deletion that was to end, after a period in seconds, at a time, ends by a shorter period, and that period. It is never in the past: where the time is
// over, the shortest is given that leaves the last deletion to whoever ends the object.
func shortened(ends time.Time, period, shorter int64, now time.Time) (time.Time, int64) {
	sooner := ends.Add(time.Duration(shorter-period) * time.Second)
	if !sooner.Before(now) {
		return sooner, shorter
	}
	return now, min(shorter, 1)
}

// propagate returns the finalizers that the propagation policy leaves: the garbage collector acts on them.
func (d *deletion) propagate(old registry.Object) []string {
	o, orphan, foreground := d.options, false, false
	switch {
	case d.r.res.Kind.Ownerless:
	case o.OrphanDependents != nil:
		orphan = *o.OrphanDependents
	case o.PropagationPolicy != nil:
		orphan = *o.PropagationPolicy == metav1.DeletePropagationOrphan
		foreground = *o.PropagationPolicy == metav1.DeletePropagationForeground
	default:
		// What the object bears stands.
		if isPropagation := func(f string) bool {
			return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
		}; !orphans(d.r.res, o) || slices.ContainsFunc(old.GetFinalizers(), isPropagation) {
			return old.GetFinalizers()
		}
		orphan = true
	}
	kept := slices.DeleteFunc(slices.Clone(old.GetFinalizers()), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	if orphan {
		kept = append(kept, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		kept = append(kept, metav1.FinalizerDeleteDependents)
	}
	return kept
}

// orphans reports whether a deletion with these options leaves dependents alone although it does not say so.
func orphans(res *registry.Resource, o *metav1.DeleteOptions) bool {
	return o.OrphanDependents == nil && o.PropagationPolicy == nil && res.Kind.Orphans != nil && res.Kind.Orphans(res.GVK.GroupVersion())
}

// warnOfOrphans tells who deletes objects what becomes of those that depend on them.
func (r *request) warnOfOrphans(o *metav1.DeleteOptions) {
	if text := r.res.Kind.OrphansWarning; text != "" && orphans(r.res, o) {
		r.warn(text)
	}
}

func (d *deletion) answer(item *codec.Item, p *plan) (answer, error) {
	code := int32(http.StatusOK)
	if p.accepted {
		code = http.StatusAccepted
	}
	if !p.deleted {
		a, err := d.s.answer(d.r, item, d.form)
		a.code = code
		return a, err
	}
	if d.r.res.Kind.ReturnDeleted {
		a, err := d.s.answer(d.r, item, d.form)
		a.code = code
		return a, err
	}
	form := d.form
	form.As = codec.Whole
	b, contentType, err := codec.Any(success(d.r, d.r.name, string(p.obj.GetUID())), statusGVK, form)
	return answer{b, contentType, code}, err
}
