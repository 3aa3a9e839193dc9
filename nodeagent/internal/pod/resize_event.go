package pod

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// ResizeMessage is what an event says of a change of resources: what is done or not, and the resources that the pod asks for, in Kubernetes' form.
func ResizeMessage(p *corev1.Pod, what, problem string) string {
	type container struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	var all struct {
		InitContainers []container `json:"initContainers,omitempty"`
		Containers     []container `json:"containers,omitempty"`
		Generation     int64       `json:"generation"`
		Error          string      `json:"error,omitempty"`
	}
	for i := range p.Spec.InitContainers {
		all.InitContainers = append(all.InitContainers, container{p.Spec.InitContainers[i].Name, p.Spec.InitContainers[i].Resources})
	}
	for i := range p.Spec.Containers {
		all.Containers = append(all.Containers, container{p.Spec.Containers[i].Name, p.Spec.Containers[i].Resources})
	}
	all.Generation, all.Error = p.Generation, problem
	text, err := json.Marshal(all)
	if err != nil {
		return what
	}
	return what + ": " + string(text)
}
