package device

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Timeout bounds how long a pod waits on its node for its devices to be ready where nothing else is said, as bindingTimeout does in Kubernetes.
const Timeout = 10 * time.Minute

// Why the devices of a pod will not be ready.
var (
	ErrTimeout = errors.New("device binding timeout")
	ErrFailed  = errors.New("device binding failed")
)

// Ready reports whether the devices of a pod's claims are ready for it: what their conditions for binding ask for is told of them. An error says that
// they will not be: one is that they were allocated as long ago as timeout.
func (v View) Ready(pod *corev1.Pod, now time.Time, timeout time.Duration) (bool, error) {
	claims, err := v.all(pod)
	if err != nil {
		return false, err
	}
	all := true
	for _, c := range claims {
		ready, err := ready(c.ResourceClaim)
		if err != nil {
			return false, err
		}
		if !ready && c.Status.Allocation != nil && c.Status.Allocation.AllocationTimestamp != nil && !c.Status.Allocation.AllocationTimestamp.Add(timeout).After(now) {
			return false, fmt.Errorf("%w: claim=%s", ErrTimeout, c.Name)
		}
		all = all && ready
	}
	return all, nil
}

// ready reports whether the devices of one claim are.
func ready(c *resourcev1.ResourceClaim) (bool, error) {
	if c.Status.Allocation == nil {
		return false, nil
	}
	all := true
	for _, r := range c.Status.Allocation.Devices.Results {
		if len(r.BindingConditions) == 0 {
			continue
		}
		i := slices.IndexFunc(c.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
			return d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device
		})
		if i < 0 {
			all = false
			continue
		}
		told := c.Status.Devices[i].Conditions
		for _, name := range r.BindingFailureConditions {
			if f := meta.FindStatusCondition(told, name); meta.IsStatusConditionTrue(told, name) {
				return false, fmt.Errorf("%w: claim=%s, reason=%s, message=%q", ErrFailed, c.Name, f.Reason, f.Message)
			}
		}
		for _, name := range r.BindingConditions {
			all = all && meta.IsStatusConditionTrue(told, name)
		}
	}
	return all, nil
}

// Conditional returns the driver of each device of a pod's claims that has conditions for binding.
func (v View) Conditional(pod *corev1.Pod) []string {
	claims, err := v.all(pod)
	if err != nil {
		return nil
	}
	var drivers []string
	for _, c := range claims {
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			if len(r.BindingConditions) > 0 {
				drivers = append(drivers, r.Driver)
			}
		}
	}
	return drivers
}

// failed reports whether the devices of a claim will not be ready.
func failed(c *resourcev1.ResourceClaim) bool {
	_, err := ready(c)
	return err != nil
}

// Useless returns a claim of a pod whose devices are not ready for it and that nobody else uses, nil where there is none: it had better have others.
func (v View) Useless(pod *corev1.Pod) *resourcev1.ResourceClaim {
	claims, err := v.all(pod)
	if err != nil {
		return nil
	}
	for _, c := range claims {
		if ok, _ := ready(c.ResourceClaim); !ok && c.Status.Allocation != nil && onlyFor(c.ResourceClaim, pod) {
			return c.ResourceClaim
		}
	}
	return nil
}

// onlyFor reports whether nobody but a pod uses a claim.
func onlyFor(c *resourcev1.ResourceClaim, pod *corev1.Pod) bool {
	users := c.Status.ReservedFor
	return len(users) == 0 || len(users) == 1 && users[0].UID == pod.UID
}
