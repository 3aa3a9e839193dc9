package objects

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/services/apiserver/internal/registry"
)

// accessor returns the metadata of an object, to be looked at. Those of a custom object are read out of its maps once, and not by every check;
// of its managed fields it has all but the sets of fields, which none looks at.
func accessor(obj registry.Object) metav1.Object {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj
	}
	return &metav1.ObjectMeta{
		Name: u.GetName(), GenerateName: u.GetGenerateName(), Namespace: u.GetNamespace(), SelfLink: u.GetSelfLink(), UID: u.GetUID(),
		ResourceVersion: u.GetResourceVersion(), Generation: u.GetGeneration(), CreationTimestamp: u.GetCreationTimestamp(),
		DeletionTimestamp: u.GetDeletionTimestamp(), DeletionGracePeriodSeconds: u.GetDeletionGracePeriodSeconds(), Labels: u.GetLabels(),
		Annotations: u.GetAnnotations(), OwnerReferences: u.GetOwnerReferences(), Finalizers: u.GetFinalizers(), ManagedFields: managers(u),
	}
}

// managers returns who manages fields, without the fields.
func managers(u *unstructured.Unstructured) []metav1.ManagedFieldsEntry {
	entries, found, err := unstructured.NestedFieldNoCopy(u.Object, "metadata", "managedFields")
	list, ok := entries.([]any)
	if !found || err != nil || !ok {
		return u.GetManagedFields()
	}
	out := make([]metav1.ManagedFieldsEntry, len(list))
	for i := range list {
		entry, ok := list[i].(map[string]any)
		if !ok {
			return u.GetManagedFields()
		}
		for name, value := range entry {
			text, ok := value.(string)
			switch e := &out[i]; name {
			case "manager":
				e.Manager = text
			case "operation":
				e.Operation = metav1.ManagedFieldsOperationType(text)
			case "apiVersion":
				e.APIVersion = text
			case "fieldsType":
				e.FieldsType = text
			case "subresource":
				e.Subresource = text
			case "time":
			case "fieldsV1":
				_, ok = value.(map[string]any)
			default:
				ok = false
			}
			if !ok {
				return u.GetManagedFields()
			}
		}
	}
	return out
}
