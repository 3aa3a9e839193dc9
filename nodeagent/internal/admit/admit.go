// Package admit decides, without any effect, whether the node takes a pod of which nothing was made yet. The scheduler looks for a node that does; who
// names the node in the specification passes the scheduler by, and what it saw may have changed. A refusal is for good: the pod has failed, and its owner
// makes another. Order, reasons and messages are those of the kubelet of Kubernetes 1.36.
package admit

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/pod"
)

// Site is what a pod is to run on.
type Site struct {
	Node *corev1.Node
	// Others are the pods that have their place on the node.
	Others []*corev1.Pod
	// Sysctls are those that pods may set.
	Sysctls Sysctls
	// AppArmor says whether the kernel enforces its profiles.
	AppArmor bool
	// Down says that the machine is about to go down.
	Down bool
}

// refusal is why a pod is not taken.
type refusal struct{ reason, message string }

// check tells why it refuses the pod, nil where it does not.
type check func(p *corev1.Pod, s Site) *refusal

// Checks are asked in this order, and between early and late ones whether there are the resources; the first that refuses is told.
var (
	early = []check{pressure, sysctls, operatingSystem, groups}
	late  = []check{affinity, name, ports, taints, appArmor, shutdown}
)

// Early returns why the node does not take the pod whatever there is for it, nil where it may.
func Early(p *corev1.Pod, s Site) *pod.Failure { return failure(p, s, early) }

// Late returns why the node does not take the pod, once it has the devices and the like that it is to have for itself; nil where it does.
func Late(p *corev1.Pod, s Site) *pod.Failure { return failure(p, s, []check{resources}, late) }

func failure(p *corev1.Pod, s Site, lists ...[]check) *pod.Failure {
	for _, checks := range lists {
		if r := refused(p, s, checks); r != nil {
			return &pod.Failure{Reason: r.reason, Message: r.message, Rejected: true}
		}
	}
	return nil
}

func refused(p *corev1.Pod, s Site, checks []check) *refusal {
	for _, check := range checks {
		if r := check(p, s); r != nil {
			return r
		}
	}
	return nil
}

// predicate is a refusal by a rule that the scheduler has as well.
func predicate(name, description string) *refusal {
	return &refusal{name, "Predicate " + name + " failed: " + description}
}
