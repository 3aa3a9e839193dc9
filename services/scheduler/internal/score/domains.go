package score

import "howdah.dev/services/scheduler/internal/cluster"

// nowhere is the domain of nodes without the label.
const nowhere = -1

// domains numbers the values that a label has on the nodes among which a pod chooses.
type domains struct {
	of      []int          // by node, nowhere for those without the label
	numbers map[string]int // by value
}

func numberDomains(key string, feasible []*cluster.Node) domains {
	d := domains{of: make([]int, len(feasible)), numbers: map[string]int{}}
	for i, n := range feasible {
		value, ok := n.Object.Labels[key]
		if !ok {
			d.of[i] = nowhere
			continue
		}
		number, known := d.numbers[value]
		if !known {
			number = len(d.numbers)
			d.numbers[value] = number
		}
		d.of[i] = number
	}
	return d
}

// in returns the domain of any node, nowhere where none of the feasible ones is in it.
func (d domains) in(key string, n *cluster.Node) int {
	if value, ok := n.Object.Labels[key]; ok {
		if number, known := d.numbers[value]; known {
			return number
		}
	}
	return nowhere
}
