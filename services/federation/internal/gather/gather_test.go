package gather

import (
	"encoding/json"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"howdah.dev/services/federation/api"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func parse(t *testing.T, text string) *api.Any {
	t.Helper()
	o := &api.Any{}
	if err := yaml.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	return o
}

func part(t *testing.T, name string, settled bool, text string) Part {
	t.Helper()
	p := Part{Cluster: name, Settled: settled}
	if text != "" {
		p.Live = &parse(t, text).Unstructured
	}
	return p
}

const template = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, generation: 5}, spec: {replicas: 10}, status: {observedGeneration: 4, conditions: [{type: Available, status: "True", lastTransitionTime: "2025-01-01T00:00:00Z", lastUpdateTime: "2025-01-01T00:00:00Z", reason: MinimumReplicasAvailable, message: old}]}}`

// live is a Deployment in a member that is complete.
func live(generation, observed, n string) string {
	return `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, generation: ` + generation + `}, status: {observedGeneration: ` + observed + `, replicas: ` + n + `, updatedReplicas: ` + n + `, readyReplicas: ` + n + `, availableReplicas: ` + n +
		`, conditions: [{type: Available, status: "True", reason: MinimumReplicasAvailable, message: ok}, {type: Progressing, status: "True", reason: NewReplicaSetAvailable, message: ok}]}}`
}

func TestDeployment(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		parts                       []Part
		planned                     bool
		observed, replicas          int64
		available, progress, reason string
	}{
		"both are complete":                 {[]Part{part(t, "a", true, live("2", "2", "6")), part(t, "b", true, live("7", "7", "4"))}, true, 5, 10, "True", "True", complete},
		"one has not seen it":               {[]Part{part(t, "a", true, live("2", "1", "6")), part(t, "b", true, live("7", "7", "4"))}, true, 4, 10, "True", "True", complete},
		"one does not have it":              {[]Part{part(t, "a", false, live("2", "2", "6")), part(t, "b", true, live("7", "7", "4"))}, true, 4, 10, "True", "True", updating},
		"one does not answer":               {[]Part{part(t, "a", true, live("2", "2", "6")), part(t, "b", false, "")}, true, 4, 6, "False", "True", updating},
		"it is not decided where it goes":   {[]Part{part(t, "a", true, live("2", "2", "6"))}, false, 4, 6, "True", "True", complete},
		"it is nowhere":                     {nil, false, 4, 0, "False", "True", updating},
		"one does not come to an end there": {[]Part{part(t, "a", true, live("2", "2", "6")), part(t, "b", true, `{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 1}, status: {observedGeneration: 1, replicas: 4, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded, message: m}]}}`)}, true, 5, 10, "False", "False", deadlinePassed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Status(Input{Template: &parse(t, template).Unstructured, Parts: test.parts, Planned: test.planned, Now: now})
			var read struct {
				ObservedGeneration, Replicas int64
				Conditions                   []struct{ Type, Status, Reason, LastTransitionTime string }
			}
			data, err := json.Marshal(got)
			if err != nil || json.Unmarshal(data, &read) != nil {
				t.Fatal(err)
			}
			if read.ObservedGeneration != test.observed || read.Replicas != test.replicas || read.Conditions[0].Status != test.available || read.Conditions[1].Status != test.progress || read.Conditions[1].Reason != test.reason {
				t.Errorf("got %s", data)
			}
			if want := map[string]string{"True": "2025-01-01T00:00:00Z", "False": "2026-01-02T03:04:05Z"}[test.available]; read.Conditions[0].LastTransitionTime != want {
				t.Errorf("available since %s, want %s", read.Conditions[0].LastTransitionTime, want)
			}
		})
	}
}

func TestOtherKinds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		template string
		parts    []Part
		want     string
	}{
		"a load balancer's addresses": {
			`{apiVersion: v1, kind: Service, metadata: {name: s}}`,
			[]Part{part(t, "a", true, `{kind: Service, status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}}`), part(t, "b", true, `{kind: Service, status: {loadBalancer: {ingress: [{ip: 192.0.2.2}]}}}`), part(t, "c", true, `{kind: Service}`)},
			`{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"},{"ip":"192.0.2.2"}]}}`,
		},
		"a StatefulSet that is updated in one": {
			`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s, generation: 1}}`,
			[]Part{part(t, "a", true, `{apiVersion: apps/v1, kind: StatefulSet, metadata: {generation: 1}, status: {observedGeneration: 1, replicas: 1, currentRevision: x, updateRevision: x}}`), part(t, "b", true, `{apiVersion: apps/v1, kind: StatefulSet, metadata: {generation: 1}, status: {observedGeneration: 1, replicas: 2, currentRevision: x, updateRevision: z}}`)},
			`{"availableReplicas":0,"currentReplicas":0,"currentRevision":"x","observedGeneration":1,"readyReplicas":0,"replicas":3,"updateRevision":"z","updatedReplicas":0}`,
		},
		"a Job that runs in one still": {
			`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, status: {failed: 4}}`,
			[]Part{part(t, "a", true, `{kind: Job, status: {succeeded: 1, startTime: "2026-01-01T00:00:00Z", conditions: [{type: Complete, status: "True"}]}}`), part(t, "b", true, `{kind: Job, status: {active: 1, failed: 1, startTime: "2026-01-01T00:00:01Z"}}`)},
			`{"active":1,"failed":4,"startTime":"2026-01-01T00:00:00Z","succeeded":1}`,
		},
		"a Job that is complete": {
			`{apiVersion: batch/v1, kind: Job, metadata: {name: j}}`,
			[]Part{part(t, "a", true, `{kind: Job, status: {succeeded: 1, startTime: "2026-01-01T00:00:00Z", completionTime: "2026-01-01T00:01:00Z", conditions: [{type: Complete, status: "True"}]}}`)},
			`{"active":0,"completionTime":"2026-01-01T00:01:00Z","conditions":[{"lastTransitionTime":"2026-01-02T03:04:05Z","message":"It is complete in every cluster.","reason":"CompletionsReached","status":"True","type":"SuccessCriteriaMet"},{"lastTransitionTime":"2026-01-02T03:04:05Z","message":"It is complete in every cluster.","reason":"CompletionsReached","status":"True","type":"Complete"}],"failed":0,"startTime":"2026-01-01T00:00:00Z","succeeded":1}`,
		},
		"a Job that has ended is told no more of": {`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, status: {conditions: [{type: Complete, status: "True"}]}}`, nil, `null`},
		"a kind of which nothing is known":        {`{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}`, nil, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := json.Marshal(Status(Input{Template: &parse(t, test.template).Unstructured, Parts: test.parts, Planned: true, Now: now}))
			want := test.want
			if err != nil || string(data) != want {
				t.Errorf("got %s (%v), want %s", data, err, want)
			}
		})
	}
}
