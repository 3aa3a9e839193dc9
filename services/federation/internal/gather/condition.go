package gather

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// condition is one of an object's status.
type condition struct{ status, reason, message string }

func conditionOf(live *unstructured.Unstructured, kind string) (condition, bool) {
	if live == nil {
		return condition{}, false
	}
	list, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	for _, item := range list {
		c, ok := item.(map[string]any)
		if !ok || c["type"] != kind {
			continue
		}
		text := func(field string) string { s, _ := c[field].(string); return s }
		return condition{text("status"), text("reason"), text("message")}, true
	}
	return condition{}, false
}

// Reasons that Kubernetes' Deployments have, and kubectl knows.
const (
	available      = "MinimumReplicasAvailable"
	unavailable    = "MinimumReplicasUnavailable"
	complete       = "NewReplicaSetAvailable"
	updating       = "ReplicaSetUpdated"
	deadlinePassed = "ProgressDeadlineExceeded"
)

// deploymentConditions are what holds of all clusters together.
func (in *Input) deploymentConditions() []any {
	isAvailable := condition{"True", available, "Deployment has minimum availability in every cluster."}
	progress := condition{"True", complete, "Deployment is complete in every cluster."}
	if len(in.Parts) == 0 {
		isAvailable = condition{"False", "NotPlaced", "No cluster has a part of it."}
		progress = condition{"True", updating, "No cluster has a part of it yet."}
	}
	for _, p := range in.Parts {
		a, ok := conditionOf(p.Live, "Available")
		if isAvailable.status == "True" && (!ok || a.status != "True") {
			isAvailable = condition{"False", unavailable, says(p, a.message)}
		}
		c, ok := conditionOf(p.Live, "Progressing")
		switch {
		case ok && c.status == "False" && progress.reason != deadlinePassed:
			progress = condition{"False", c.reason, says(p, c.message)}
		case progress.status == "True" && progress.reason == complete && (!ok || c.reason != complete || !p.Settled):
			progress = condition{"True", updating, says(p, c.message)}
		}
	}
	return []any{in.condition("Available", isAvailable, true), in.condition("Progressing", progress, true)}
}

func says(p Part, message string) string {
	if p.Live == nil {
		message = "it has nothing of it yet, or does not answer"
	}
	return fmt.Sprintf("Cluster %s: %s", p.Cluster, message)
}

// condition is one of the template's, whose times stay while nothing changes.
func (in *Input) condition(kind string, c condition, updates bool) map[string]any {
	now := in.Now.UTC().Format(time.RFC3339)
	out := map[string]any{"type": kind, "status": c.status, "reason": c.reason, "message": c.message, "lastTransitionTime": now}
	if updates {
		out["lastUpdateTime"] = now
	}
	list, _, _ := unstructured.NestedSlice(in.Template.Object, "status", "conditions")
	for _, item := range list {
		before, ok := item.(map[string]any)
		if !ok || before["type"] != kind || before["status"] != c.status {
			continue
		}
		if t, ok := before["lastTransitionTime"].(string); ok {
			out["lastTransitionTime"] = t
		}
		if t, ok := before["lastUpdateTime"].(string); ok && updates && before["reason"] == c.reason && before["message"] == c.message {
			out["lastUpdateTime"] = t
		}
	}
	return out
}

// job tells of a Job, which is complete once it is in every cluster, and has failed once it has in one and runs in none.
func (in *Input) job(status map[string]any) {
	for _, field := range []string{"succeeded", "failed"} { // these never go down, also when a cluster is lost
		before, _, _ := unstructured.NestedInt64(in.Template.Object, "status", field)
		status[field] = max(before, in.sum(field))
	}
	first := ""
	done, failed := len(in.Parts) > 0, condition{}
	ended := true
	for _, p := range in.Parts {
		if p.Live != nil {
			if t, _, _ := unstructured.NestedString(p.Live.Object, "status", "startTime"); t != "" && (first == "" || t < first) {
				first = t
			}
		}
		completed, _ := conditionOf(p.Live, "Complete")
		broken, _ := conditionOf(p.Live, "Failed")
		done = done && completed.status == "True"
		ended = ended && (completed.status == "True" || broken.status == "True")
		if broken.status == "True" && failed.status == "" {
			failed = condition{"True", broken.reason, says(p, broken.message)}
		}
	}
	if before, _, _ := unstructured.NestedString(in.Template.Object, "status", "startTime"); before != "" {
		first = before
	}
	if first != "" {
		status["startTime"] = first
	}
	switch {
	case done:
		in.latest(status, "completionTime")
		all := condition{"True", "CompletionsReached", "It is complete in every cluster."}
		status["conditions"] = []any{in.condition("SuccessCriteriaMet", all, false), in.condition("Complete", all, false)}
	case ended && failed.status != "":
		status["conditions"] = []any{in.condition("FailureTarget", failed, false), in.condition("Failed", failed, false)}
	}
}

// over reports whether a Job has ended: what has is told no more of.
func over(job *unstructured.Unstructured) bool {
	completed, _ := conditionOf(job, "Complete")
	failed, _ := conditionOf(job, "Failed")
	return completed.status == "True" || failed.status == "True"
}
