package objecttest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Delete removes an object at once, or marks it where finalizers, a
// propagation policy or a pod's grace period hold it.
func (s *Server) Delete(ctx context.Context, r *apiv1.DeleteRequest) (*apiv1.DeleteResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, obj, err := s.delete(ctx, r)
	if err != nil {
		return nil, err
	}
	data, err := encode(k, obj, r.GetAccept())
	return &apiv1.DeleteResponse{Object: data, ContentType: object.ContentType, Code: http.StatusOK}, err
}

func (s *Server) delete(ctx context.Context, r *apiv1.DeleteRequest) (kind, object.Object, error) {
	s.calls["delete "+r.GetResource()]++
	k, prefix, err := s.resolve(r)
	if err != nil {
		return k, nil, err
	}
	if err := s.intercept(ctx, Write{"delete", r.GetResource(), r.GetNamespace(), r.GetName(), "", nil, ""}); err != nil {
		return k, nil, err
	}
	options, err := deleteOptions(r.GetOptions())
	if err != nil {
		return k, nil, err
	}
	old, ok := s.objects[key(prefix, r.GetNamespace(), r.GetName())]
	if !ok {
		return k, nil, apierrors.NewNotFound(groupResource(r), r.GetName())
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != old.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
			return k, nil, conflict(r, r.GetName())
		}
	}
	return k, s.remove(ctx, prefix, options, old), nil
}

func deleteOptions(data []byte) (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	if len(data) == 0 {
		return options, nil
	}
	if _, _, err := codec.Decode(data, nil, options); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return options, nil
}

func (s *Server) remove(ctx context.Context, prefix string, options *metav1.DeleteOptions, old object.Object) object.Object {
	obj := old.DeepCopyObject().(object.Object)
	if p := options.PropagationPolicy; p != nil {
		switch *p {
		case metav1.DeletePropagationForeground:
			addFinalizer(obj, metav1.FinalizerDeleteDependents)
		case metav1.DeletePropagationOrphan:
			addFinalizer(obj, metav1.FinalizerOrphanDependents)
		}
	}
	grace := int64(0)
	if p, ok := obj.(*corev1.Pod); ok && p.Spec.NodeName != "" && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
		grace = 30
		if p.Spec.TerminationGracePeriodSeconds != nil {
			grace = *p.Spec.TerminationGracePeriodSeconds
		}
		if options.GracePeriodSeconds != nil {
			grace = *options.GracePeriodSeconds
		}
	}
	ns, isNamespace := obj.(*corev1.Namespace)
	if grace == 0 && len(obj.GetFinalizers()) == 0 && (!isNamespace || len(ns.Spec.Finalizers) == 0) {
		return s.record("DELETED", prefix, obj, old, obs.Traceparent(ctx))
	}
	if had := obj.GetDeletionGracePeriodSeconds(); obj.GetDeletionTimestamp() == nil || had != nil && grace < *had {
		t := metav1.NewTime(s.now().Add(time.Duration(grace) * time.Second).Truncate(time.Second))
		obj.SetDeletionTimestamp(&t)
		obj.SetDeletionGracePeriodSeconds(&grace)
		if isNamespace {
			ns.Status.Phase = corev1.NamespaceTerminating
		}
		return s.record("MODIFIED", prefix, obj, old, obs.Traceparent(ctx))
	}
	return old
}

// DeleteCollection deletes what the selectors select, each as Delete would.
func (s *Server) DeleteCollection(ctx context.Context, r *apiv1.DeleteCollectionRequest) (*apiv1.DeleteCollectionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls["deletecollection "+r.GetResource()]++
	_, prefix, err := s.resolve(r)
	if err != nil {
		return nil, err
	}
	selects, err := filter(r.GetNamespace(), r.GetLabelSelector(), r.GetFieldSelector())
	if err != nil {
		return nil, err
	}
	options, err := deleteOptions(r.GetOptions())
	if err != nil {
		return nil, err
	}
	for key, obj := range s.objects {
		if strings.HasPrefix(key, prefix) && selects(obj) {
			s.remove(ctx, prefix, options, obj)
		}
	}
	return &apiv1.DeleteCollectionResponse{ContentType: object.ContentType, Code: http.StatusOK,
		Object: encodeStatus(&metav1.Status{Status: metav1.StatusSuccess})}, nil
}

// Document serves the discovery documents of /api/v1, /apis and
// /apis/{group}/{version}, as JSON, for the kinds that have objects or that
// the tests of controllers need.
func (s *Server) Document(_ context.Context, r *apiv1.DocumentRequest) (*apiv1.DocumentResponse, error) {
	var document any
	switch path := strings.Trim(r.GetPath(), "/"); {
	case path == "apis":
		list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, group := range []string{"apps", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io"} {
			v := metav1.GroupVersionForDiscovery{GroupVersion: group + "/v1", Version: "v1"}
			list.Groups = append(list.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		}
		if s.extension != nil {
			v := metav1.GroupVersionForDiscovery{GroupVersion: ExtensionGroup.String(), Version: ExtensionGroup.Version}
			list.Groups = append(list.Groups, metav1.APIGroup{Name: ExtensionGroup.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		}
		document = list
	case path == "api/v1":
		document = s.resources("", "pods", "services", "endpoints", "configmaps", "secrets", "serviceaccounts", "events", "namespaces", "nodes")
	case path == "apis/apps/v1":
		document = s.resources("apps", "deployments", "replicasets")
	case path == "apis/coordination.k8s.io/v1":
		document = s.resources("coordination.k8s.io", "leases")
	case path == "apis/discovery.k8s.io/v1":
		document = s.resources("discovery.k8s.io", "endpointslices")
	case path == "apis/events.k8s.io/v1":
		document = s.resources("events.k8s.io", "events")
	case s.extension != nil && path == "apis/"+ExtensionGroup.String():
		data, err := json.Marshal(s.extension.Resources())
		return &apiv1.DocumentResponse{Object: data, ContentType: "application/json", Remote: true}, err
	default:
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "get", corev1.Resource(""), "", "the server could not find the requested resource", 0, true)
	}
	data, err := json.Marshal(document)
	return &apiv1.DocumentResponse{Object: data, ContentType: "application/json"}, err
}

func (s *Server) resources(group string, names ...string) *metav1.APIResourceList {
	gv := "v1"
	if group != "" {
		gv = group + "/v1"
	}
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv}
	for gvr, k := range s.kinds {
		for _, n := range names {
			if gvr.Group == group && gvr.Version == "v1" && gvr.Resource == n {
				list.APIResources = append(list.APIResources, metav1.APIResource{
					Name: n, Kind: k.gvk.Kind, Namespaced: k.namespaced,
					Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
				})
			}
		}
	}
	return list
}

func encodeStatus(status *metav1.Status) []byte {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	data, err := runtime.Encode(codec, status)
	if err != nil {
		panic("objecttest: " + err.Error())
	}
	return data
}
