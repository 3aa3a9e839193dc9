package objecttest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/uuid"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Create stores a new object. Of the subresources it knows "binding" of pods and "token" of service accounts.
func (s *Server) Create(ctx context.Context, r *apiv1.CreateRequest) (*apiv1.CreateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, obj, err := s.create(ctx, r)
	if err != nil {
		return nil, err
	}
	data, err := encode(k, obj, r.GetAccept())
	return &apiv1.CreateResponse{Object: data, ContentType: object.ContentType, Code: http.StatusCreated}, err
}

func (s *Server) create(ctx context.Context, r *apiv1.CreateRequest) (kind, object.Object, error) {
	s.calls["create "+r.GetResource()]++
	k, prefix, err := s.resolve(r)
	if err != nil {
		return k, nil, err
	}
	obj, err := decode(k, r.GetObject())
	if err != nil {
		return k, nil, err
	}
	if err := s.intercept(ctx, Write{"create", r.GetResource(), r.GetNamespace(), obj.GetName(), r.GetSubresource(), obj, ""}); err != nil {
		return k, nil, err
	}
	if binding, ok := obj.(*corev1.Binding); ok && r.GetSubresource() == "binding" {
		obj, err := s.bind(ctx, prefix, r, binding)
		return k, obj, err
	}
	if request, ok := obj.(*authenticationv1.TokenRequest); ok && r.GetSubresource() == "token" {
		k, obj := s.mint(r, request)
		return k, obj, nil
	}
	if r.GetSubresource() != "" {
		return k, nil, apierrors.NewMethodNotSupported(groupResource(r), "create "+r.GetSubresource())
	}
	if k.namespaced != (r.GetNamespace() != "") {
		return k, nil, apierrors.NewBadRequest(fmt.Sprintf("namespace %q does not fit %s", r.GetNamespace(), r.GetResource()))
	}
	obj.SetNamespace(r.GetNamespace())
	if obj.GetName() == "" {
		if obj.GetGenerateName() == "" {
			return k, nil, apierrors.NewInvalid(k.gvk.GroupKind(), "", nil)
		}
		obj.SetName(obj.GetGenerateName() + rand.String(5))
	}
	if _, exists := s.objects[key(prefix, obj.GetNamespace(), obj.GetName())]; exists {
		return k, nil, apierrors.NewAlreadyExists(groupResource(r), obj.GetName())
	}
	obj.SetUID(uuid.NewUUID())
	obj.SetCreationTimestamp(metav1.NewTime(s.now().Truncate(1e9)))
	obj.SetDeletionTimestamp(nil)
	if generational(obj) {
		obj.SetGeneration(1)
	}
	return k, s.record("ADDED", prefix, obj, nil, obs.Traceparent(ctx)), nil
}

// Update replaces an object or, with "status", its status only.
func (s *Server) Update(ctx context.Context, r *apiv1.UpdateRequest) (*apiv1.UpdateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, obj, err := s.update(ctx, r)
	if err != nil {
		return nil, err
	}
	data, err := encode(k, obj, r.GetAccept())
	return &apiv1.UpdateResponse{Object: data, ContentType: object.ContentType, Code: http.StatusOK}, err
}

func (s *Server) update(ctx context.Context, r *apiv1.UpdateRequest) (kind, object.Object, error) {
	s.calls["update "+r.GetResource()]++
	k, prefix, err := s.resolve(r)
	if err != nil {
		return k, nil, err
	}
	obj, err := decode(k, r.GetObject())
	if err != nil {
		return k, nil, err
	}
	if err := s.intercept(ctx, Write{"update", r.GetResource(), r.GetNamespace(), r.GetName(), r.GetSubresource(), obj, ""}); err != nil {
		return k, nil, err
	}
	old, ok := s.objects[key(prefix, r.GetNamespace(), r.GetName())]
	if !ok {
		return k, nil, apierrors.NewNotFound(groupResource(r), r.GetName())
	}
	if v := obj.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		return k, nil, conflict(r, r.GetName())
	}
	return k, s.replace(ctx, prefix, r.GetSubresource(), obj, old), nil
}

func conflict(r request, name string) error {
	return apierrors.NewConflict(groupResource(r), name,
		fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
}

// replace stores a changed object, or ends one whose last finalizer went.
func (s *Server) replace(ctx context.Context, prefix, subresource string, obj, old object.Object) object.Object {
	next := old.DeepCopyObject().(object.Object)
	switch subresource {
	case "status": // annotations go with it, as Kubernetes has it for workloads, and labels of nodes
		setField(next, obj, "Status")
		next.SetAnnotations(obj.GetAnnotations())
		if _, ok := next.(*corev1.Node); ok {
			next.SetLabels(obj.GetLabels())
		}
	case "finalize":
		next.(*corev1.Namespace).Spec.Finalizers = obj.(*corev1.Namespace).Spec.Finalizers
	default:
		next = obj.DeepCopyObject().(object.Object)
		setField(next, old, "Status")
		next.SetUID(old.GetUID())
		next.SetCreationTimestamp(old.GetCreationTimestamp())
		next.SetDeletionTimestamp(old.GetDeletionTimestamp())
		next.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
		next.SetGeneration(old.GetGeneration())
		if generational(obj) && !reflect.DeepEqual(field(next, "Spec"), field(old, "Spec")) {
			next.SetGeneration(old.GetGeneration() + 1)
		}
	}
	next.SetResourceVersion("")
	same := old.DeepCopyObject().(object.Object)
	same.SetResourceVersion("")
	if reflect.DeepEqual(next, same) {
		return old
	}
	event := "MODIFIED"
	grace := next.GetDeletionGracePeriodSeconds()
	if next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 && (grace == nil || *grace == 0) {
		if ns, ok := next.(*corev1.Namespace); !ok || len(ns.Spec.Finalizers) == 0 {
			event = "DELETED"
		}
	}
	return s.record(event, prefix, next, old, obs.Traceparent(ctx))
}

// Patch knows merge patches of everything and strategic ones of typed kinds.
func (s *Server) Patch(ctx context.Context, r *apiv1.PatchRequest) (*apiv1.PatchResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, obj, err := s.patch(ctx, r)
	if err != nil {
		return nil, err
	}
	data, err := encode(k, obj, r.GetAccept())
	return &apiv1.PatchResponse{Object: data, ContentType: object.ContentType, Code: http.StatusOK}, err
}

func (s *Server) patch(ctx context.Context, r *apiv1.PatchRequest) (kind, object.Object, error) {
	s.calls["patch "+r.GetResource()]++
	k, prefix, err := s.resolve(r)
	if err != nil {
		return k, nil, err
	}
	if err := s.intercept(ctx, Write{"patch", r.GetResource(), r.GetNamespace(), r.GetName(), r.GetSubresource(), nil, ""}); err != nil {
		return k, nil, err
	}
	old, ok := s.objects[key(prefix, r.GetNamespace(), r.GetName())]
	if !ok {
		return k, nil, apierrors.NewNotFound(groupResource(r), r.GetName())
	}
	before, err := json.Marshal(old)
	if err != nil {
		return k, nil, err
	}
	empty, err := object.Scheme.New(k.gvk)
	if err != nil {
		return k, nil, err
	}
	var after []byte
	switch types.PatchType(r.GetContentType()) {
	case types.MergePatchType:
		after, err = mergeJSON(before, r.GetObject())
	case types.StrategicMergePatchType:
		after, err = strategicpatch.StrategicMergePatch(before, r.GetObject(), empty)
	default:
		return k, nil, apierrors.NewBadRequest("objecttest: no patches of type " + r.GetContentType())
	}
	if err != nil {
		return k, nil, apierrors.NewBadRequest(err.Error())
	}
	if err := json.Unmarshal(after, empty); err != nil {
		return k, nil, apierrors.NewBadRequest(err.Error())
	}
	obj := empty.(object.Object)
	if obj.GetUID() != old.GetUID() || obj.GetResourceVersion() != old.GetResourceVersion() {
		return k, nil, conflict(r, r.GetName())
	}
	return k, s.replace(ctx, prefix, r.GetSubresource(), obj, old), nil
}

// mergeJSON applies an RFC 7386 patch.
func mergeJSON(doc, patch []byte) ([]byte, error) {
	var d, p any
	if err := json.Unmarshal(doc, &d); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &p); err != nil {
		return nil, err
	}
	return json.Marshal(merge(d, p))
}

func merge(doc, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	d, ok := doc.(map[string]any)
	if !ok {
		d = map[string]any{}
	}
	for k, v := range p {
		if v == nil {
			delete(d, k)
		} else {
			d[k] = merge(d[k], v)
		}
	}
	return d
}

// Batch applies its items in order; an atomic one that fails undoes all.
func (s *Server) Batch(ctx context.Context, r *apiv1.BatchRequest) (*apiv1.BatchResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls["batch"]++
	response := &apiv1.BatchResponse{}
	objects, logged, revision := s.objects, len(s.log), s.revision
	if r.GetAtomic() {
		s.objects = make(map[string]object.Object, len(objects))
		for k, o := range objects {
			s.objects[k] = o
		}
	}
	failed := false
	for _, item := range r.GetItems() {
		ctx := ctx
		if parent := obs.ParseTraceparent(item.GetTraceparent()); parent.IsValid() {
			ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
		}
		var (
			k   kind
			obj object.Object
			err error
		)
		switch w := item.GetWrite().(type) {
		case *apiv1.BatchItem_Create:
			k, obj, err = s.create(ctx, w.Create)
		case *apiv1.BatchItem_Update:
			k, obj, err = s.update(ctx, w.Update)
		case *apiv1.BatchItem_Patch:
			k, obj, err = s.patch(ctx, w.Patch)
		case *apiv1.BatchItem_Delete:
			k, obj, err = s.delete(ctx, w.Delete)
		}
		result := &apiv1.BatchResult{ContentType: object.ContentType, Code: http.StatusOK}
		if err == nil && obj != nil {
			result.Object, err = encode(k, obj, object.ContentType)
		}
		if err != nil {
			failed = true
			status := apistatus.Of(err)
			result.Code = status.Code
			result.Object = encodeStatus(&status)
		}
		response.Results = append(response.Results, result)
	}
	if failed && r.GetAtomic() {
		s.objects, s.log, s.revision = objects, s.log[:logged], revision
		for _, result := range response.Results {
			if result.GetCode() < 400 {
				status := apierrors.NewConflict(corev1.Resource("batch"), "", fmt.Errorf("another write of the atomic batch failed")).Status()
				result.Code, result.Object = status.Code, encodeStatus(&status)
			}
		}
	}
	return response, nil
}

func (s *Server) intercept(ctx context.Context, w Write) error {
	if s.Intercept == nil {
		return nil
	}
	w.Fence = fenceOf(ctx)
	return s.Intercept(w)
}

// field returns a field of the object, invalid where it has none.
func field(o object.Object, name string) any {
	v := reflect.ValueOf(o).Elem().FieldByName(name)
	if !v.IsValid() {
		return nil
	}
	return v.Interface()
}

func setField(to, from object.Object, name string) {
	v := reflect.ValueOf(to).Elem().FieldByName(name)
	if v.IsValid() {
		v.Set(reflect.ValueOf(from.DeepCopyObject()).Elem().FieldByName(name))
	}
}

// generational says whether the kind counts changes of its spec.
func generational(o object.Object) bool { return field(o, "Spec") != nil }

// addFinalizer adds a finalizer once.
func addFinalizer(o object.Object, name string) {
	if !slices.Contains(o.GetFinalizers(), name) {
		o.SetFinalizers(append(o.GetFinalizers(), name))
	}
}
