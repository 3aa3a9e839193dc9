package objects

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/audit"
	"howdah.dev/services/apiserver/internal/registry"
)

// received tells the audit log which object was posted, in its version and with its defaults, as Kubernetes does.
func (r *request) received(ctx context.Context, obj registry.Object) {
	if r.subresource != "" && obj.GetObjectKind().GroupVersionKind() != r.res.GVK {
		receivedAs(ctx, obj, obj.GetObjectKind().GroupVersionKind())
		return
	}
	audit.From(ctx).Refer(obj)
	audit.From(ctx).Received(r.res.GVK, func() any {
		whole := obj.DeepCopyObject().(registry.Object)
		r.res.Default(whole)
		return whole
	})
}

// receivedAs tells the audit log what was posted that is of another kind than the resource's.
func receivedAs(ctx context.Context, obj any, gvk schema.GroupVersionKind) {
	if sent, ok := obj.(metav1.Object); ok { // options are none
		audit.From(ctx).Refer(sent)
	}
	audit.From(ctx).Received(gvk, func() any { return obj })
}

// receivedOptions tells the audit log the options in a deletion's body; those of a query are in its URI.
func receivedOptions(ctx context.Context, body []byte, o *metav1.DeleteOptions) {
	if len(body) > 0 {
		receivedAs(ctx, o, schema.GroupVersionKind{Group: metav1.GroupName, Version: "__internal", Kind: "DeleteOptions"})
	}
}
