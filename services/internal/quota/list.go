// Package quota says what objects consume of resource quotas, and which quotas count them. All of it is pure: the apiserver
// counts writes with it, and the controller everything anew.
package quota

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// List is short for quantities by name.
type List = corev1.ResourceList

// Add returns the sums of both lists.
func Add(a, b List) List {
	sum := a.DeepCopy()
	if sum == nil {
		sum = List{}
	}
	for name, q := range b {
		total := sum[name]
		total.Add(q)
		sum[name] = total
	}
	return sum
}

// Delta returns what now is more than before, by name, without what stayed; it may be negative.
func Delta(now, before List) List {
	d := now.DeepCopy()
	if d == nil {
		d = List{}
	}
	for name, q := range before {
		left := d[name]
		left.Sub(q)
		d[name] = left
	}
	maps.DeleteFunc(d, func(name corev1.ResourceName, _ resourceQuantity) bool { q := d[name]; return q.IsZero() })
	return d
}

// Mask returns the part of a list that hard limits.
func Mask(l, hard List) List {
	out := List{}
	for name, q := range l {
		if _, ok := hard[name]; ok {
			out[name] = q.DeepCopy()
		}
	}
	return out
}

// Names returns the names of a list, sorted.
func Names(l List) []corev1.ResourceName { return slices.Sorted(maps.Keys(l)) }

// Format writes a list as refusals show it: "cpu=1,memory=2Gi".
func Format(l List) string {
	var parts []string
	for _, name := range Names(l) {
		q := l[name]
		parts = append(parts, string(name)+"="+q.String())
	}
	return strings.Join(parts, ",")
}

// Equal reports whether both lists say the same.
func Equal(a, b List) bool {
	return maps.EqualFunc(a, b, func(x, y resourceQuantity) bool { return x.Cmp(y) == 0 })
}
