package objects

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/fieldmanager"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// errNameless is the refusal of a change of a collection, which only custom resources have a handler for.
var errNameless = apierrors.NewBadRequest("name must be provided")

// Update implements apiv1.ObjectServiceServer.
func (s *Server) Update(ctx context.Context, req *apiv1.UpdateRequest) (resp *apiv1.UpdateResponse, err error) {
	ctx, r, err := s.begin(ctx, "update", req, req.GetName(), req.GetSubresource(), "")
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return nil, err
	}
	op, dryRun, err := s.updateOperation(ctx, r, req)
	if err != nil {
		return nil, err
	}
	a, err := s.execute(ctx, op, dryRun)
	if err != nil {
		return nil, err
	}
	r.header(ctx)
	r.code = a.code
	return &apiv1.UpdateResponse{Object: a.object, ContentType: a.contentType, Code: a.code}, nil
}

func (s *Server) updateOperation(ctx context.Context, r *request, req *apiv1.UpdateRequest) (operation, bool, error) {
	scales := r.subresource == "scale" && r.res.Kind.Scale != nil
	if !scales {
		if _, err := r.strategy(); err != nil {
			return nil, false, err
		}
	}
	if r.name == "" {
		return nil, false, errNameless
	}
	form, err := r.form(req.GetAccept(), req.GetPretty(), "")
	if err != nil {
		return nil, false, err
	}
	if err := r.whole(req.GetObject()); err != nil {
		return nil, false, err
	}
	opts, err := writeOptions("UpdateOptions", req.GetDryRun(), req.GetFieldManager(), req.GetFieldValidation())
	if err != nil {
		return nil, false, err
	}
	s.Metrics.received(r, len(req.GetObject()))
	u := &update{s: s, r: r, form: form, opts: opts}
	if scales {
		change, err := s.scaleUpdate(ctx, u, req)
		u.change, u.scale, u.managed = change, true, true
		return u, opts.dryRun, err
	}
	var obj registry.Object
	err = span(ctx, "decode", func() error {
		obj, err = u.decode(r, req)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	r.received(ctx, obj)
	if err := checkNamespace(r, obj); err != nil {
		return nil, false, err
	}
	if err := checkName(r, obj); err != nil {
		return nil, false, err
	}
	dedupeOwners(r, obj, false)
	body, err := stored(r, obj)
	if err != nil {
		return nil, false, err
	}
	if r.res.Kind.CreateOnUpdate && r.creates() {
		u.create = body.DeepCopyObject().(registry.Object)
	}
	planned := 0
	u.change = func(context.Context, registry.Object) (registry.Object, error) {
		if planned++; planned == 1 {
			return body, nil
		}
		// The first plan used the body up; a second one needs it as it came.
		return u.decodeAgain(req)
	}
	return u, opts.dryRun, nil
}

// decode reads the body of a PUT. What refuses it only later, that it is of another kind, is kept.
func (u *update) decode(r *request, req *apiv1.UpdateRequest) (registry.Object, error) {
	obj, err := decode(r, req.GetObject(), req.GetContentType(), u.opts.validation)
	if mistaken := (*codec.MistakenError)(nil); errors.As(err, &mistaken) {
		obj.GetObjectKind().SetGroupVersionKind(r.res.GVK)
		if req.GetSubresource() == "" {
			u.mistaken = mistaken
			return obj, nil
		}
		obj.SetManagedFields(nil) // fields of another kind cannot be told apart: nobody is known to own any
		u.managed = true
		_, err = codec.Fit(r.res.Kind, obj, false)
	}
	return obj, err
}

func (u *update) decodeAgain(req *apiv1.UpdateRequest) (registry.Object, error) {
	r := u.r
	obj, err := u.decode(&request{res: r.res, offer: r.offer}, req)
	if err != nil {
		return nil, err
	}
	if err := checkNamespace(r, obj); err != nil {
		return nil, err
	}
	dedupeOwners(&request{}, obj, false)
	return stored(r, obj)
}

// strategy says how a write to the request's subresource is prepared; nil is a write to the object itself.
func (r *request) strategy() (*registry.Status, error) {
	kind := r.res.Kind
	switch {
	case r.subresource == "":
		return nil, nil
	case r.subresource == "status" && kind.Status != nil:
		return kind.Status, nil
	case kind.Writes[r.subresource] != nil:
		return kind.Writes[r.subresource], nil
	}
	return nil, r.unserved()
}

// creates reports whether a write through the request's subresource may make an object where there is none.
func (r *request) creates() bool {
	return r.subresource == "" || r.subresource == "status" && r.res.Kind.StatusCreates
}

// update is the change of one object: a PUT, a patch, a scale or an action on it.
type update struct {
	s    *Server
	r    *request
	form codec.Form
	opts options
	// change makes the new state, in the storage version and owned by the caller, of the present one, which it must not change.
	// It must leave metadata that it does not mean to change as it is.
	change func(ctx context.Context, old registry.Object) (registry.Object, error)
	// create is the object to create where none is; nil answers 404.
	create registry.Object
	// mistaken is why the body of a PUT of a custom object is refused that is right but for its kind; nil: it is right.
	mistaken error
	// createBy makes the object to create of an empty one where none is, as server-side apply does.
	createBy func(empty registry.Object) (registry.Object, error)
	// mistyped is what is wrong with a custom object that a patch made one of another kind; nil: nothing.
	mistyped *codec.Mistyped
	// scale answers with a Scale rather than the object.
	scale bool
	// tracked are the managed fields of the Scale, where the update is one of it.
	tracked admission.Tracked
	// action is set for a POST to a subresource, which admission has seen, and the kind itself applies and checks.
	action bool
	// patches says that the uid of the new state is no precondition, but a field that a patch tried to change.
	patches bool
	// managed says that change has kept managedFields itself, as server-side apply and the scale do.
	managed bool
	// respond answers with something else than the object.
	respond func(item *codec.Item) (answer, error)
	// creating is the create that the update turned into.
	creating *create
	tries    int
}

func (u *update) about() *request { return u.r }

// collided makes an update that became a creation try again when somebody else created the object first.
func (u *update) collided(err error) bool {
	return u.creating != nil && errors.Is(err, store.ErrExists) && u.takeTry()
}

func (u *update) takeTry() bool { u.tries++; return u.tries < maxAttempts }

func (u *update) plan(ctx context.Context) (*plan, error) {
	r, kind := u.r, u.r.res.Kind
	item, err := find(ctx, u.s.Cache, kind, r.res.GroupResource(), r.namespace, r.name)
	if apierrors.IsNotFound(err) && (u.create != nil || u.createBy != nil) {
		return u.planCreate(ctx)
	}
	if err != nil {
		return nil, err
	}
	u.creating = nil
	old, err := item.Object()
	if err != nil {
		return nil, err
	}
	obj, err := u.change(ctx, old)
	if err != nil {
		return nil, err
	}
	return u.planChange(ctx, item, old, obj)
}

func (u *update) planCreate(ctx context.Context) (*plan, error) {
	if u.createBy != nil {
		empty := u.r.res.Kind.New()
		empty.GetObjectKind().SetGroupVersionKind(u.r.res.Kind.GVK)
		obj, err := u.createBy(empty)
		if err != nil {
			return nil, err
		}
		if obj.GetUID() != "" {
			return nil, apierrors.NewConflict(u.r.res.GroupResource(), u.r.name, fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", obj.GetUID()))
		}
		if err := checkName(u.r, obj); err != nil {
			return nil, err
		}
		if _, err := revisionOf(obj); err != nil {
			return nil, err
		}
		version := obj.GetResourceVersion()
		obj.SetResourceVersion("")
		u.creating = &create{s: u.s, r: u.r, form: u.form, opts: u.opts, body: obj, merged: true, update: true}
		return u.created(ctx, version)
	}
	if uid := u.create.GetUID(); uid != "" {
		return nil, otherUID(u.r, uid, "", u.opts.dryRun)
	}
	if _, err := revisionOf(u.create); err != nil {
		return nil, err
	}
	u.creating = &create{s: u.s, r: u.r, form: u.form, opts: u.opts, update: true}
	body := u.create.DeepCopyObject().(registry.Object)
	body.SetResourceVersion("")
	from, err := u.r.res.FromStored(body)
	if err != nil {
		return nil, err
	}
	u.creating.body = from
	return u.created(ctx, u.create.GetResourceVersion())
}

// created plans the creation. A dry run answers with the version that it was sent.
func (u *update) created(ctx context.Context, version string) (*plan, error) {
	p, err := u.creating.plan(ctx)
	if err == nil && u.opts.dryRun {
		p.obj.SetResourceVersion(version)
	}
	return p, err
}

func (u *update) planChange(ctx context.Context, item *codec.Item, old, obj registry.Object) (*plan, error) {
	r, kind := u.r, u.r.res.Kind
	strategy, err := u.prepare(ctx, item, old, obj)
	if err == nil {
		err = u.mistaken
	}
	if err != nil {
		return nil, err
	}
	p := &plan{obj: obj, old: old, createRevision: item.CreateRevision, applied: u.managed && kind.Custom == nil || kind.Custom != nil && !kind.Custom.Sound(obj)}
	if r.subresource == "" {
		if err := u.s.allocate(ctx, r, p, obj, old, u.opts.dryRun); err != nil {
			return nil, err
		}
	}
	if p.usage, err = u.check(ctx, strategy, old, obj); err != nil {
		p.end(false)
		return nil, err
	}
	if !u.opts.dryRun {
		obj.SetSelfLink("") // it is never stored
	}
	if p.value, err = u.s.encode(ctx, kind, obj); err != nil {
		p.end(false)
		return nil, err
	}
	same := item.Holds(p.value)
	if same && u.s.Stale != nil {
		stale, err := u.s.Stale(ctx, item.Key)
		same = err != nil || !stale // who cannot tell leaves it as it is
	}
	if same {
		// Nothing changes: nothing is written, if the state that was compared is the newest.
		p.end(false)
		if err := u.latest(ctx, item); err != nil {
			return nil, err
		}
		return &plan{current: item, createRevision: item.CreateRevision}, nil
	}
	if u.s.fails(obj) { // who waits for it is told why it goes
		p.deleted, p.told, p.usage = true, true, nil
		p.writes = append(p.writes, store.Write{Op: store.Delete, Key: item.Key, Value: p.value, Revision: item.Revision})
		if kind.Release != nil && u.s.Allocator != nil {
			p.writes = append(p.writes, u.s.Allocator.Release(kind.Release(obj))...)
		}
		return p, nil
	}
	if goes(kind, obj, old) {
		p.deleted, p.let, p.usage = true, true, nil
		p.writes = append(p.writes, store.Write{Op: store.Delete, Key: item.Key, Revision: item.Revision})
		if kind.Release != nil && u.s.Allocator != nil {
			p.writes = append(p.writes, u.s.Allocator.Release(kind.Release(obj))...)
		}
		return p, nil
	}
	p.writes = append(p.writes, store.Write{Op: store.Update, Key: item.Key, Value: p.value, Revision: item.Revision})
	if p.session != nil {
		reservations, err := p.session.Writes(ctx)
		if err != nil {
			p.end(false)
			return nil, apierrors.NewInternalError(err)
		}
		p.writes = append(p.writes, reservations...)
	}
	return p, nil
}

// prepare records the managed fields, runs mutating admission, which sees the object as it was sent, compares what the object says of
// its identity, and carries over what a client may not change.
func (u *update) prepare(ctx context.Context, item *codec.Item, old, obj registry.Object) (*registry.Status, error) {
	r, kind := u.r, u.r.res.Kind
	var strategy *registry.Status
	if !u.action && !u.scale {
		var err error
		if strategy, err = r.strategy(); err != nil {
			return nil, err
		}
	}
	if !u.managed && !u.action {
		manager, err := u.s.Fields.For(r.res, r.subresource)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		manager.Update(old, obj, r.manager(u.opts.manager))
	}
	if !u.action {
		a := u.attributes(old, obj)
		a.Tracked = u.tracked // those who validate are not shown them, as in Kubernetes
		if err := u.s.admit(ctx, r, a, obj); err != nil {
			return nil, err
		}
		if !u.scale {
			dedupeOwners(r, obj, true)
		}
	}
	if err := u.precondition(ctx, item, old, obj); err != nil {
		return nil, err
	}
	keepMeta(obj, old)
	fieldmanager.Settle(old, obj)
	obj.SetGeneration(old.GetGeneration())
	switch {
	case u.action:
	case strategy != nil:
		if strategy.PrepareUpdate != nil {
			strategy.PrepareUpdate(obj, old)
		}
	case kind.PrepareUpdate != nil:
		kind.PrepareUpdate(obj, old)
	}
	return strategy, nil
}

// check validates the new state and returns what it consumes of quotas.
func (u *update) check(ctx context.Context, strategy *registry.Status, old, obj registry.Object) (*admission.Usage, error) {
	r := u.r
	if u.action {
		return nil, nil
	}
	if m := u.mistyped; m != nil { // nothing is said of what only its own kind could
		return nil, apierrors.NewInvalid(m.Kind, r.name, append(validateIdentity(r, obj, old), m.Problems...))
	}
	errs := u.s.validateIn(r, obj, old)
	if strategy == nil && u.s.uninitializedPod(old) {
		errs = append(errs, validateAsNew(r, obj, old)...)
	} else {
		errs = append(errs, validateUpdate(r, obj, old, strategy)...)
	}
	for _, w := range r.tolerated {
		r.warn(w)
	}
	warnings := r.res.Kind.Warnings
	if strategy != nil {
		warnings = strategy.Warnings
	}
	if warnings != nil && len(errs) == 0 {
		for _, w := range warnings(obj, old) {
			r.warn(w)
		}
	}
	if len(errs) > 0 {
		return nil, invalid(r, r.name, errs)
	}
	a := u.attributes(old, obj)
	err := u.s.Admission.Validate(ctx, a)
	return a.Usage, err
}

func (u *update) attributes(old, obj registry.Object) *admission.Attributes {
	return &admission.Attributes{
		Operation: admission.Update, Resource: u.r.res, Subresource: u.r.subresource, Namespace: u.r.namespace, Name: u.r.name,
		Object: obj, Old: old, User: u.r.user, DryRun: u.opts.dryRun, Patch: u.r.verb == "patch", Notes: u.r, FieldManager: u.opts.manager, FieldValidation: u.opts.level,
	}
}

// keepMeta fills in or restores what belongs to the server.
func keepMeta(obj, old registry.Object) {
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	if obj.GetDeletionTimestamp() == nil {
		obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	}
	if obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
	obj.SetGeneration(old.GetGeneration())
	// The validation of updates compares it.
	obj.SetResourceVersion(old.GetResourceVersion())
}

// goes reports whether an update lets an object go whose deletion was begun: nothing holds it any more.
func goes(kind *registry.Kind, obj, old registry.Object) bool {
	if old.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) > 0 {
		return false
	}
	if grace := old.GetDeletionGracePeriodSeconds(); grace != nil && *grace != 0 {
		return false
	}
	return kind.Holds == nil || !kind.Holds(obj)
}

func (u *update) answer(item *codec.Item, p *plan) (answer, error) {
	if u.creating != nil {
		return u.creating.answer(item, p)
	}
	if u.respond != nil {
		return u.respond(item)
	}
	a, err := u.s.answer(u.r, item, u.form)
	a.code = http.StatusOK
	return a, err
}
