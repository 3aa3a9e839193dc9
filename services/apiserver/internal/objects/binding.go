package objects

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// Bindings is the resource that schedulers post bindings of pods to. It is an older way to say what the subresource binding of
// a pod says, and is answered as that is.
func Bindings() *registry.Resource {
	gvk := corev1.SchemeGroupVersion.WithKind("Binding")
	return &registry.Resource{
		Kind: &registry.Kind{GVK: gvk, Resource: "bindings", Singular: "binding", Namespaced: true, New: func() registry.Object { return &corev1.Binding{} }},
		GVK:  gvk, GVR: corev1.SchemeGroupVersion.WithResource("bindings"),
	}
}

func (s *Server) isBinding(req *apiv1.CreateRequest) bool {
	return req.GetResource() == bindings.Resource && req.GetGroup() == bindings.Group && req.GetVersion() == bindings.Version && req.GetSubresource() == "" &&
		slices.ContainsFunc(s.Virtual, func(r *registry.Resource) bool { return r.GVR == bindings })
}

// bind posts a Binding to the pod that it names.
func (s *Server) bind(ctx context.Context, req *apiv1.CreateRequest) (resp *apiv1.CreateResponse, err error) {
	res := s.Virtual[slices.IndexFunc(s.Virtual, func(r *registry.Resource) bool { return r.GVR == bindings })]
	ctx, r, err := s.begin(ctx, "create", virtual{req, res}, "", "", "")
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return nil, err
	}
	form, opts, err := r.posting(req)
	if err != nil {
		return nil, err
	}
	s.Metrics.received(r, len(req.GetObject()))
	pods, err := s.find(ctx, pods)
	if err != nil {
		return nil, err
	}
	body := codec.Body{Data: req.GetObject(), ContentType: req.GetContentType(), Validation: opts.validation, Offer: r.offer}
	op, err := s.apply(ctx, r, pods.Kind.Actions["binding"], body, form, opts)
	if err != nil {
		return nil, err
	}
	a, err := s.execute(ctx, op, opts.dryRun)
	if err != nil {
		return nil, err
	}
	r.header(ctx)
	return &apiv1.CreateResponse{Object: a.object, ContentType: a.contentType, Code: a.code}, nil
}

var (
	bindings = corev1.SchemeGroupVersion.WithResource("bindings")
	pods     = corev1.SchemeGroupVersion.WithResource("pods")
)

// meant is the request to the pod that a Binding names.
func (s *Server) meant(ctx context.Context, r *request, name string) (*request, error) {
	res, err := s.find(ctx, pods)
	if err != nil {
		return nil, err
	}
	to := *r
	to.res, to.name, to.subresource = res, name, "binding"
	return &to, nil
}
