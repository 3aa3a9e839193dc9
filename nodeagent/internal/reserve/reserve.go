// Package reserve says what of a machine is not for pods: what its own programs and those of the cluster need, by a kubelet's options
// (https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/).
package reserve

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// PIDs is the name of numbers of processes, which no API has as a resource.
const PIDs corev1.ResourceName = "pid"

// names are what can be reserved.
var names = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, PIDs}

// What is enforced: Pods, all of them together get no more than what is for them; None, nothing.
const (
	Pods = "pods"
	None = "none"
)

// Options are a kubelet's: amounts by resource, and what of them is enforced.
type Options struct {
	// Kube is for the programs of the cluster, System for those of the machine.
	Kube, System map[string]string
	// Enforce is Pods, which it is where it is nil, or None or empty.
	Enforce []string
}

// Validate says what is wrong with them.
func (o Options) Validate() error {
	_, err1 := parse("kube-reserved", o.Kube)
	_, err2 := parse("system-reserved", o.System)
	problems := []error{err1, err2}
	for _, what := range o.Enforce {
		if what != Pods && (what != None || len(o.Enforce) > 1) {
			problems = append(problems, fmt.Errorf("enforce node allocatable: %q is not there: it is %s, or %s alone", what, Pods, None))
		}
	}
	return errors.Join(problems...)
}

// Enforced says whether all pods together get no more than what is for them.
func (o Options) Enforced() bool { return o.Enforce == nil || slices.Contains(o.Enforce, Pods) }

// Enforcing is what is enforced, as it is told.
func (o Options) Enforcing() []string {
	if o.Enforced() {
		return []string{Pods}
	}
	return []string{None}
}

// Total is what both reserve together. The options are valid.
func (o Options) Total() corev1.ResourceList {
	out, _ := parse("kube-reserved", o.Kube)
	system, _ := parse("system-reserved", o.System)
	for name, q := range system {
		sum := out[name]
		sum.Add(q)
		out[name] = sum
	}
	return out
}

func parse(option string, amounts map[string]string) (corev1.ResourceList, error) {
	out := corev1.ResourceList{}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		if !slices.Contains(names, corev1.ResourceName(name)) {
			problems = append(problems, fmt.Errorf("%s: %q cannot be reserved, only %v", option, name, names))
			continue
		}
		q, err := resource.ParseQuantity(amounts[name])
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: %s=%q: %w", option, name, amounts[name], err))
		case q.Sign() < 0:
			problems = append(problems, fmt.Errorf("%s: %s=%s is negative", option, name, amounts[name]))
		default:
			out[corev1.ResourceName(name)] = q
		}
	}
	return out, errors.Join(problems...)
}

// Left is what of an amount is not reserved, and never less than nothing.
func Left(whole resource.Quantity, reserved ...resource.Quantity) resource.Quantity {
	left := whole.DeepCopy()
	for _, q := range reserved {
		left.Sub(q)
	}
	if left.Sign() < 0 {
		left.Set(0)
	}
	return left
}
