package objects

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

var (
	componentGVK      = corev1.SchemeGroupVersion.WithKind("ComponentStatus")
	componentStatuses = corev1.SchemeGroupVersion.WithResource("componentstatuses")
)

// ComponentStatuses is the resource that tells how the cluster's parts are: it is made when it is read.
func ComponentStatuses() *registry.Resource {
	return &registry.Resource{
		Kind: &registry.Kind{
			GVK: componentGVK, Resource: "componentstatuses", Singular: "componentstatus", ShortNames: []string{"cs"}, Deprecated: "v1 ComponentStatus is deprecated in v1.19+",
			New:     func() registry.Object { return &corev1.ComponentStatus{} },
			NewList: func() runtime.Object { return &corev1.ComponentStatusList{} },
		},
		GVK: componentGVK, GVR: componentStatuses, ListKind: "ComponentStatusList",
	}
}

// components returns the resource, where a request names it and it is served.
func (s *Server) components(t target) (*registry.Resource, bool) {
	if t.GetResource() != "componentstatuses" || t.GetGroup() != "" {
		return nil, false
	}
	for _, res := range s.Virtual {
		if res.GVR.Resource == t.GetResource() && res.GVR.Version == t.GetVersion() {
			return res, true
		}
	}
	return nil, false
}

// component answers a get of one part's health.
func (s *Server) component(ctx context.Context, req *apiv1.GetRequest, res *registry.Resource) (resp *apiv1.GetResponse, err error) {
	ctx, r, err := s.begin(ctx, "get", virtual{req, res}, req.GetName(), req.GetSubresource(), "")
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return nil, err
	}
	form, err := r.offer.Negotiate(req.GetAccept(), req.GetPretty(), req.GetIncludeObject())
	if err != nil {
		return nil, err
	}
	if r.subresource != "" {
		return nil, noSuchResource()
	}
	for _, one := range s.Components(ctx) {
		if one.Name != r.name {
			continue
		}
		r.header(ctx)
		body, contentType, err := codec.Single(&one, componentGVK, componentColumns(), componentCells(&one), form)
		return &apiv1.GetResponse{Object: body, ContentType: contentType}, err
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "componentstatus"}, r.name)
}

// componentWatch refuses to watch what is made when it is read.
func (s *Server) componentWatch(ctx context.Context, req *apiv1.WatchRequest, res *registry.Resource) (err error) {
	ctx, r, err := s.begin(ctx, "watch", virtual{req, res}, req.GetName(), "", req.GetFieldSelector())
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return err
	}
	r.header(ctx)
	return apierrors.NewMethodNotSupported(res.GroupResource(), "watch")
}

// componentList answers a list of all parts' health.
func (s *Server) componentList(ctx context.Context, req *apiv1.ListRequest, res *registry.Resource, send func(*apiv1.ListResponse) error) (err error) {
	ctx, r, err := s.begin(ctx, "list", virtual{req, res}, "", "", req.GetFieldSelector())
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return err
	}
	form, err := r.offer.Negotiate(req.GetAccept(), req.GetPretty(), req.GetIncludeObject())
	if err != nil {
		return err
	}
	all, err := choose(res, s.Components(ctx), req)
	if err != nil {
		return err
	}
	r.header(ctx)
	list := &corev1.ComponentStatusList{Items: all}
	several := codec.Several{List: list, GVK: componentGVK.GroupVersion().WithKind("ComponentStatusList"), Columns: componentColumns()}
	for i := range all {
		several.Objects = append(several.Objects, &all[i])
		several.Cells = append(several.Cells, componentCells(&all[i]))
	}
	body, contentType, err := several.Encode(form)
	if err != nil {
		return err
	}
	return send(&apiv1.ListResponse{Object: body, ContentType: contentType})
}

// choose returns what the selectors pick. Parts have a name and no labels.
func choose(res *registry.Resource, all []corev1.ComponentStatus, req *apiv1.ListRequest) ([]corev1.ComponentStatus, error) {
	label, err := labels.Parse(req.GetLabelSelector())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	field, err := fields.ParseSelector(req.GetFieldSelector())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, r := range field.Requirements() {
		if r.Field != "metadata.name" && r.Field != "metadata.namespace" {
			return nil, apierrors.NewBadRequest(unknownField(res, r.Field))
		}
	}
	chosen := []corev1.ComponentStatus{}
	for _, one := range all {
		if label.Matches(labels.Set(one.Labels)) && field.Matches(fields.Set{"metadata.name": one.Name}) {
			chosen = append(chosen, one)
		}
	}
	return chosen, nil
}

func componentColumns() []metav1.TableColumnDefinition {
	text := func(name, description string) metav1.TableColumnDefinition {
		return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
	}
	name := text("Name", metav1.ObjectMeta{}.SwaggerDoc()["name"])
	name.Format = "name"
	return []metav1.TableColumnDefinition{
		name, text("Status", "Status of the component conditions"), text("Message", "Message of the component conditions"), text("Error", "Error of the component conditions"),
	}
}

func componentCells(c *corev1.ComponentStatus) []any {
	status, message, problem := "Unknown", "", ""
	for _, condition := range c.Conditions {
		if condition.Type != corev1.ComponentHealthy {
			continue
		}
		message, problem = condition.Message, condition.Error
		if status = "Unhealthy"; condition.Status == corev1.ConditionTrue {
			status = "Healthy"
		}
	}
	return []any{c.Name, status, message, problem}
}
