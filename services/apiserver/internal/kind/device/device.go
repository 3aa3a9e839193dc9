// Package device has the kinds of resource.k8s.io, by which pods claim devices:
// what there is (ResourceSlice), what may be asked for (DeviceClass), and what
// is asked for (ResourceClaim, ResourceClaimTemplate).
package device

import (
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

var gv = resourcev1.SchemeGroupVersion

// Kinds returns the kinds; now is the clock for ages and for the times of taints.
func Kinds(now func() time.Time) []*registry.Kind {
	return []*registry.Kind{class(now), claim(now), template(now), slice(now), taintRule(now), poolStatusRequest(now)}
}

func class(now func() time.Time) *registry.Kind {
	k := row.Of[resourcev1.DeviceClass, resourcev1.DeviceClassList](gv, "deviceclasses")
	row.Spec(k, func(c *resourcev1.DeviceClass) *resourcev1.DeviceClassSpec { return &c.Spec })
	k.PrefixIsFree = true
	k.Validate = typed.Check(validateClass)
	k.Columns, k.Cells = nameAndAge(now)
	return k
}

func claim(now func() time.Time) *registry.Kind {
	k := row.Of[resourcev1.ResourceClaim, resourcev1.ResourceClaimList](gv, "resourceclaims")
	k.Namespaced = true
	row.SpecStatus(k, func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaimSpec { return &c.Spec },
		func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaimStatus { return &c.Status }, validateClaimStatus)
	row.KeepMeta(k)
	prepared := k.Status.PrepareUpdate
	k.Status.PrepareUpdate = func(obj, old registry.Object) {
		prepared(obj, old)
		forget(&obj.(*resourcev1.ResourceClaim).Status, &old.(*resourcev1.ResourceClaim).Status)
	}
	k.Status.Untabled = true
	withoutGeneration(k)
	k.Default = typed.Do(func(c *resourcev1.ResourceClaim) { fillClaim(&c.Spec); fillStatus(&c.Status) })
	k.ValidateIn = validateClaimIn
	k.ValidateCreate = typed.Check(validateClaim) // afterwards it cannot change
	k.ValidateUpdate = typed.CheckChange(validateClaimUpdate)
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("State", "A summary of the current state (allocated, pending, reserved, etc.)."), column.Age(),
	}
	k.Cells = typed.Get(func(c *resourcev1.ResourceClaim) []any {
		return []any{c.Name, state(c), column.Since(now(), c.CreationTimestamp.Time)}
	})
	return k
}

// withoutGeneration takes the count of changes away from a kind whose spec cannot change: it keeps what it was created with.
func withoutGeneration(k *registry.Kind) {
	create := k.PrepareCreate
	k.PrepareCreate = func(obj registry.Object) {
		given := obj.GetGeneration()
		create(obj)
		obj.SetGeneration(given)
	}
}

func state(c *resourcev1.ResourceClaim) string {
	var states []string
	if c.DeletionTimestamp != nil {
		states = append(states, "deleted")
	}
	switch {
	case c.Status.Allocation != nil:
		states = append(states, "allocated")
		if len(c.Status.ReservedFor) > 0 {
			states = append(states, "reserved")
		}
	case c.DeletionTimestamp == nil:
		states = append(states, "pending")
	}
	return strings.Join(states, ",")
}

func template(now func() time.Time) *registry.Kind {
	k := row.Of[resourcev1.ResourceClaimTemplate, resourcev1.ResourceClaimTemplateList](gv, "resourceclaimtemplates")
	k.Namespaced = true
	k.Default = typed.Do(func(t *resourcev1.ResourceClaimTemplate) { fillClaim(&t.Spec.Spec) })
	k.ValidateIn = validateTemplateIn
	k.Validate = typed.Check(validateTemplate)
	k.ValidateUpdate = typed.CheckChange(validateTemplateUpdate)
	k.Columns, k.Cells = nameAndAge(now)
	return k
}

func slice(now func() time.Time) *registry.Kind {
	k := row.Of[resourcev1.ResourceSlice, resourcev1.ResourceSliceList](gv, "resourceslices")
	row.Spec(k, func(s *resourcev1.ResourceSlice) *resourcev1.ResourceSliceSpec { return &s.Spec })
	k.Default = typed.Do(func(s *resourcev1.ResourceSlice) {
		for i := range s.Spec.Devices {
			for n := range s.Spec.Devices[i].Taints {
				if t := &s.Spec.Devices[i].Taints[n]; t.TimeAdded == nil {
					t.TimeAdded = &metav1.Time{Time: now().Truncate(time.Second)}
				}
			}
		}
	})
	counted := k.PrepareUpdate
	k.PrepareCreate = typed.Do(func(s *resourcev1.ResourceSlice) {
		s.Generation = 1
		dropAlpha(s)
	})
	k.PrepareUpdate = func(obj, old registry.Object) {
		counted(obj, old)
		dropAlpha(obj.(*resourcev1.ResourceSlice))
	}
	k.Warnings = typed.Warn(sliceWarnings)
	k.ValidateCreate = typed.Check(validateSlice)
	k.ValidateUpdate = typed.CheckChange(validateSliceUpdate)
	k.SelectableFields = typed.Get(func(s *resourcev1.ResourceSlice) fields.Set {
		return fields.Set{
			resourcev1.ResourceSliceSelectorNodeName: row.Deref(s.Spec.NodeName), resourcev1.ResourceSliceSelectorDriver: s.Spec.Driver,
		}
	})
	doc := resourcev1.ResourceSliceSpec{}.SwaggerDoc()
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("Node", doc["nodeName"]), column.String("Driver", doc["driver"]),
		column.String("Pool", resourcev1.ResourcePool{}.SwaggerDoc()["name"]), column.Age(),
	}
	k.Cells = typed.Get(func(s *resourcev1.ResourceSlice) []any {
		return []any{
			s.Name, row.Deref(s.Spec.NodeName), s.Spec.Driver, s.Spec.Pool.Name,
			column.Since(now(), s.CreationTimestamp.Time),
		}
	})
	return k
}

// dropAlpha drops the fields of features that are off by default.
func dropAlpha(s *resourcev1.ResourceSlice) {
	for i := range s.Spec.Devices {
		d := &s.Spec.Devices[i]
		d.NodeAllocatableResourceMappings = nil
		for name, a := range d.Attributes {
			a.IntValues, a.BoolValues, a.StringValues, a.VersionValues = nil, nil, nil, nil
			d.Attributes[name] = a
		}
	}
}

func nameAndAge(now func() time.Time) ([]metav1.TableColumnDefinition, func(registry.Object) []any) {
	return []metav1.TableColumnDefinition{column.Name(), column.Age()}, func(o registry.Object) []any {
		return []any{o.GetName(), column.Since(now(), o.GetCreationTimestamp().Time)}
	}
}
