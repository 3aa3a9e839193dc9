// Package devicetaint says which devices DeviceTaintRules taint, for who gives devices and for who takes them back.
package devicetaint

import (
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"

	"howdah.dev/kit/object"
)

// Rule taints devices from outside their drivers.
type Rule = resourcev1beta2.DeviceTaintRule

// Kind is that of rules. It is off by default, which clients see, and the cluster's own parts do not: there are no rules then.
var Kind = object.Kind[*Rule]{
	GVK: resourcev1beta2.SchemeGroupVersion.WithKind("DeviceTaintRule"), Resource: "devicetaintrules", New: func() *Rule { return &Rule{} },
}

// Selects reports whether a rule is about a device. What its selector does not name may be anything; a rule without one is about none.
func Selects(r *Rule, driver, pool, device string) bool {
	s := r.Spec.DeviceSelector
	return s != nil && is(s.Driver, driver) && is(s.Pool, pool) && is(s.Device, device)
}

func is(wanted *string, is string) bool { return wanted == nil || *wanted == is }

// Of returns the taint of a rule as it would stand in a slice.
func Of(r *Rule) resourcev1.DeviceTaint {
	t := r.Spec.Taint
	return resourcev1.DeviceTaint{Key: t.Key, Value: t.Value, Effect: resourcev1.DeviceTaintEffect(t.Effect), TimeAdded: t.TimeAdded}
}

// Apply returns a slice with the taints of rules added to those of its devices: the slice itself where none is about any of them.
func Apply(s *resourcev1.ResourceSlice, rules []*Rule) *resourcev1.ResourceSlice {
	tainted := s
	for i := range s.Spec.Devices {
		for _, r := range rules {
			if !Selects(r, s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name) {
				continue
			}
			if tainted == s {
				tainted = s.DeepCopy()
			}
			d := &tainted.Spec.Devices[i]
			d.Taints = append(d.Taints, Of(r))
		}
	}
	return tainted
}
