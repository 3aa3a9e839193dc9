// Package gather makes one status of what the members say of their parts of an object. It is pure.
package gather

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Part is what one cluster has of an object.
type Part struct {
	Cluster string
	// Live is nil where there is nothing, or where the cluster does not answer: what ran there does not count then.
	Live *unstructured.Unstructured
	// Settled says that it is as it should be.
	Settled bool
}

// Input is what a status follows from.
type Input struct {
	Template *unstructured.Unstructured
	// Parts are those of all clusters that are to have one, by name.
	Parts []Part
	// Planned says that it is decided where the template goes as it is now.
	Planned bool
	Now     time.Time
}

// counted are the counts that kinds have; they are summed up.
var counted = map[schema.GroupKind][]string{
	{Group: "apps", Kind: "Deployment"}:     {"replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas", "terminatingReplicas"},
	{Group: "apps", Kind: "ReplicaSet"}:     {"replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "terminatingReplicas"},
	{Kind: "ReplicationController"}:         {"replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"},
	{Group: "apps", Kind: "StatefulSet"}:    {"replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"},
	{Group: "apps", Kind: "DaemonSet"}:      {"currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable", "numberUnavailable"},
	{Group: "batch", Kind: "Job"}:           {"active", "succeeded", "failed"},
	{Kind: "Service"}:                       nil,
	{Group: networking, Kind: "Ingress"}:    nil,
	{Group: "batch", Kind: "CronJob"}:       nil,
	{Group: "policy", Kind: disruptionKind}: {"currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"},
}

const (
	networking     = "networking.k8s.io"
	disruptionKind = "PodDisruptionBudget"
)

// Status returns what to merge into the template's status; nil where its kind has none that is gathered.
func Status(in Input) map[string]any {
	gk := in.Template.GroupVersionKind().GroupKind()
	fields, known := counted[gk]
	if !known {
		return nil
	}
	if gk.Kind == "Job" && over(in.Template) {
		return nil
	}
	status := map[string]any{}
	for _, field := range fields {
		status[field] = in.sum(field)
	}
	switch gk.Kind {
	case "Deployment":
		status["conditions"] = in.deploymentConditions()
	case "StatefulSet":
		in.revisions(status)
	case "Job":
		in.job(status)
	case "CronJob":
		in.latest(status, "lastScheduleTime")
		in.latest(status, "lastSuccessfulTime")
	case "Service", "Ingress":
		in.addresses(status)
	}
	if hasObserved(gk) {
		status["observedGeneration"] = in.observed()
	}
	return status
}

func hasObserved(gk schema.GroupKind) bool {
	switch gk.Kind {
	case "Service", "Ingress", "Job", "CronJob":
		return false
	}
	return true
}

// observed is the template's generation once it is what every cluster has seen; until then what it was, so that who waits for it waits on.
func (in *Input) observed() int64 {
	if in.Planned && in.settled() {
		return in.Template.GetGeneration()
	}
	before, _, _ := unstructured.NestedInt64(in.Template.Object, "status", "observedGeneration")
	return before
}

// settled reports whether every cluster has its part as it should be, and has seen it.
func (in *Input) settled() bool {
	for _, p := range in.Parts {
		if p.Live == nil || !p.Settled {
			return false
		}
		seen, found, _ := unstructured.NestedInt64(p.Live.Object, "status", "observedGeneration")
		if gk := p.Live.GroupVersionKind().GroupKind(); hasObserved(gk) && (!found || seen < p.Live.GetGeneration()) {
			return false
		}
	}
	return true
}

// Count is a count of an object's status.
func Count(live *unstructured.Unstructured, field string) (int64, bool) {
	if live == nil {
		return 0, false
	}
	n, found, err := unstructured.NestedInt64(live.Object, "status", field)
	return n, found && err == nil
}

func (in *Input) sum(field string) int64 {
	sum := int64(0)
	for _, p := range in.Parts {
		n, _ := Count(p.Live, field)
		sum += n
	}
	return sum
}

// latest sets a time to the latest of the parts'.
func (in *Input) latest(status map[string]any, field string) {
	last := ""
	for _, p := range in.Parts {
		if p.Live == nil {
			continue
		}
		if t, _, _ := unstructured.NestedString(p.Live.Object, "status", field); t > last { // RFC 3339 in UTC, which sorts
			last = t
		}
	}
	if last != "" {
		status[field] = last
	}
}

// revisions tells of a StatefulSet's revisions: of a cluster where the update goes on, or, where none is such, of the first.
func (in *Input) revisions(status map[string]any) {
	first := true
	for _, p := range in.Parts {
		if p.Live == nil {
			continue
		}
		current, _, _ := unstructured.NestedString(p.Live.Object, "status", "currentRevision")
		update, _, _ := unstructured.NestedString(p.Live.Object, "status", "updateRevision")
		if first || current != update {
			status["currentRevision"], status["updateRevision"] = current, update
		}
		if current != update {
			return
		}
		first = false
	}
}

// addresses are those of all load balancers.
func (in *Input) addresses(status map[string]any) {
	all := []any{}
	for _, p := range in.Parts {
		if p.Live == nil {
			continue
		}
		list, _, _ := unstructured.NestedSlice(p.Live.Object, "status", "loadBalancer", "ingress")
		all = append(all, list...)
	}
	if len(all) == 0 {
		status["loadBalancer"] = map[string]any{"ingress": nil}
		return
	}
	status["loadBalancer"] = map[string]any{"ingress": all}
}
