package quota

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Known is what has to be known beside a claim to say what it consumes of extended resources. The zero Known knows of none.
type Known struct {
	// Classes are all DeviceClasses: they may give their devices the name of an extended resource.
	Classes []*resourcev1.DeviceClass
	// Pod returns a pod of the claim's namespace, nil where there is none.
	Pod func(name string) *corev1.Pod
	// Claims returns the claims of its namespace.
	Claims func() []*resourcev1.ResourceClaim
}

// allDevices is what a claim to all devices counts as: the most that one can get.
const allDevices = 32

func deviceUsage(c *resourcev1.ResourceClaim, used List, now time.Time, known Known) {
	total := map[string]int64{}
	for _, r := range c.Spec.Devices.Requests {
		if r.Exactly != nil {
			total[r.Exactly.DeviceClassName] += devicesOf(r.Exactly.AllocationMode, r.Exactly.Count)
		}
		worst := map[string]int64{}
		for _, sub := range r.FirstAvailable {
			worst[sub.DeviceClassName] = max(worst[sub.DeviceClassName], devicesOf(sub.AllocationMode, sub.Count))
		}
		for class, n := range worst {
			total[class] += n
		}
	}
	extended := map[corev1.ResourceName]int64{}
	for class, n := range total {
		used[corev1.ResourceName(class+".deviceclass.resource.k8s.io/devices")] = *resource.NewQuantity(n, resource.DecimalSI)
		for _, name := range known.names(class) {
			extended[corev1.DefaultResourceRequestsPrefix+name] += n
		}
	}
	if len(extended) == 0 {
		return
	}
	counted := known.countedForPod(c, now)
	for name, n := range extended {
		rest := resource.NewQuantity(n, resource.DecimalSI)
		if rest.Sub(counted[name]); rest.Sign() > 0 {
			used[name] = *rest
		}
	}
}

func devicesOf(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	if mode == resourcev1.DeviceAllocationModeAll {
		return allDevices
	}
	return count
}

// names are those under which pods may ask for the devices of a class that gives them one of its own.
func (k Known) names(class string) []corev1.ResourceName {
	for _, c := range k.Classes {
		if c.Name == class && c.Spec.ExtendedResourceName != nil && *c.Spec.ExtendedResourceName != "" {
			return []corev1.ResourceName{corev1.ResourceName(*c.Spec.ExtendedResourceName), corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + class)}
		}
	}
	return nil
}

// countedForPod is what counts already for the pod that has a claim for its extended resources; nil where the claim is none such.
func (k Known) countedForPod(c *resourcev1.ResourceClaim, now time.Time) List {
	owner := metav1.GetControllerOfNoCopy(c)
	if c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" || owner == nil || owner.Kind != "Pod" || owner.APIVersion != "v1" || k.Pod == nil {
		return nil
	}
	pod := k.Pod(owner.Name)
	if pod == nil || pod.UID != owner.UID || Ended(pod, now) {
		return nil
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil && status.ResourceClaimName != c.Name {
		return nil
	}
	// Anybody may make such claims: until the pod says which is its own, only the first is believed.
	if pod.Status.ExtendedResourceClaimStatus == nil && k.Claims != nil {
		for _, other := range k.Claims() {
			if o := metav1.GetControllerOfNoCopy(other); o == nil || o.UID != pod.UID || other.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" {
				continue
			}
			if age := other.CreationTimestamp.Compare(c.CreationTimestamp.Time); age < 0 || age == 0 && strings.Compare(other.Name, c.Name) < 0 {
				return nil
			}
		}
	}
	used := List{}
	podUsage(pod, used)
	return used
}
