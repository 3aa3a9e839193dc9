package memory

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ParseReserved reads NODE:KIND=SIZE[,KIND=SIZE][;NODE:…], as --reserved-memory has it.
func ParseReserved(lists []string) (Reserved, error) {
	out := Reserved{}
	for _, list := range lists {
		for item := range strings.SplitSeq(list, ";") {
			node, sizes, ok := strings.Cut(item, ":")
			id, err := strconv.Atoi(strings.TrimSpace(node))
			if !ok || err != nil || id < 0 {
				return nil, fmt.Errorf("reserved memory %q is not NODE:KIND=SIZE", item)
			}
			if out[id] != nil {
				return nil, fmt.Errorf("reserved memory: NUMA node %d is named twice", id)
			}
			out[id] = map[corev1.ResourceName]int64{}
			for size := range strings.SplitSeq(sizes, ",") {
				kind, text, _ := strings.Cut(size, "=")
				name := corev1.ResourceName(strings.TrimSpace(kind))
				q, err := resource.ParseQuantity(strings.TrimSpace(text))
				if err != nil || q.Sign() <= 0 || name != corev1.ResourceMemory && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
					return nil, fmt.Errorf("reserved memory %q is not NODE:KIND=SIZE", item)
				}
				if _, twice := out[id][name]; twice {
					return nil, fmt.Errorf("reserved memory: %s of NUMA node %d is named twice", name, id)
				}
				out[id][name] = q.Value()
			}
		}
	}
	return out, nil
}

// Check refuses what is reserved of nodes that are not there, and a sum that is not what pods may not use of the node as a whole.
func (r Reserved) Check(nodes interface{ Has(int) bool }, kept int64) error {
	var sum int64
	for node, kinds := range r {
		if !nodes.Has(node) {
			return fmt.Errorf("reserved memory: there is no NUMA node %d", node)
		}
		sum += kinds[corev1.ResourceMemory]
	}
	if sum != kept {
		return fmt.Errorf("the total amount %q of type %q is not equal to the value %q determined by Node Allocatable feature",
			resource.NewQuantity(sum, resource.BinarySI), corev1.ResourceMemory, resource.NewQuantity(kept, resource.BinarySI))
	}
	return nil
}
