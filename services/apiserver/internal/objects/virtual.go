package objects

import (
	"context"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// posting reads how a create of what is not stored wants to be answered, and its options.
func (r *request) posting(req *apiv1.CreateRequest) (codec.Form, options, error) {
	if err := r.route(req.GetAccept()); err != nil {
		return codec.Form{}, options{}, err
	}
	form, err := r.offer.NegotiateUntabled(req.GetAccept(), req.GetPretty())
	if err != nil {
		return form, options{}, err
	}
	if err := r.arrived(req.GetObject(), req.GetContentType()); err != nil {
		return form, options{}, err
	}
	opts, err := writeOptions("CreateOptions", req.GetDryRun(), req.GetFieldManager(), req.GetFieldValidation())
	return form, opts, err
}

// Answer serves a create of a resource that is not stored: it is bounded, authenticated, authorized, decoded and counted as any
// other create. check says what is wrong with obj, which comes in as it was posted, before validating admission is asked, and what it returns makes it the answer.
func (s *Server) Answer(ctx context.Context, res *registry.Resource, req *apiv1.CreateRequest, obj registry.Object, check func(user *authn.User) (fill func(ctx context.Context), err error)) (resp *apiv1.CreateResponse, err error) {
	ctx, r, err := s.begin(ctx, "create", virtual{req, res}, "", "", "")
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return nil, err
	}
	form, opts, err := r.posting(req)
	if err != nil {
		return nil, err
	}
	warnings, err := (codec.Body{Data: req.GetObject(), ContentType: req.GetContentType(), Validation: opts.validation, Offer: r.offer}).Into(obj, res.GVK)
	for _, w := range warnings {
		r.warn(w)
	}
	if err != nil {
		return nil, err
	}
	receivedAs(ctx, obj, res.GVK)
	if err := checkNamespace(r, obj); err != nil {
		return nil, err
	}
	if err := s.Fields.Posted(res.GVK, "", res.Kind.New(), obj, r.manager(opts.manager)); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	attributes := &admission.Attributes{
		Operation: admission.Create, Resource: res, Namespace: r.namespace, Name: obj.GetName(), Object: obj, User: r.user, DryRun: opts.dryRun, Notes: r,
		FieldManager: opts.manager, FieldValidation: opts.level,
	}
	if err := s.Admission.Admit(ctx, attributes); err != nil {
		return nil, err
	}
	fill, err := check(r.user)
	if err != nil {
		return nil, err
	}
	if err := s.Admission.Validate(ctx, attributes); err != nil {
		return nil, err
	}
	fill(ctx)
	r.header(ctx)
	body, contentType, err := codec.Single(obj, res.GVK, nil, nil, form)
	return &apiv1.CreateResponse{Object: body, ContentType: contentType, Code: http.StatusCreated}, err
}

// virtual is the target of a request for a resource that is not stored.
type virtual struct {
	target
	res *registry.Resource
}

// GetLabelSelector returns that of the request.
func (v virtual) GetLabelSelector() string { return labelSelectorOf(v.target) }

// onlyCreated reports that the resource is one that is not stored, and that neither Answer got nor what makes objects: the verb is another.
func (s *Server) onlyCreated(gvr schema.GroupVersionResource) bool { return s.virtual(gvr) != nil }

// virtual returns the resource that is not stored of that name; nil where there is none.
func (s *Server) virtual(gvr schema.GroupVersionResource) *registry.Resource {
	if i := slices.IndexFunc(s.Virtual, func(res *registry.Resource) bool { return res.GVR == gvr }); i >= 0 {
		return s.Virtual[i]
	}
	return nil
}

// createdElsewhere reports whether a resource that is only created is so in a namespace and was asked for in none, or the other way round.
func (s *Server) createdElsewhere(r *request, gvr schema.GroupVersionResource) bool {
	res := s.virtual(gvr)
	return res != nil && !s.readable(gvr) && res.Kind.Namespaced != (r.namespace != "" || r.spaceless)
}

// readable reports whether objects of a resource that is not stored can be read.
func (s *Server) readable(gvr schema.GroupVersionResource) bool {
	return slices.ContainsFunc(s.Made, func(m Made) bool { return m.GVR == gvr })
}

// labelSelectorOf returns the label selector of what lists, watches or deletes collections.
func labelSelectorOf(t target) string {
	if m, ok := t.(interface{ GetLabelSelector() string }); ok {
		return m.GetLabelSelector()
	}
	return ""
}
