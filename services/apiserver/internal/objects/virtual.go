package objects

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// Answer serves a create of a resource that is not stored: it is bounded, authenticated, authorized, decoded and counted as any
// other create, and fill makes obj, which comes in as it was posted, the answer.
func (s *Server) Answer(ctx context.Context, res *registry.Resource, req *apiv1.CreateRequest, obj registry.Object, fill func(ctx context.Context, user *authn.User) error) (resp *apiv1.CreateResponse, err error) {
	ctx, r, err := s.begin(ctx, "create", virtual{req, res}, "", "", "")
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return nil, err
	}
	form, err := r.offer.NegotiateWhole(req.GetAccept(), req.GetPretty())
	if err != nil {
		return nil, err
	}
	opts, err := writeOptions("CreateOptions", req.GetDryRun(), req.GetFieldManager(), req.GetFieldValidation())
	if err != nil {
		return nil, err
	}
	if err := checkSize(req.GetObject()); err != nil {
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
	if err := fill(ctx, r.user); err != nil {
		return nil, err
	}
	r.header(ctx)
	body, contentType, err := codec.Any(obj, res.GVK, form)
	return &apiv1.CreateResponse{Object: body, ContentType: contentType, Code: http.StatusCreated}, err
}

// virtual is the target of a request for a resource that is not stored.
type virtual struct {
	target
	res *registry.Resource
}

// GetLabelSelector returns that of the request.
func (v virtual) GetLabelSelector() string { return labelSelectorOf(v.target) }

// onlyCreated fails with 405 where the resource is one that is not stored, and that Answer did not get: the verb is not create.
func (s *Server) onlyCreated(gvr schema.GroupVersionResource) error {
	for _, res := range s.Virtual {
		if res.GVR == gvr {
			return notAllowed()
		}
	}
	return nil
}

// labelSelectorOf returns the label selector of what lists, watches or deletes collections.
func labelSelectorOf(t target) string {
	if m, ok := t.(interface{ GetLabelSelector() string }); ok {
		return m.GetLabelSelector()
	}
	return ""
}
