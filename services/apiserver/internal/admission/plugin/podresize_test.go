package plugin

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"howdah.dev/services/apiserver/internal/admission"
)

func resizeWorld(t *testing.T) admission.Objects {
	return worldOf(t, map[string][]string{"nodes": {
		"{metadata: {name: one}, status: {allocatable: {cpu: '1', memory: 1Gi}}}",
		"{metadata: {name: empty, labels: {kubernetes.io/os: linux}}}",
		"{metadata: {name: w, labels: {kubernetes.io/os: windows}}, status: {allocatable: {cpu: '1', memory: 1Gi}}}",
		"{metadata: {name: able}, status: {allocatable: {cpu: '1', memory: 1Gi}, declaredFeatures: [InPlacePodLevelResourcesVerticalScaling, InPlacePodVerticalScalingInitContainers]}}",
	}})
}

// resized is a change of a pod's resources over its subresource.
func resized(node, before, after string) write {
	of := func(spec string) string {
		return fmt.Sprintf("{metadata: {name: p, namespace: default}, spec: {nodeName: %q, %s}}", node, spec)
	}
	return write{op: admission.Update, resource: "pods", subresource: "resize", object: of(after), old: of(before)}
}

func requests(list string) string {
	return "containers: [{name: a, resources: {requests: {" + list + "}}}]"
}

// What a node has not got at all is not given to a pod.
func TestPodResizeValidator(t *testing.T) {
	t.Parallel()
	const small = "cpu: 100m, memory: 100Mi"
	change := func(node, to string) write { return resized(node, requests(small), requests(to)) }
	const lacking = "node didn't have enough allocatable resources: "
	verdicts(t, &PodResizeValidator{Objects: resizeWorld(t)}, map[string]verdict{
		"all of it":     {write: change("one", "cpu: '1', memory: 1Gi")},
		"more CPU":      {write: change("one", "cpu: 1500m"), refused: lacking + "cpu, requested: 1500, allocatable: 1000"},
		"more memory":   {write: change("one", "memory: 2Gi"), refused: lacking + "memory, requested: 2147483648, allocatable: 1073741824"},
		"more of both":  {write: change("one", "cpu: '2', memory: 2Gi"), refused: lacking + "cpu, requested: 2000, allocatable: 1000; memory, requested: 2147483648, allocatable: 1073741824"},
		"still too big": {write: resized("one", requests("cpu: '3'"), requests("cpu: '2'")), refused: lacking + "cpu, requested: 2000"},
		"as it was":     {write: resized("one", requests("cpu: '3'"), requests("cpu: '3'"))},
		"limits alone":  {write: resized("one", requests(small), "containers: [{name: a, resources: {requests: {"+small+"}, limits: {cpu: '8'}}}]")},
		"several": {write: resized("one", "containers: [{name: a, resources: {requests: {cpu: 600m}}}, {name: b, resources: {requests: {cpu: 300m}}}]",
			"containers: [{name: a, resources: {requests: {cpu: 800m}}}, {name: b, resources: {requests: {cpu: 300m}}}]"), refused: lacking + "cpu, requested: 1100"},
		"the pod":          {write: resized("one", "resources: {requests: {cpu: 100m}}", "resources: {requests: {cpu: '3'}}"), refused: lacking + "cpu, requested: 3000"},
		"a node with none": {write: change("empty", "cpu: 50m"), refused: lacking + "cpu, requested: 50, allocatable: 0"},
		"windows":          {write: change("w", "cpu: 200m"), refused: `pod resize is only supported on linux nodes, node "w" is "windows"`},
		"no such node":     {write: change("gone", "cpu: 200m"), refused: `node "gone" not found`},
		"on no node":       {write: change("", "cpu: '100'")},
	})
	for node, want := range map[string]metav1.CauseType{"one": "NodeCapacity", "w": "UnsupportedPlatform"} {
		a, _ := change(node, "cpu: '2'").attributes(t)
		var refusal *apierrors.StatusError
		err := (&PodResizeValidator{Objects: resizeWorld(t)}).Validate(t.Context(), a)
		if !errors.As(err, &refusal) || len(refusal.ErrStatus.Details.Causes) != 1 || refusal.ErrStatus.Details.Causes[0].Type != want {
			t.Errorf("%v does not name its cause %s", err, want)
		}
	}
}

// Resizes that older nodes cannot do are for nodes that say they can.
func TestNodeDeclaredFeatureValidator(t *testing.T) {
	t.Parallel()
	first := func(cpu string) string {
		return "initContainers: [{name: i, resources: {requests: {cpu: " + cpu + "}}}]"
	}
	sidecar := func(cpu string) string {
		return "initContainers: [{name: i, restartPolicy: Always, resources: {requests: {cpu: " + cpu + "}}}]"
	}
	whole := func(cpu string) string { return "resources: {requests: {cpu: " + cpu + "}}" }
	const both = "InPlacePodLevelResourcesVerticalScaling, InPlacePodVerticalScalingInitContainers"
	verdicts(t, &NodeDeclaredFeatureValidator{Objects: resizeWorld(t), Version: version.MajorMinor(1, 36)}, map[string]verdict{
		"a container":       {write: resized("one", requests("cpu: 1m"), requests("cpu: 2m"))},
		"a sidecar":         {write: resized("one", sidecar("1m"), sidecar("2m"))},
		"an init container": {write: resized("one", first("1m"), first("2m")), refused: `pod update requires features InPlacePodVerticalScalingInitContainers which are not available on node "one"`},
		"the pod":           {write: resized("one", whole("1m"), whole("2m")), refused: `pod update requires features InPlacePodLevelResourcesVerticalScaling which are not available on node "one"`},
		"both":              {write: resized("one", first("1m")+", "+whole("1m"), first("2m")+", "+whole("2m")), refused: "pod update requires features " + both + " which are not available"},
		"a node that can":   {write: resized("able", first("1m")+", "+whole("1m"), first("2m")+", "+whole("2m"))},
		"no such node":      {write: resized("gone", whole("1m"), whole("2m")), refused: `node "gone" not found`},
		"on no node":        {write: resized("", whole("1m"), whole("2m"))},
	})
}

// Whoever starts all together stays as many.
func TestJobValidation(t *testing.T) {
	t.Parallel()
	p := &JobValidation{Objects: worldOf(t, map[string][]string{"podgroups": {
		"{metadata: {name: gang, namespace: default}, spec: {schedulingPolicy: {gang: {minCount: 2}}}}",
		"{metadata: {name: basic, namespace: default}, spec: {schedulingPolicy: {basic: {}}}}",
		"{metadata: {name: theirs, namespace: default, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: u, controller: true}]}, spec: {schedulingPolicy: {gang: {minCount: 2}}}}",
		"{metadata: {name: other, namespace: default, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: k, uid: v}]}, spec: {schedulingPolicy: {gang: {minCount: 2}}}}",
	}})}
	change := func(group, uid string, before, after int) write {
		of := func(n int) string {
			spec := ""
			if group != "" {
				spec = "schedulingGroup: {podGroupName: " + group + "}"
			}
			return fmt.Sprintf("{metadata: {name: j, namespace: default, uid: %s}, spec: {parallelism: %d, template: {spec: {%s}}}}", uid, n, spec)
		}
		return write{op: admission.Update, resource: "jobs", object: of(after), old: of(before)}
	}
	const refused = "cannot change parallelism for a Job referencing gang-scheduled PodGroup "
	verdicts(t, p, map[string]verdict{
		"a gang":        {write: change("gang", "x", 2, 3), refused: refused + `"gang"`},
		"fewer":         {write: change("gang", "x", 2, 0), refused: refused + `"gang"`},
		"as many":       {write: change("gang", "x", 2, 2)},
		"no gang":       {write: change("basic", "x", 2, 3)},
		"an absent one": {write: change("absent", "x", 2, 3)},
		"of none":       {write: change("", "x", 2, 3)},
		"its own gang":  {write: change("", "u", 2, 3), refused: refused + `"theirs"`},
		"not its own":   {write: change("", "v", 2, 3)},
	})
}
