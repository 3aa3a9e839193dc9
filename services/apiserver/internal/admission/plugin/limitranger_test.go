package plugin

import (
	"testing"

	"howdah.dev/services/apiserver/internal/admission"
)

func TestLimitRanger(t *testing.T) {
	t.Parallel()
	limits := func(items string) *LimitRanger {
		return &LimitRanger{Objects: worldOf(t, map[string][]string{"limitranges": {"{metadata: {name: l, namespace: default}, spec: {limits: [" + items + "]}}"}})}
	}
	pod := func(resources string) write {
		return write{object: "{metadata: {name: p}, spec: {initContainers: [{name: a, image: i, resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1, memory: 1Gi}}}]," +
			" containers: [{name: c, image: i, resources: {" + resources + "}}]}}"}
	}
	defaults := limits("{type: Container, default: {cpu: 500m}, defaultRequest: {cpu: 100m, memory: 64Mi}}")
	verdicts(t, defaults, map[string]verdict{
		"defaults": {
			write:   pod(""),
			becomes: []string{"cpu: 500m", "cpu: 100m", "memory: 64Mi", "kubernetes.io/limit-ranger: 'LimitRanger plugin set: cpu, memory request", "c; cpu limit for container c'"},
		},
		"some":   {write: pod("requests: {cpu: 200m}"), becomes: []string{"cpu: 200m", "'LimitRanger plugin set: memory request for container"}},
		"all":    {write: pod("requests: {cpu: 200m, memory: 1Mi}, limits: {cpu: 1}"), not: []string{"annotations"}},
		"update": {write: write{op: admission.Update, object: plainPod, old: plainPod}, not: []string{"annotations"}},
	})
	container := limits("{type: Container, min: {cpu: 100m}, max: {cpu: 2}, maxLimitRequestRatio: {memory: 2}}")
	fine := "memory: 1Gi"
	verdicts(t, container, map[string]verdict{
		"within":       {write: pod("requests: {cpu: 100m, " + fine + "}, limits: {cpu: 2, memory: 2Gi}")},
		"no request":   {write: pod("limits: {cpu: 1, memory: 1Gi}, requests: {" + fine + "}"), refused: "minimum cpu usage per Container is 100m.  No request is specified"},
		"small":        {write: pod("requests: {cpu: 50m, " + fine + "}, limits: {cpu: 1, memory: 1Gi}"), refused: `pods "p" is forbidden: minimum cpu usage per Container is 100m, but request is 50m`},
		"small limit":  {write: pod("requests: {cpu: 100m, " + fine + "}, limits: {cpu: 50m, memory: 1Gi}"), refused: "minimum cpu usage per Container is 100m, but limit is 50m"},
		"no limit":     {write: pod("requests: {cpu: 100m, " + fine + "}, limits: {memory: 1Gi}"), refused: "maximum cpu usage per Container is 2.  No limit is specified"},
		"large":        {write: pod("requests: {cpu: 1, " + fine + "}, limits: {cpu: 3, memory: 1Gi}"), refused: "maximum cpu usage per Container is 2, but limit is 3"},
		"large both":   {write: pod("requests: {cpu: 3, " + fine + "}, limits: {cpu: 2, memory: 1Gi}"), refused: "maximum cpu usage per Container is 2, but request is 3"},
		"ratio":        {write: pod("requests: {cpu: 1, " + fine + "}, limits: {cpu: 1, memory: 3Gi}"), refused: "memory max limit to request ratio per Container is 2, but provided ratio is 3.000000"},
		"ratio, mute":  {write: pod("requests: {cpu: 1}, limits: {cpu: 1, memory: 3Gi}"), refused: "memory max limit to request ratio per Container is 2, but no request is specified or request is 0"},
		"ratio, open":  {write: pod("requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1}"), refused: "memory max limit to request ratio per Container is 2, but no limit is specified or limit is 0"},
		"two problems": {write: pod("requests: {cpu: 50m, " + fine + "}, limits: {cpu: 3, memory: 1Gi}"), refused: "[minimum cpu usage per Container is 100m, but request is 50m, maximum cpu usage per Container is 2, but limit is 3]"},
	})
	whole := limits("{type: Pod, max: {cpu: 2}}")
	two := "{metadata: {name: p}, spec: {containers: [{name: a, image: i, resources: {limits: {cpu: 1500m}}}, {name: b, image: i, resources: {limits: {cpu: 1}}}]}}"
	verdicts(t, whole, map[string]verdict{
		"sum":    {write: write{object: two}, refused: "maximum cpu usage per Pod is 2, but limit is 2500m"},
		"resize": {write: write{op: admission.Update, subresource: "resize", object: two, old: plainPod}, refused: "maximum cpu usage per Pod is 2, but limit is 2500m"},
	})
	claim := func(size string) write {
		return write{resource: "persistentvolumeclaims", object: "{metadata: {name: v}, spec: {resources: {requests: {" + size + "}}}}"}
	}
	verdicts(t, limits("{type: PersistentVolumeClaim, min: {storage: 1Gi}, max: {storage: 5Gi}}"), map[string]verdict{
		"within": {write: claim("storage: 2Gi")},
		"small":  {write: claim("storage: 500Mi"), refused: "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 500Mi"},
		"large":  {write: claim("storage: 6Gi"), refused: "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi"},
		"mute":   {write: claim(""), refused: "maximum storage usage per PersistentVolumeClaim is 5Gi.  No request is specified"},
	})
}
