package objects

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/obs"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// maxGenerated is how many generated names are tried.
const maxGenerated = 8

// Create implements apiv1.ObjectServiceServer.
func (s *Server) Create(ctx context.Context, req *apiv1.CreateRequest) (resp *apiv1.CreateResponse, err error) {
	if s.isBinding(req) {
		return s.bind(ctx, req)
	}
	ctx, r, err := s.begin(ctx, "create", req, req.GetName(), req.GetSubresource(), "")
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return nil, err
	}
	op, dryRun, err := s.createOperation(ctx, r, req)
	if err != nil {
		return nil, err
	}
	a, err := s.execute(ctx, op, dryRun)
	if err != nil {
		return nil, err
	}
	r.header(ctx)
	return &apiv1.CreateResponse{Object: a.object, ContentType: a.contentType, Code: a.code}, nil
}

// createOperation reads a create, of an object or of a subresource.
func (s *Server) createOperation(ctx context.Context, r *request, req *apiv1.CreateRequest) (operation, bool, error) {
	if r.subresource != "" && !s.posts(r) {
		return nil, false, r.unserved()
	}
	form, err := r.form(req.GetAccept(), req.GetPretty(), "")
	if err != nil {
		return nil, false, err
	}
	if err := r.arrived(req.GetObject(), req.GetContentType()); err != nil {
		return nil, false, err
	}
	opts, err := writeOptions("CreateOptions", req.GetDryRun(), req.GetFieldManager(), req.GetFieldValidation())
	if err != nil {
		return nil, false, err
	}
	s.Metrics.received(r, len(req.GetObject()))
	if req.GetSubresource() != "" {
		op, err := s.action(ctx, r, req, form, opts)
		if e, ok := op.(*evict); ok { // whose own options may ask for it
			return op, e.dryRun, err
		}
		return op, opts.dryRun, err
	}
	if r.name != "" {
		return nil, false, apierrors.NewMethodNotSupported(r.res.GroupResource(), "create")
	}
	var obj registry.Object
	err = span(ctx, "decode", func() error {
		obj, err = decode(r, req.GetObject(), req.GetContentType(), opts.validation)
		return err
	})
	if mistaken := (*codec.MistakenError)(nil); errors.As(err, &mistaken) {
		if err := checkNamespace(r, obj); err != nil {
			return nil, false, err
		}
	}
	if err != nil {
		return nil, false, err
	}
	// Nobody is heard about the deletion of what is not there yet, nor owns it.
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	r.received(ctx, obj)
	r.generated = obj.GetName() == ""
	return &create{s: s, r: r, form: form, opts: opts, body: obj}, opts.dryRun, nil
}

// span runs f in a span where the call is traced.
func span(ctx context.Context, name string, f func() error) error {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return f()
	}
	_, sp := tracer.Start(ctx, name)
	err := f()
	obs.End(sp, err)
	return err
}

var errTerminating = errors.New("create not allowed while custom resource definition is terminating")

// terminating reports whether the definition of a custom kind is being deleted, as far as this server has told anybody.
func (s *Server) terminating(ctx context.Context, kind *registry.Kind) bool {
	_ = s.Cache.Defined(ctx) // a cache that stays behind answers with what it has
	return kind.Custom.Terminating()
}

// create is the creation of one object.
type create struct {
	s    *Server
	r    *request
	form codec.Form
	opts options
	// body is the decoded object of the request's version, until the first plan; prepared what became of it.
	body     registry.Object
	prepared registry.Object
	tries    int
	// merged says that body is of the storage version and bears its managed fields already.
	merged bool
	// update says that an update or an apply makes the object: whoever asks for it must be allowed to create, too.
	update bool
	// uid that the object is to have; empty makes one.
	uid types.UID
	// claimed is the resourceVersion that the object came with.
	claimed string
	// sent is claimed as it was written, whether a version or not. A dry run answers with it.
	sent string
}

func (c *create) about() *request { return c.r }

func (c *create) plan(ctx context.Context) (*plan, error) {
	r, kind := c.r, c.r.res.Kind
	if c.prepared == nil {
		if err := c.prepare(ctx); err != nil {
			return nil, err
		}
	}
	obj := c.prepared
	if c.tries++; c.tries > 1 {
		obj = obj.DeepCopyObject().(registry.Object)
	} else if kind.Allocate != nil || obj.GetGenerateName() != "" {
		c.prepared = obj.DeepCopyObject().(registry.Object) // for a second try
	}
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(generateName(obj.GetGenerateName()))
	}
	r.name = obj.GetName()
	if kind.Custom != nil && c.s.terminating(ctx, kind) {
		return nil, apierrors.NewForbidden(r.res.GroupResource(), r.name, errTerminating)
	}
	if kind.Complete != nil {
		kind.Complete(obj, registry.Caller{Name: r.user.Name, UID: r.user.UID, Groups: r.user.Groups, Extra: r.user.Extra})
	}

	p := &plan{obj: obj, created: true, applied: c.merged && kind.Custom == nil || kind.Custom != nil && !kind.Custom.Sound(obj)}
	if r.subresource == "" {
		if err := c.s.allocate(ctx, r, p, obj, nil, c.opts.dryRun); err != nil {
			return nil, err
		}
	}
	if errs := append(c.s.validateIn(r, obj, nil), validate(r, obj)...); len(errs) > 0 {
		p.end(false)
		return nil, invalid(r, obj.GetName(), errs)
	}
	if kind.Warnings != nil {
		for _, w := range kind.Warnings(obj, nil) {
			r.warn(w)
		}
	}
	if err := c.permitted(ctx); err != nil {
		p.end(false)
		return nil, err
	}
	attributes := c.attributes(obj)
	err := c.s.Admission.Validate(ctx, attributes)
	p.usage = attributes.Usage
	if err == nil && !c.opts.dryRun {
		err = c.unclaimed()
	}
	if err == nil {
		err = locate(kind, r.namespace, "") // should validation ever let it pass, nothing is stored in no namespace
	}
	if err == nil {
		if kind.Settle != nil {
			kind.Settle(obj)
		}
		p.value, err = c.s.encode(ctx, kind, obj)
	}
	if err != nil {
		p.end(false)
		return nil, err
	}
	if c.opts.dryRun { // only a read tells whether it would collide
		if c.s.Cache.For(kind).Get(kind.Key(r.namespace, r.name)) != nil {
			p.end(false)
			return nil, c.exists(ctx)
		}
	}
	p.writes = append(p.writes, store.Write{Op: store.Create, Key: kind.Key(r.namespace, r.name), Value: p.value})
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

// permitted asks whether the caller, who may update, may create as well.
func (c *create) permitted(ctx context.Context) error {
	if !c.update {
		return nil
	}
	return c.s.authorize(ctx, c.r.asCreate())
}

// asCreate is the request as an authorizer is asked whether its user may create what it names, too.
func (r *request) asCreate() *authz.Attributes {
	return &authz.Attributes{
		User: r.user, Verb: "create", Group: r.res.GVR.Group, Version: r.res.GVR.Version, Resource: r.res.GVR.Resource, Subresource: r.subresource,
		Namespace: r.namespace, Name: r.name,
	}
}

// collided reports whether another generated name is to be tried.
func (c *create) collided(err error) bool {
	return errors.Is(err, store.ErrExists) && c.prepared.GetName() == "" && c.tries < maxGenerated
}

// exists is the 409 of a name that is taken: for good, by an object that is being deleted, or by chance.
func (c *create) exists(ctx context.Context) error {
	r, kind := c.r, c.r.res.Kind
	if c.prepared != nil && c.prepared.GetGenerateName() != "" {
		return apierrors.NewGenerateNameConflict(r.res.GroupResource(), r.name, 1)
	}
	taken := apierrors.NewAlreadyExists(r.res.GroupResource(), r.name)
	if c.s.Cache.Fresh(ctx) != nil {
		return taken // by whom cannot be told
	}
	if item := c.s.Cache.For(kind).Get(kind.Key(r.namespace, r.name)); item != nil {
		if obj, err := item.Object(); err == nil && obj.GetDeletionTimestamp() != nil {
			taken.ErrStatus.Message = "object is being deleted: " + taken.ErrStatus.Message
		}
	}
	return taken
}

func (c *create) attributes(obj registry.Object) *admission.Attributes {
	return &admission.Attributes{
		Operation: admission.Create, Resource: c.r.res, Subresource: c.r.subresource, Namespace: c.r.namespace, Name: obj.GetName(),
		Object: obj, User: c.r.user, DryRun: c.opts.dryRun, Notes: c.r, FieldManager: c.opts.manager, FieldValidation: c.opts.level,
	}
}

// prepare does what precedes the name: defaults, managed fields, mutating admission and the kind's own preparation.
func (c *create) prepare(ctx context.Context) error {
	r, kind := c.r, c.r.res.Kind
	if err := checkNamespace(r, c.body); err != nil {
		return err
	}
	if !c.merged {
		dedupeOwners(r, c.body, false)
	}
	obj, err := c.stored()
	if err != nil {
		return err
	}
	if err := c.s.admit(ctx, r, c.attributes(obj), obj); err != nil {
		return err
	}
	dedupeOwners(r, obj, true)
	c.s.newMeta(obj)
	if c.opts.dryRun {
		obj.SetResourceVersion(c.sent)
	}
	if c.uid != "" {
		obj.SetUID(c.uid)
	}
	if kind.Foretell != nil {
		for _, text := range kind.Foretell(obj) {
			r.warn(text)
		}
	}
	if kind.PrepareCreate != nil {
		kind.PrepareCreate(obj)
	}
	c.prepared, c.body = obj, nil
	return nil
}

// stored returns the object in the storage version, with its managed fields.
func (c *create) stored() (registry.Object, error) {
	r, kind := c.r, c.r.res.Kind
	obj := c.body
	if c.merged {
		if kind.Default != nil {
			kind.Default(obj)
		}
	} else {
		var err error
		if obj, err = stored(r, c.body); err != nil {
			return nil, err
		}
	}
	c.claimed, c.sent = claimedVersion(obj), obj.GetResourceVersion()
	if c.merged {
		return obj, c.unclaimed()
	}
	manager, err := c.s.Fields.For(r.res, r.subresource)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	empty := kind.New()
	empty.GetObjectKind().SetGroupVersionKind(kind.GVK)
	manager.Create(empty, obj, r.manager(c.opts.manager))
	return obj, nil
}

// claimedVersion is the resourceVersion of an object that is to be created. What is no version says nothing, as in Kubernetes.
func claimedVersion(obj registry.Object) string {
	v := obj.GetResourceVersion()
	if n, err := strconv.ParseUint(v, 10, 64); err != nil || n == 0 {
		return ""
	}
	return v
}

// unclaimed refuses an object that claims to be stored already.
func (c *create) unclaimed() error {
	if c.claimed != "" {
		return plain(errors.New("resourceVersion should not be set on objects to be created"))
	}
	return nil
}

func (c *create) answer(item *codec.Item, _ *plan) (answer, error) {
	a, err := c.s.answer(c.r, item, c.form)
	a.code = http.StatusCreated
	return a, err
}
