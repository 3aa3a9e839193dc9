package objects

import (
	"context"
	"net/http"
	"slices"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/kind/pod"
	"howdah.dev/services/apiserver/internal/registry"
)

// Bindings is the resource that schedulers post bindings of pods to. It is an older way to say what the subresource binding of
// a pod says, and is answered, and allowed, as that is.
func Bindings() *registry.Resource {
	gvk := corev1.SchemeGroupVersion.WithKind("Binding")
	return &registry.Resource{
		Kind: &registry.Kind{GVK: gvk, Resource: "bindings", Singular: "binding", Namespaced: true, New: func() registry.Object { return &corev1.Binding{} }},
		GVK:  gvk, GVR: corev1.SchemeGroupVersion.WithResource("bindings"),
	}
}

func (s *Server) isBinding(req *apiv1.CreateRequest) bool {
	return req.GetResource() == "bindings" && req.GetGroup() == "" && req.GetSubresource() == "" &&
		slices.ContainsFunc(s.Virtual, func(r *registry.Resource) bool {
			return r.GVR.Resource == "bindings" && r.GVR.Version == req.GetVersion()
		})
}

// unnamedBinding is what a Binding without a name is refused with: that comes after what else is wrong with it.
func unnamedBinding(b *corev1.Binding) error {
	if errs := pod.ValidateBinding(b); len(errs) > 0 {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: errs.ToAggregate().Error(),
		}}
	}
	return apierrors.NewBadRequest("Name parameter required.")
}

// bind posts a Binding to the pod that it names.
func (s *Server) bind(ctx context.Context, req *apiv1.CreateRequest) (*apiv1.CreateResponse, error) {
	if err := checkSize(req.GetObject()); err != nil {
		return nil, err
	}
	binding := &corev1.Binding{}
	if _, err := (codec.Body{Data: req.GetObject(), ContentType: req.GetContentType(), Offer: s.Offer}).Into(binding, corev1.SchemeGroupVersion.WithKind("Binding")); err != nil {
		return nil, err
	}
	if binding.Name == "" {
		return nil, unnamedBinding(binding)
	}
	to := proto.Clone(req).(*apiv1.CreateRequest)
	to.Resource, to.Name, to.Subresource = "pods", binding.Name, "binding"
	return s.Create(ctx, to)
}
