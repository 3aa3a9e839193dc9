package objecttest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// chunk is the size of a list's pieces: small, so that tests see several.
const chunk = 64 << 10

// Get returns one object; subresources read as the object itself.
func (s *Server) Get(_ context.Context, r *apiv1.GetRequest) (*apiv1.GetResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls["get "+r.GetResource()]++
	k, prefix, err := s.resolve(r)
	if err != nil {
		return nil, err
	}
	obj, ok := s.objects[key(prefix, r.GetNamespace(), r.GetName())]
	if !ok {
		return nil, apierrors.NewNotFound(groupResource(r), r.GetName())
	}
	data, err := encode(k, obj, r.GetAccept())
	return &apiv1.GetResponse{Object: data, ContentType: object.ContentType}, err
}

// List returns a collection, ordered by namespace and name.
func (s *Server) List(r *apiv1.ListRequest, stream grpc.ServerStreamingServer[apiv1.ListResponse]) error {
	data, err := s.list(r)
	if err != nil {
		return err
	}
	for first := true; first || len(data) > 0; first = false {
		n := min(chunk, len(data))
		if err := stream.Send(&apiv1.ListResponse{Object: data[:n], ContentType: object.ContentType}); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func (s *Server) list(r *apiv1.ListRequest) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls["list "+r.GetResource()]++
	k, prefix, err := s.resolve(r)
	if err != nil {
		return nil, err
	}
	selects, err := filter(r.GetNamespace(), r.GetLabelSelector(), r.GetFieldSelector())
	if err != nil {
		return nil, err
	}
	partial := strings.Contains(r.GetAccept(), "as=PartialObjectMetadata")
	var keys []string
	for key, obj := range s.objects {
		if strings.HasPrefix(key, prefix) && selects(obj) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var items []runtime.Object
	for _, key := range keys {
		if partial {
			items = append(items, meta.AsPartialObjectMetadata(s.objects[key]))
		} else {
			items = append(items, s.objects[key])
		}
	}
	gvk := k.gvk.GroupVersion().WithKind(k.gvk.Kind + "List")
	if partial {
		gvk = schema.GroupVersionKind{Group: "meta.k8s.io", Version: "v1", Kind: "PartialObjectMetadataList"}
	}
	var list runtime.Object = &metav1.PartialObjectMetadataList{}
	if !partial {
		if list, err = object.Scheme.New(gvk); err != nil {
			return nil, err
		}
	}
	if err := meta.SetList(list, items); err != nil {
		return nil, err
	}
	access, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	access.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	list.GetObjectKind().SetGroupVersionKind(gvk)
	return runtime.Encode(codec, list)
}

// filter returns what selects the objects of a list or watch.
func filter(namespace, labelSelector, fieldSelector string) (func(object.Object) bool, error) {
	ls, err := labels.Parse(labelSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	fs, err := fields.ParseSelector(fieldSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, r := range fs.Requirements() {
		switch r.Field {
		case "metadata.name", "metadata.namespace", "spec.nodeName", "spec.driver", "spec.hostNetwork", "spec.signerName", "status.phase", "type":
		default:
			return nil, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
		}
	}
	return func(o object.Object) bool {
		if namespace != "" && o.GetNamespace() != namespace || !ls.Matches(labels.Set(o.GetLabels())) {
			return false
		}
		set := selectable(o)
		set["metadata.name"], set["metadata.namespace"] = o.GetName(), o.GetNamespace()
		return fs.Matches(set)
	}, nil
}

// selectable are the fields of an object, beside its names, that selectors may ask for.
func selectable(o object.Object) fields.Set {
	switch o := o.(type) {
	case *corev1.Pod:
		return fields.Set{"spec.nodeName": o.Spec.NodeName, "status.phase": string(o.Status.Phase), "spec.hostNetwork": strconv.FormatBool(o.Spec.HostNetwork)}
	case *corev1.Secret:
		return fields.Set{"type": string(o.Type)}
	case *resourcev1.ResourceSlice:
		return fields.Set{"spec.driver": o.Spec.Driver, "spec.nodeName": ptr.Deref(o.Spec.NodeName, "")}
	case *certificatesv1beta1.PodCertificateRequest:
		return fields.Set{"spec.nodeName": string(o.Spec.NodeName), "spec.signerName": o.Spec.SignerName}
	case *certificatesv1beta1.ClusterTrustBundle:
		return fields.Set{"spec.signerName": o.Spec.SignerName}
	}
	return fields.Set{}
}

// Watch streams the log from a revision on.
func (s *Server) Watch(r *apiv1.WatchRequest, stream grpc.ServerStreamingServer[apiv1.WatchResponse]) error {
	k, prefix, err := s.resolve(r)
	if err != nil {
		return err
	}
	selects, err := filter(r.GetNamespace(), r.GetLabelSelector(), r.GetFieldSelector())
	if err != nil {
		return err
	}
	from, err := strconv.ParseInt(r.GetResourceVersion(), 10, 64)
	if err != nil {
		return apierrors.NewBadRequest("objecttest: a watch needs a resourceVersion")
	}
	if err := stream.Send(&apiv1.WatchResponse{ContentType: object.ContentType}); err != nil {
		return err
	}
	ctx := stream.Context()
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	s.calls["watch "+r.GetResource()]++
	s.mu.Unlock()
	next := 0
	for {
		s.mu.Lock()
		for next == len(s.log) && ctx.Err() == nil {
			s.changed.Wait()
		}
		news := s.log[next:]
		next = len(s.log)
		s.mu.Unlock()
		if ctx.Err() != nil {
			return nil
		}
		response := &apiv1.WatchResponse{}
		for _, c := range news {
			event := c.event
			if c.revision <= from || c.prefix != prefix {
				continue
			}
			// What leaves or enters the selection looks deleted or added.
			is, was := selects(c.object), c.old != nil && selects(c.old)
			switch {
			case !is && !was:
				continue
			case event == "MODIFIED" && !was:
				event = "ADDED"
			case event == "MODIFIED" && !is:
				event = "DELETED"
			}
			data, err := encode(k, c.object, r.GetAccept())
			if err != nil {
				return err
			}
			response.Events = append(response.Events, &apiv1.WatchEvent{Type: event, Object: data, Revision: c.revision, Traceparent: c.traceparent})
		}
		if len(response.Events) > 0 {
			if err := stream.Send(response); err != nil {
				return err
			}
		}
	}
}
