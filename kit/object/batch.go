package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/obs"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// MaxBatch is the most writes that one batch carries.
const MaxBatch = 1000

// Item is one write of a batch.
type Item struct {
	item *apiv1.BatchItem
	err  error
	// remote, where set, makes the write: it goes to an extension API server.
	remote func(ctx context.Context) error
}

// Traced says that the item belongs to the trace of ctx, not to the batch's.
func (i Item) Traced(ctx context.Context) Item {
	if i.item != nil {
		i.item.Traceparent = obs.Traceparent(ctx)
	}
	return i
}

// CreateItem creates obj.
func (r Resource[T]) CreateItem(obj T) Item {
	data, err := Encode(r.kind, obj)
	return Item{item: createItem(r.createRequest(obj.GetNamespace(), "", "", data)), err: cmp.Or(r.notRemote("create"), err)}
}

// PostItem sends body to a subresource of the named object.
func (r Resource[T]) PostItem(namespace, name, subresource string, body runtime.Object) Item {
	data, err := encodeAny(body)
	return Item{item: createItem(r.createRequest(namespace, name, subresource, data)), err: cmp.Or(r.notRemote("create"), err)}
}

func createItem(request *apiv1.CreateRequest) *apiv1.BatchItem {
	return &apiv1.BatchItem{Write: &apiv1.BatchItem_Create{Create: request}}
}

// UpdateItem replaces an object or a subresource of it.
func (r Resource[T]) UpdateItem(obj T, subresource string) Item {
	data, err := Encode(r.kind, obj)
	return Item{item: &apiv1.BatchItem{Write: &apiv1.BatchItem_Update{Update: r.updateRequest(obj, subresource, data)}}, err: cmp.Or(r.notRemote("update"), err)}
}

// PatchItem patches an object or a subresource of it.
func (r Resource[T]) PatchItem(namespace, name string, patchType types.PatchType, patch []byte, subresource string) Item {
	if r.kind.Remote {
		return Item{remote: func(ctx context.Context) error {
			_, err := r.Patch(ctx, namespace, name, patchType, patch, subresource)
			return err
		}}
	}
	return Item{item: &apiv1.BatchItem{Write: &apiv1.BatchItem_Patch{Patch: r.patchRequest(namespace, name, patchType, patch, subresource)}}}
}

// DeleteItem deletes an object.
func (r Resource[T]) DeleteItem(namespace, name string, options metav1.DeleteOptions) Item {
	if r.kind.Remote {
		return Item{remote: func(ctx context.Context) error { return r.Delete(ctx, namespace, name, options) }}
	}
	request, err := r.deleteRequest(namespace, name, options)
	return Item{item: &apiv1.BatchItem{Write: &apiv1.BatchItem_Delete{Delete: request}}, err: err}
}

// Result is the outcome of one item: the encoded object, or an error.
type Result struct {
	Object []byte
	Err    error
}

// Batch sends the items in calls of at most MaxBatch writes and returns an
// outcome an item, in order. The error is that of a call that failed whole;
// the outcome of its items is then unknown. An atomic batch must fit one call.
// Writes of what extension API servers keep are made one by one, after the
// others of their call, and are given no object; no atomic batch may have them.
func (c *Client) Batch(ctx context.Context, items []Item, atomic bool) ([]Result, error) {
	if atomic && len(items) > MaxBatch {
		return nil, fmt.Errorf("an atomic batch has at most %d items, this one has %d", MaxBatch, len(items))
	}
	results := make([]Result, 0, len(items))
	for start := 0; start < len(items); start += MaxBatch {
		part, err := c.batch(ctx, items[start:min(start+MaxBatch, len(items))], atomic)
		if err != nil {
			return results, err
		}
		results = append(results, part...)
	}
	return results, nil
}

func (c *Client) batch(ctx context.Context, items []Item, atomic bool) ([]Result, error) {
	request := &apiv1.BatchRequest{Atomic: atomic, Items: make([]*apiv1.BatchItem, 0, len(items))}
	places := make([]int, 0, len(items))
	for i, item := range items {
		switch {
		case item.err != nil:
			return nil, item.err
		case item.remote != nil && atomic:
			return nil, errors.New("an atomic batch cannot have writes of what an extension API server keeps")
		case item.remote == nil:
			request.Items, places = append(request.Items, item.item), append(places, i)
		}
	}
	results := make([]Result, len(items))
	if len(places) > 0 {
		own, err := c.send(ctx, request)
		if err != nil {
			return nil, err
		}
		for n, i := range places {
			results[i] = own[n]
		}
	}
	if len(places) < len(items) {
		c.apart(ctx, items, results)
	}
	return results, nil
}

func (c *Client) send(ctx context.Context, request *apiv1.BatchRequest) ([]Result, error) {
	ctx, cancel := c.write(ctx)
	defer cancel()
	resp, err := c.api.Batch(ctx, request)
	if err != nil {
		return nil, apistatus.FromGRPC(err)
	}
	if len(resp.GetResults()) != len(request.GetItems()) {
		return nil, fmt.Errorf("batch of %d writes was answered with %d results", len(request.GetItems()), len(resp.GetResults()))
	}
	results := make([]Result, len(request.GetItems()))
	for i, r := range resp.GetResults() {
		if r.GetCode() < 400 {
			results[i] = Result{Object: r.GetObject()}
			continue
		}
		status, err := decodeStatus(false, r.GetObject())
		if err != nil {
			results[i] = Result{Err: fmt.Errorf("batch item failed with code %d: %w", r.GetCode(), err)}
			continue
		}
		results[i] = Result{Err: &apierrors.StatusError{ErrStatus: *status}}
	}
	return results, nil
}
