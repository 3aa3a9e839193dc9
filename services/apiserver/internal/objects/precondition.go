package objects

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// precondition compares what the new state says of its identity with the present one's.
func (u *update) precondition(ctx context.Context, item *codec.Item, old, obj registry.Object) error {
	r := u.r
	if uid := obj.GetUID(); uid != "" && uid != old.GetUID() && !u.patches {
		if err := u.latest(ctx, item); err != nil {
			return err
		}
		return otherUID(r, uid, old.GetUID(), u.opts.dryRun)
	}
	revision, err := revisionOf(obj)
	if err != nil {
		return err
	}
	if revision == 0 {
		if r.res.Kind.NeedsRevision {
			problem := field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")
			return apierrors.NewInvalid(schema.GroupKind{Group: r.res.GVR.Group, Kind: r.res.GVR.Resource}, r.name, field.ErrorList{problem})
		}
		return nil
	}
	if revision != uint64(item.Revision) {
		if err := u.latest(ctx, item); err != nil {
			return err
		}
		return modified(r.res.GroupResource(), r.name)
	}
	return nil
}

// revisionOf reads the resourceVersion that a write says it is based on; 0: none.
func revisionOf(obj registry.Object) (uint64, error) {
	text := obj.GetResourceVersion()
	if text == "" {
		return 0, nil
	}
	revision, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, plain(err)
	}
	return revision, nil
}

// otherUID is the 409 of an update that is meant for another object of the name than the one that is there.
func otherUID(r *request, want, is types.UID, dryRun bool) error {
	key := registryKey(r.res.Kind, r.namespace, r.name)
	if !dryRun {
		key = "/registry" + key
	}
	return apierrors.NewConflict(r.res.GroupResource(), r.name, fmt.Errorf("StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, "+
		"AdditionalErrorMsg: Precondition failed: UID in precondition: %v, UID in object meta: %v", key, want, is))
}

// registryKey is where Kubernetes would keep an object.
func registryKey(kind *registry.Kind, namespace, name string) string {
	key := "/" + kind.Resource
	switch kind.GVK.GroupKind() {
	case schema.GroupKind{Kind: "Node"}:
		key = "/minions"
	case schema.GroupKind{Kind: "Service"}:
		key = "/services/specs"
	case schema.GroupKind{Kind: "Endpoints"}:
		key = "/services/endpoints"
	case schema.GroupKind{Kind: "ReplicationController"}:
		key = "/controllers"
	case schema.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"}:
		key = "/ingress"
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}, schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		key = "/" + kind.GVK.Group + key
	default:
		if kind.Custom != nil {
			key = "/" + kind.GVK.Group + key
		}
	}
	if kind.Namespaced {
		key += "/" + namespace
	}
	return key + "/" + name
}

// latest returns an error that makes the plan be made again where the item is not the newest one any more: what
// it contradicts may agree with the newest.
func (u *update) latest(ctx context.Context, item *codec.Item) error {
	if err := u.s.Cache.Fresh(ctx); err != nil {
		return storeError(err, u.r.res.GroupResource(), u.r.name, u.r.verb)
	}
	if now := u.s.Cache.For(u.r.res.Kind).Get(item.Key); now == nil || now.Revision != item.Revision {
		return errStale
	}
	return nil
}
