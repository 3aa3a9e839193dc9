package filter

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"howdah.dev/services/scheduler/internal/cluster"
)

// NodeAffinity refuses nodes that the pod's nodeSelector or required node
// affinity does not select, or the one that is added to that of all pods; nil adds none.
func NodeAffinity(added *nodeaffinity.NodeSelector) Filter {
	return Filter{
		Name:  "NodeAffinity",
		Of:    OnNode,
		Ahead: namesConflict,
		Only:  namedNodes,
		Prepare: func(pod *corev1.Pod, _ cluster.Snapshot) Check {
			own := required(pod)
			if added == nil {
				return own
			}
			return enforced{check{
				passes: func(n *cluster.Node) bool { return added.Match(n.Object) },
				reason: "node(s) didn't match scheduler-enforced node affinity",
			}, own}
		},
	}
}

// required is the check of what the pod itself requires, nil for nothing.
func required(pod *corev1.Pod) Check {
	affinity := pod.Spec.Affinity
	required := affinity != nil && affinity.NodeAffinity != nil &&
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
	if len(pod.Spec.NodeSelector) == 0 && !required {
		return nil
	}
	wanted := nodeaffinity.GetRequiredNodeAffinity(pod)
	return check{
		passes: func(n *cluster.Node) bool {
			ok, err := wanted.Match(n.Object)
			return ok && err == nil
		},
		reason: "node(s) didn't match Pod's node affinity/selector",
	}
}

// enforced is what is required of all pods, and what the pod requires itself; nil for nothing.
type enforced struct {
	check
	own Check
}

func (e enforced) Check(n *cluster.Node) bool {
	return e.check.Check(n) && (e.own == nil || e.own.Check(n))
}

func (e enforced) Explain(n *cluster.Node) []string {
	if !e.check.Check(n) || e.own == nil {
		return e.check.Explain(n)
	}
	return e.own.Explain(n)
}

// namedNodes returns the nodes that a required affinity of metadata.name leaves, as the pods of DaemonSets have it. Its terms are
// alternatives: one that names no node leaves all. What a term asks for must hold together.
func namedNodes(pod *corev1.Pod) ([]string, bool) {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil, false
	}
	terms := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	var nodes []string
	for _, term := range terms {
		named, of := false, []string(nil)
		for _, r := range term.MatchFields {
			switch {
			case r.Key != metav1.ObjectNameField || r.Operator != corev1.NodeSelectorOpIn:
			case !named:
				named, of = true, slices.Clone(r.Values)
			default:
				of = slices.DeleteFunc(of, func(name string) bool { return !slices.Contains(r.Values, name) })
			}
		}
		if !named {
			return nil, false
		}
		nodes = append(nodes, of...)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes), len(terms) > 0
}

// namesConflict says that no term of a pod's affinity leaves a node, "" where one may.
func namesConflict(pod *corev1.Pod, _ cluster.Snapshot) string {
	if nodes, named := namedNodes(pod); named && len(nodes) == 0 {
		return "pod affinity terms conflict"
	}
	return ""
}
