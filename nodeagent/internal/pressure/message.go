package pressure

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/pod"
)

// hardGrace is how long, in seconds, containers may take to end where the node cannot wait.
const hardGrace = 1

// Annotations of the event that tells of a pod's end.
const (
	offendersAnnotation = "offending_containers"
	usageAnnotation     = "offending_containers_usage"
	starvedAnnotation   = "starved_resource"
)

// Why tells why a pod ends, and what the event of it is annotated with. Containers that use more than they asked for are named.
func Why(t Threshold, o Observation, c *Candidate, maxGrace int64) (*pod.Failure, map[string]string) {
	resource := t.Signal.kind().resource
	var message strings.Builder
	fmt.Fprintf(&message, "The node was low on resource: %s. Threshold quantity: %s, available: %s. ",
		resource, t.Signal.quantity(t.Value.Of(o.Capacity)), t.Signal.quantity(o.Available))
	var names, usages []string
	for _, used := range c.Containers {
		var amount int64
		switch resource {
		case corev1.ResourceMemory:
			amount = used.Memory
		case corev1.ResourceEphemeralStorage:
			amount = used.Disk
		}
		request := requestOf(c.Pod, used.Name, resource)
		if amount <= request.Value() {
			continue
		}
		text := quantity(resource, amount)
		fmt.Fprintf(&message, "Container %s was using %s, request is %s, has larger consumption of %s. ", used.Name, text, request.String(), resource)
		names, usages = append(names, used.Name), append(usages, text)
	}
	seconds := int64(hardGrace)
	if !t.Hard {
		seconds = maxGrace
		if own := c.Pod.Spec.TerminationGracePeriodSeconds; own != nil {
			seconds = min(seconds, *own)
		}
	}
	return &pod.Failure{Reason: "Evicted", Message: message.String(), Disruption: message.String(), Grace: &seconds}, map[string]string{
		offendersAnnotation: strings.Join(names, ","), usageAnnotation: strings.Join(usages, ","), starvedAnnotation: string(resource),
	}
}
