package carry

import (
	"encoding/json"
	"reflect"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/services/federation/api"
)

// Ours reports whether the federation made, or took over, what is in a member.
func Ours(live *unstructured.Unstructured, federation string) bool {
	return live.GetLabels()[api.ManagedLabel] == "true" && live.GetAnnotations()[api.FederationAnnotation] == federation
}

// Generation is that of the template which an object in a member was made of.
func Generation(live *unstructured.Unstructured) int64 {
	n, err := strconv.ParseInt(live.GetAnnotations()[api.GenerationAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Settled reports whether what is in the member is all that is wanted: it was made of the same, and nobody has changed it since.
func Settled(live, wanted *unstructured.Unstructured) bool {
	return live.GetAnnotations()[api.HashAnnotation] == wanted.GetAnnotations()[api.HashAnnotation] && within(wanted.Object, live.Object)
}

// within reports whether all that wanted says is so in live. Lists have to be as long.
func within(wanted, live any) bool {
	switch w := wanted.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok {
			return len(w) == 0 && live == nil // an empty object may be left out
		}
		for key, value := range w {
			if value != nil && !within(value, l[key]) {
				return false
			}
		}
		return true
	case []any:
		l, ok := live.([]any)
		if !ok {
			return len(w) == 0 && live == nil
		}
		if len(w) != len(l) {
			return false
		}
		for i := range w {
			if !within(w[i], l[i]) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(wanted, live)
	}
}

// scaler is the field manager of a cluster's autoscaler, which writes the subresource scale.
const scaler = "kube-controller-manager"

// ScaledThere reports whether an autoscaler of the member owns the replicas of an object in it.
func ScaledThere(live *unstructured.Unstructured) bool {
	for _, m := range live.GetManagedFields() {
		if m.Manager != scaler || m.Subresource != "scale" || m.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Spec struct {
				Replicas *struct{} `json:"f:replicas"`
			} `json:"f:spec"`
		}
		if json.Unmarshal(m.FieldsV1.Raw, &fields) == nil && fields.Spec.Replicas != nil {
			return true
		}
	}
	return false
}

// KeepReplicas gives wanted the replicas that the object in the member has, which somebody there decides, on condition that it is not changed in between.
func KeepReplicas(wanted, live *unstructured.Unstructured) error {
	n, found, err := unstructured.NestedInt64(live.Object, "spec", "replicas")
	if err != nil || !found {
		return err
	}
	wanted.SetResourceVersion(live.GetResourceVersion())
	return unstructured.SetNestedField(wanted.Object, n, "spec", "replicas")
}

// Namespace is a namespace as the federation makes it where it is needed. Nothing of it is changed later.
func Namespace(name, federation string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	o.SetName(name)
	o.SetLabels(map[string]string{api.ManagedLabel: "true"})
	o.SetAnnotations(map[string]string{api.FederationAnnotation: federation, api.MadeAnnotation: "true"})
	return o
}

// MadeAsNeeded reports whether a namespace was.
func MadeAsNeeded(live metav1.Object) bool {
	return live.GetAnnotations()[api.MadeAnnotation] == "true"
}
