package object

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Resource reads and writes the objects of one kind. Errors are
// *apierrors.StatusError, so apierrors.IsNotFound and its like tell them apart.
type Resource[T Object] struct {
	client *Client
	kind   Kind[T]
	// uninitialized says that lists show what waits for initializers, too.
	uninitialized bool
}

// For returns the resource of a kind.
func For[T Object](client *Client, kind Kind[T]) Resource[T] {
	return Resource[T]{client: client, kind: kind}
}

// WithUninitialized returns the resource with lists that show what waits for initializers, too.
func (r Resource[T]) WithUninitialized() Resource[T] {
	r.uninitialized = true
	return r
}

// Get returns an object as of now.
func (r Resource[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if r.kind.Remote {
		return r.remoteGet(ctx, namespace, name)
	}
	resp, err := r.client.api.Get(ctx, &apiv1.GetRequest{
		Group: r.kind.GVK.Group, Version: r.kind.GVK.Version, Resource: r.kind.Resource,
		Namespace: namespace, Name: name, Accept: accept(r.kind),
	})
	if err != nil {
		var none T
		return none, apistatus.FromGRPC(err)
	}
	return Decode(r.kind, resp.GetObject())
}

// List returns the objects that options select (all namespaces for "") and
// the list's own metadata: its resourceVersion and continue token.
func (r Resource[T]) List(ctx context.Context, namespace string, options metav1.ListOptions) ([]T, metav1.ListMeta, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	list, err := r.list(ctx, namespace, options)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	typed := make([]T, 0, len(items))
	for _, item := range items {
		typed = append(typed, item.(T))
	}
	access, err := meta.ListAccessor(list)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	return typed, metav1.ListMeta{
		ResourceVersion: access.GetResourceVersion(), Continue: access.GetContinue(), RemainingItemCount: access.GetRemainingItemCount(),
	}, nil
}

func (r Resource[T]) list(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	if r.kind.Remote {
		return r.remoteList(ctx, namespace, options)
	}
	stream, err := r.client.api.List(ctx, &apiv1.ListRequest{
		Group: r.kind.GVK.Group, Version: r.kind.GVK.Version, Resource: r.kind.Resource, Namespace: namespace,
		LabelSelector: options.LabelSelector, FieldSelector: options.FieldSelector,
		ResourceVersion: options.ResourceVersion, ResourceVersionMatch: string(options.ResourceVersionMatch),
		Limit: options.Limit, Continue: options.Continue, Accept: listAccept(r.kind), IncludeUninitialized: r.uninitialized,
	})
	if err != nil {
		return nil, apistatus.FromGRPC(err)
	}
	var body bytes.Buffer
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, apistatus.FromGRPC(err)
		}
		body.Write(chunk.GetObject())
	}
	return decodeListOf(r.kind, body.Bytes())
}

func listAccept[T Object](kind Kind[T]) string {
	if isMetadata(kind.New()) {
		return ContentType + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	}
	return contentType(kind)
}

// Create stores a new object and returns it as stored.
func (r Resource[T]) Create(ctx context.Context, obj T) (T, error) {
	var none T
	if err := r.notRemote("create"); err != nil {
		return none, err
	}
	data, err := Encode(r.kind, obj)
	if err != nil {
		return none, err
	}
	ctx, cancel := r.client.write(ctx)
	defer cancel()
	resp, err := r.client.api.Create(ctx, r.createRequest(obj.GetNamespace(), "", "", data))
	if err != nil {
		return none, apistatus.FromGRPC(err)
	}
	return Decode(r.kind, resp.GetObject())
}

// Post sends body to a subresource of the named object (a Binding to
// "binding", a TokenRequest to "token") and decodes the answer into into,
// which may be nil.
func (r Resource[T]) Post(ctx context.Context, namespace, name, subresource string, body, into runtime.Object) error {
	if err := r.notRemote("create"); err != nil {
		return err
	}
	data, err := encodeAny(body)
	if err != nil {
		return err
	}
	ctx, cancel := r.client.write(ctx)
	defer cancel()
	request := r.createRequest(namespace, name, subresource, data)
	request.ContentType, request.Accept = ContentType, ContentType
	resp, err := r.client.api.Create(ctx, request)
	if err != nil {
		return apistatus.FromGRPC(err)
	}
	if into == nil {
		return nil
	}
	_, _, err = codec.Decode(resp.GetObject(), nil, into)
	return err
}

func (r Resource[T]) createRequest(namespace, name, subresource string, data []byte) *apiv1.CreateRequest {
	return &apiv1.CreateRequest{
		Group: r.kind.GVK.Group, Version: r.kind.GVK.Version, Resource: r.kind.Resource,
		Namespace: namespace, Name: name, Subresource: subresource,
		Object: data, ContentType: contentType(r.kind), FieldManager: r.client.manager, Accept: contentType(r.kind),
	}
}

// Update replaces an object; its resourceVersion, where set, must be current.
func (r Resource[T]) Update(ctx context.Context, obj T) (T, error) {
	return r.UpdateSubresource(ctx, "", obj)
}

// UpdateStatus replaces an object's status.
func (r Resource[T]) UpdateStatus(ctx context.Context, obj T) (T, error) {
	return r.UpdateSubresource(ctx, "status", obj)
}

// UpdateSubresource replaces a subresource, as "finalize" of a namespace.
func (r Resource[T]) UpdateSubresource(ctx context.Context, subresource string, obj T) (T, error) {
	var none T
	if err := r.notRemote("update"); err != nil {
		return none, err
	}
	data, err := Encode(r.kind, obj)
	if err != nil {
		return none, err
	}
	ctx, cancel := r.client.write(ctx)
	defer cancel()
	resp, err := r.client.api.Update(ctx, r.updateRequest(obj, subresource, data))
	if err != nil {
		return none, apistatus.FromGRPC(err)
	}
	return Decode(r.kind, resp.GetObject())
}

func (r Resource[T]) updateRequest(obj T, subresource string, data []byte) *apiv1.UpdateRequest {
	return &apiv1.UpdateRequest{
		Group: r.kind.GVK.Group, Version: r.kind.GVK.Version, Resource: r.kind.Resource,
		Namespace: obj.GetNamespace(), Name: obj.GetName(), Subresource: subresource,
		Object: data, ContentType: contentType(r.kind), FieldManager: r.client.manager, Accept: contentType(r.kind),
	}
}

// Patch changes an object, or a subresource of it where one is named.
func (r Resource[T]) Patch(ctx context.Context, namespace, name string, patchType types.PatchType, patch []byte, subresource string) (T, error) {
	ctx, cancel := r.client.write(ctx)
	defer cancel()
	if r.kind.Remote {
		return r.remotePatch(ctx, namespace, name, patchType, patch, subresource)
	}
	resp, err := r.client.api.Patch(ctx, r.patchRequest(namespace, name, patchType, patch, subresource))
	if err != nil {
		var none T
		return none, apistatus.FromGRPC(err)
	}
	return Decode(r.kind, resp.GetObject())
}

// Apply applies a part of an object (server-side apply) as a manager of its own, who takes over what others own of it. The part names
// the object, its kind and its version.
func (r Resource[T]) Apply(ctx context.Context, part T, manager string) (T, error) {
	return r.apply(ctx, part, manager, "")
}

// ApplyStatus is Apply to the status.
func (r Resource[T]) ApplyStatus(ctx context.Context, part T, manager string) (T, error) {
	return r.apply(ctx, part, manager, "status")
}

func (r Resource[T]) apply(ctx context.Context, part T, manager, subresource string) (T, error) {
	var none T
	if err := r.notRemote("apply"); err != nil {
		return none, err
	}
	data, err := json.Marshal(part)
	if err != nil {
		return none, err
	}
	ctx, cancel := r.client.write(ctx)
	defer cancel()
	request := r.patchRequest(part.GetNamespace(), part.GetName(), types.ApplyPatchType, data, subresource)
	request.FieldManager, request.Force = manager, "true"
	resp, err := r.client.api.Patch(ctx, request)
	if err != nil {
		return none, apistatus.FromGRPC(err)
	}
	return Decode(r.kind, resp.GetObject())
}

func (r Resource[T]) patchRequest(namespace, name string, patchType types.PatchType, patch []byte, subresource string) *apiv1.PatchRequest {
	return &apiv1.PatchRequest{
		Group: r.kind.GVK.Group, Version: r.kind.GVK.Version, Resource: r.kind.Resource,
		Namespace: namespace, Name: name, Subresource: subresource,
		Object: patch, ContentType: string(patchType), FieldManager: r.client.manager, Accept: accept(r.kind),
	}
}

// Delete deletes an object, with what options say of grace, preconditions
// and propagation.
func (r Resource[T]) Delete(ctx context.Context, namespace, name string, options metav1.DeleteOptions) error {
	ctx, cancel := r.client.write(ctx)
	defer cancel()
	if r.kind.Remote {
		return r.remoteDelete(ctx, namespace, name, options)
	}
	request, err := r.deleteRequest(namespace, name, options)
	if err != nil {
		return err
	}
	_, err = r.client.api.Delete(ctx, request)
	return apistatus.FromGRPC(err)
}

func (r Resource[T]) deleteRequest(namespace, name string, options metav1.DeleteOptions) (*apiv1.DeleteRequest, error) {
	options.TypeMeta = metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}
	data, err := runtime.Encode(codec, &options)
	if err != nil {
		return nil, err
	}
	return &apiv1.DeleteRequest{
		Group: r.kind.GVK.Group, Version: r.kind.GVK.Version, Resource: r.kind.Resource,
		Namespace: namespace, Name: name, Options: data, ContentType: ContentType, Accept: accept(r.kind), // whose rest is of no use to the caller
	}, nil
}

// AsSeen are the preconditions of a deletion that holds only for the very version of the object that was judged.
func AsSeen(o metav1.Object) *metav1.Preconditions {
	uid, version := o.GetUID(), o.GetResourceVersion()
	return &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
}

// abandoned is the code of a request whose asker left before it was answered.
const abandoned = 499

// Refused says that a write has failed and left nothing behind. One that nobody waited for or answered, or that ended with an error of the server's own,
// may have landed.
func Refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code < abandoned
}
