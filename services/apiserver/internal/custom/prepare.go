package custom

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/services/apiserver/internal/plain"
	"howdah.dev/services/apiserver/internal/registry"
)

// content is the map of a custom object.
func content(obj registry.Object) map[string]any {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object
	}
	return nil
}

func (v *version) prepareCreate(obj registry.Object) {
	if v.status {
		delete(content(obj), "status")
	}
	obj.SetGeneration(1)
}

// prepareUpdate keeps the status where it has a subresource, and counts every change outside of metadata.
func (v *version) prepareUpdate(obj, old registry.Object) {
	now, before := content(obj), content(old)
	if v.status {
		if status, ok := before["status"]; ok {
			now["status"] = status
		} else {
			delete(now, "status")
		}
	}
	obj.SetGeneration(old.GetGeneration())
	if changed(now, before) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
}

func changed(now, before map[string]any) bool {
	for name, value := range now {
		if name != "metadata" && !plain.Equal(value, before[name]) && !equality.Semantic.DeepEqual(value, before[name]) {
			return true
		}
	}
	for name := range before {
		if _, kept := now[name]; !kept && name != "metadata" {
			return true
		}
	}
	return false
}

// prepareStatus takes the status, and who manages which of its fields, and leaves all else as it was.
func prepareStatus(obj, old registry.Object) {
	u, ok := obj.(*unstructured.Unstructured)
	was, ok2 := old.(*unstructured.Unstructured)
	if !ok || !ok2 {
		return
	}
	status, has := u.Object["status"]
	metadata, _ := u.Object["metadata"].(map[string]any)
	managed, tracked := metadata["managedFields"]
	u.Object = maps.Clone(was.Object) // what is below is shared, and not to be changed
	if metadata, _ = was.Object["metadata"].(map[string]any); metadata != nil {
		metadata = maps.Clone(metadata)
		u.Object["metadata"] = metadata
		delete(metadata, "managedFields")
		if tracked {
			metadata["managedFields"] = managed
		}
	}
	if has {
		u.Object["status"] = status
	} else {
		delete(u.Object, "status")
	}
}

// finalizers are warnings about those that another writer might use too.
func finalizers(obj, old registry.Object) []string {
	added := slices.Clone(obj.GetFinalizers())
	if old != nil {
		before := old.GetFinalizers()
		added = slices.DeleteFunc(added, func(f string) bool { return slices.Contains(before, f) })
	}
	slices.Sort(added)
	var texts []string
	for _, f := range slices.Compact(added) {
		texts = append(texts, finalizerWarnings(f)...)
	}
	return texts
}
