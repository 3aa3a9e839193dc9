package devicetainteviction

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"howdah.dev/kit/object"
	"howdah.dev/services/internal/devicetaint"
)

// Indexes of claims and slices.
const (
	// byUser files a claim under the uids of the pods that use it.
	byUser = "claims by user"
	// byPool files a claim under the pools of its devices, and a slice under its own.
	byPool = "by pool"
)

// view is what the caches have of devices and who uses them.
type view struct {
	pods   *object.Informer[*corev1.Pod]
	claims *object.Informer[*resourcev1.ResourceClaim]
	slices *object.Informer[*resourcev1.ResourceSlice]
	rules  *object.Informer[*devicetaint.Rule]
}

// pool is the key of a pool. A driver's name has no slash.
func pool(driver, name string) string { return driver + "/" + name }

func usersOf(o any) ([]string, error) {
	var uids []string
	for _, r := range o.(*resourcev1.ResourceClaim).Status.ReservedFor {
		if isPod(r) {
			uids = append(uids, string(r.UID))
		}
	}
	return uids, nil
}

func poolsOf(o any) ([]string, error) {
	a := o.(*resourcev1.ResourceClaim).Status.Allocation
	if a == nil {
		return nil, nil
	}
	pools := sets.New[string]()
	for _, d := range a.Devices.Results {
		pools.Insert(pool(d.Driver, d.Pool))
	}
	return pools.UnsortedList(), nil
}

func poolOf(o any) ([]string, error) {
	s := o.(*resourcev1.ResourceSlice)
	return []string{pool(s.Spec.Driver, s.Spec.Pool.Name)}, nil
}

// newest returns the slices of a pool that count: those of its newest generation.
func (v *view) newest(key string) []*resourcev1.ResourceSlice {
	all := v.slices.ByIndex(byPool, key)
	var newest int64
	for i, s := range all {
		if i == 0 || s.Spec.Pool.Generation > newest {
			newest = s.Spec.Pool.Generation
		}
	}
	return slices.DeleteFunc(all, func(s *resourcev1.ResourceSlice) bool { return s.Spec.Pool.Generation != newest })
}

// taints returns what ends pods as of now. as, where not nil, is a rule that is taken for one that does.
func (v *view) taints(as *devicetaint.Rule) Taints {
	rules := slices.DeleteFunc(v.rules.List(""), func(r *devicetaint.Rule) bool { return !evicts(r) && (as == nil || r.UID != as.UID) })
	return func(driver, of, device string) []Taint {
		var taints []Taint
		for _, s := range v.newest(pool(driver, of)) {
			for _, d := range s.Spec.Devices {
				for _, t := range d.Taints {
					if d.Name == device && t.Effect == resourcev1.DeviceTaintEffectNoExecute {
						taints = append(taints, Taint{DeviceTaint: t})
					}
				}
			}
		}
		for _, r := range rules {
			if devicetaint.Selects(r, driver, of, device) {
				t := devicetaint.Of(r)
				t.Effect = resourcev1.DeviceTaintEffectNoExecute
				taints = append(taints, Taint{DeviceTaint: t, Rule: r})
			}
		}
		return taints
	}
}

func evicts(r *devicetaint.Rule) bool {
	return devicetaint.Of(r).Effect == resourcev1.DeviceTaintEffectNoExecute
}

// tainted reports whether a slice has a device that ends pods.
func tainted(s *resourcev1.ResourceSlice) bool {
	return slices.ContainsFunc(s.Spec.Devices, func(d resourcev1.Device) bool {
		return slices.ContainsFunc(d.Taints, func(t resourcev1.DeviceTaint) bool { return t.Effect == resourcev1.DeviceTaintEffectNoExecute })
	})
}

// users returns the pods for which a claim is reserved.
func (v *view) users(claim *resourcev1.ResourceClaim) []*corev1.Pod {
	var users []*corev1.Pod
	for _, r := range claim.Status.ReservedFor {
		if p, ok := v.pods.Get(claim.Namespace, r.Name); ok && isPod(r) && p.UID == r.UID {
			users = append(users, p)
		}
	}
	return users
}

// selected returns the claims that have devices which a rule is about, and how many devices these are.
func (v *view) selected(r *devicetaint.Rule) (claims []*resourcev1.ResourceClaim, devices int) {
	for _, claim := range v.claims.List("") {
		if claim.Status.Allocation == nil {
			continue
		}
		before := devices
		for _, d := range claim.Status.Allocation.Devices.Results {
			if devicetaint.Selects(r, d.Driver, d.Pool, d.Device) {
				devices++
			}
		}
		if devices > before {
			claims = append(claims, claim)
		}
	}
	return claims, devices
}

// published counts the devices in slices which a rule is about.
func (v *view) published(r *devicetaint.Rule) (devices int) {
	pools := sets.New[string]()
	for _, s := range v.slices.List("") {
		pools.Insert(pool(s.Spec.Driver, s.Spec.Pool.Name))
	}
	for key := range pools {
		for _, s := range v.newest(key) {
			for _, d := range s.Spec.Devices {
				if devicetaint.Selects(r, s.Spec.Driver, s.Spec.Pool.Name, d.Name) {
					devices++
				}
			}
		}
	}
	return devices
}
