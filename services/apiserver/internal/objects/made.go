package objects

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// Made is a resource whose objects are made when they are read, as ComponentStatuses: they can be got and listed, and nothing else. Of its kind what tables
// show is used.
type Made struct {
	*registry.Resource
	// Make returns the objects of a namespace, or all where that is empty. With a name it returns that object alone, or an error that says it is not there.
	Make func(ctx context.Context, namespace, name string) ([]registry.Object, error)
}

// Resources are the resources of what is made.
func Resources(made []Made) []*registry.Resource {
	out := make([]*registry.Resource, len(made))
	for i, m := range made {
		out[i] = m.Resource
	}
	return out
}

// made returns the resource that a request names, where its objects are made here. An extension API server that serves the version takes its place.
func (s *Server) made(t target) (Made, bool) {
	i := slices.IndexFunc(s.Made, func(m Made) bool {
		return m.GVR.Resource == t.GetResource() && m.GVR.Group == t.GetGroup() && m.GVR.Version == t.GetVersion()
	})
	if i < 0 || s.Aggregator != nil && s.Aggregator.Remote(t.GetGroup(), t.GetVersion()) != nil {
		return Made{}, false
	}
	return s.Made[i], true
}

// madeGet answers a get of one object.
func (s *Server) madeGet(ctx context.Context, req *apiv1.GetRequest, m Made) (resp *apiv1.GetResponse, err error) {
	ctx, r, err := s.begin(ctx, "get", virtual{req, m.Resource}, req.GetName(), req.GetSubresource(), "")
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
	if err := locate(m.Kind, r.namespace, r.name); err != nil {
		return nil, err
	}
	all, err := m.Make(ctx, r.namespace, r.name)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, apierrors.NewNotFound(m.GroupResource(), r.name)
	}
	r.header(ctx)
	body, contentType, err := codec.Single(all[0], m.GVK, m.Kind.Columns, m.Kind.Cells(all[0]), form)
	return &apiv1.GetResponse{Object: body, ContentType: contentType}, err
}

// madeWatch refuses to watch what is made when it is read.
func (s *Server) madeWatch(ctx context.Context, req *apiv1.WatchRequest, m Made) (err error) {
	ctx, r, err := s.begin(ctx, "watch", virtual{req, m.Resource}, req.GetName(), "", req.GetFieldSelector())
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return err
	}
	r.header(ctx)
	return apierrors.NewMethodNotSupported(m.GroupResource(), "watch")
}

// madeList answers a list.
func (s *Server) madeList(ctx context.Context, req *apiv1.ListRequest, m Made, send func(*apiv1.ListResponse) error) (err error) {
	ctx, r, err := s.begin(ctx, "list", virtual{req, m.Resource}, "", "", req.GetFieldSelector())
	defer func() { s.end(ctx, r, &err, recover()) }()
	if err != nil {
		return err
	}
	form, err := r.offer.Negotiate(req.GetAccept(), req.GetPretty(), req.GetIncludeObject())
	if err != nil {
		return err
	}
	chosen, err := chooser(m.Resource, req)
	if err != nil {
		return err
	}
	all, err := m.Make(ctx, r.namespace, "")
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(o registry.Object) bool { return !chosen(o) })
	r.header(ctx)
	several, err := listOf(m.Resource, all)
	if err != nil {
		return err
	}
	body, contentType, err := several.Encode(form)
	if err != nil {
		return err
	}
	r.size = len(body)
	return send(&apiv1.ListResponse{Object: body, ContentType: contentType})
}

// listOf is the list of objects, with a row for each.
func listOf(res *registry.Resource, all []registry.Object) (codec.Several, error) {
	several := codec.Several{List: res.Kind.NewList(), GVK: res.GVK.GroupVersion().WithKind(res.ListKind), Columns: res.Kind.Columns, Objects: all}
	items := make([]runtime.Object, len(all))
	for i, o := range all {
		items[i] = o
		several.Cells = append(several.Cells, res.Kind.Cells(o))
	}
	return several, meta.SetList(several.List, items)
}

// chooser returns what tells whether the selectors pick an object: by its labels, its name and its namespace.
func chooser(res *registry.Resource, req *apiv1.ListRequest) (func(registry.Object) bool, error) {
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
	return func(o registry.Object) bool {
		return label.Matches(labels.Set(o.GetLabels())) && field.Matches(fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()})
	}, nil
}
