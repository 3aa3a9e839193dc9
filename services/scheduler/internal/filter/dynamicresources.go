package filter

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/device"
)

// DynamicResources refuses nodes that do not reach the devices of the pod's claims, or that have none for a claim without devices or for extended
// resources that a DeviceClass names.
// The search on a node takes no longer than patience; 0 is no bound.
func DynamicResources(patience time.Duration) Filter {
	return Filter{
		Name: "DynamicResources",
		Ahead: func(pod *corev1.Pod, snapshot cluster.Snapshot) string {
			if !snapshot.Devices.Uses(pod) {
				return ""
			}
			return snapshot.Devices.Refusal(pod)
		},
		Prepare: func(pod *corev1.Pod, snapshot cluster.Snapshot) Check {
			if !snapshot.Devices.Uses(pod) {
				return nil
			}
			if why := snapshot.Devices.Refusal(pod); why != "" {
				return Everywhere(why)
			}
			wants := device.WantsOf(pod, snapshot.Devices, patience)
			if wants.Nothing() {
				return nil
			}
			return devices{wants}
		},
	}
}

// devices is the check of a pod that claims some.
type devices struct{ wants *device.Wants }

func (d devices) Check(n *cluster.Node) bool       { return d.wants.On(n.Object) == "" }
func (d devices) Explain(n *cluster.Node) []string { return []string{d.wants.On(n.Object)} }
func (d devices) Resolvable(_ *cluster.Node) bool  { return false }

// Fault implements Faulter.
func (d devices) Fault() string { return d.wants.Fault() }

// Choose implements Chooser.
func (d devices) Choose(n *cluster.Node, choice *Choice) (err error) {
	choice.Devices, err = d.wants.Choose(n.Object)
	return err
}

// Release implements Releaser.
func (d devices) Release() *resourcev1.ResourceClaim { return d.wants.Release() }
