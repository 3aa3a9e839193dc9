package plugin

import (
	"testing"

	"howdah.dev/services/apiserver/internal/admission"
)

const plainPod = "{metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}"

func TestAlways(t *testing.T) {
	t.Parallel()
	verdicts(t, AlwaysAdmit{}, map[string]verdict{"anything": {write: write{object: plainPod}}})
	verdicts(t, AlwaysDeny{}, map[string]verdict{
		"create":  {write: write{object: plainPod}, refused: `pods "p" is forbidden: admission control is denying all modifications`},
		"delete":  {write: write{op: admission.Delete, old: plainPod}, refused: "denying all modifications"},
		"connect": {write: write{op: admission.Connect, subresource: "exec", old: plainPod}, refused: "denying all modifications"},
	})
}

func TestAlwaysPullImages(t *testing.T) {
	t.Parallel()
	verdicts(t, AlwaysPullImages{}, map[string]verdict{
		"all containers": {
			write: write{object: "{metadata: {name: p}, spec: {initContainers: [{name: a, image: i, imagePullPolicy: Never}], " +
				"containers: [{name: c, image: i, imagePullPolicy: IfNotPresent}], volumes: [{name: v, image: {reference: r, pullPolicy: Never}}]}}"},
			becomes: []string{"imagePullPolicy: Always", "pullPolicy: Always"}, not: []string{"Never", "IfNotPresent"},
		},
		"no new image": {
			write:   write{op: admission.Update, object: "{metadata: {name: p}, spec: {containers: [{name: c, image: i, imagePullPolicy: Never}]}}", old: plainPod},
			becomes: []string{"Never"},
		},
		"status is not looked at": {write: write{op: admission.Update, subresource: "status",
			object: "{metadata: {name: p}, spec: {containers: [{name: c, image: j, imagePullPolicy: Never}]}}", old: plainPod}, becomes: []string{"Never"}},
	})
	a, _ := write{object: "{metadata: {name: p}, spec: {containers: [{name: c, image: i, imagePullPolicy: Never}]}}"}.attributes(t)
	err := AlwaysPullImages{}.Validate(t.Context(), a)
	if err == nil {
		t.Error("a policy that was set after the mutation passes")
	}
}

func TestDenyExec(t *testing.T) {
	t.Parallel()
	on := func(spec string) write {
		return write{op: admission.Connect, subresource: "exec", old: "{metadata: {name: p}, spec: {" + spec + " containers: [{name: c, image: i}]}}"}
	}
	privileged := write{op: admission.Connect, subresource: "attach",
		old: "{metadata: {name: p}, spec: {containers: [{name: c, image: i, securityContext: {privileged: true}}]}}"}
	forward := privileged
	forward.subresource = "portforward"
	verdicts(t, &DenyExec{Title: "DenyEscalatingExec"}, map[string]verdict{
		"plain": {write: on("")}, "pid": {write: on("hostPID: true,"), refused: "cannot exec into or attach to a container using host pid"},
		"ipc":          {write: on("hostIPC: true,"), refused: "cannot exec into or attach to a container using host ipc"},
		"privileged":   {write: privileged, refused: `pods "p" is forbidden: cannot exec into or attach to a privileged container`},
		"port forward": {write: forward},
	})
	verdicts(t, &DenyExec{Title: "DenyExecOnPrivileged"}, map[string]verdict{
		"pid": {write: on("hostPID: true,")}, "privileged": {write: privileged, refused: "cannot exec into or attach to a privileged container"},
	})
}

func TestExtendedResourceToleration(t *testing.T) {
	t.Parallel()
	verdicts(t, ExtendedResourceToleration{}, map[string]verdict{
		"device": {
			write:   write{object: "{metadata: {name: p}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1, example.com/gpu: 1, hugepages-2Mi: 2Mi}}}]}}"},
			becomes: []string{"effect: NoSchedule\n    key: example.com/gpu\n    operator: Exists"}, not: []string{"key: cpu", "key: hugepages"},
		},
		"none": {write: write{object: plainPod}, not: []string{"tolerations"}},
	})
}

func TestLimitPodHardAntiAffinityTopology(t *testing.T) {
	t.Parallel()
	with := func(key string) write {
		return write{object: "{metadata: {name: p}, spec: {containers: [{name: c, image: i}], affinity: {podAntiAffinity: " +
			"{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: " + key + "}]}}}}"}
	}
	verdicts(t, LimitPodHardAntiAffinityTopology{}, map[string]verdict{
		"node": {write: with("kubernetes.io/hostname")},
		"zone": {write: with("topology.kubernetes.io/zone"),
			refused: "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey topology.kubernetes.io/zone but only key kubernetes.io/hostname is allowed"},
	})
}

func TestSecurityContextDeny(t *testing.T) {
	t.Parallel()
	pod := func(of, container string) write {
		return write{object: "{metadata: {name: p}, spec: {securityContext: {" + of + "}, containers: [{name: c, image: i, securityContext: {" + container + "}}]}}"}
	}
	verdicts(t, SecurityContextDeny{}, map[string]verdict{
		"plain":           {write: pod("runAsNonRoot: true", "privileged: true")},
		"groups":          {write: pod("supplementalGroups: [1]", ""), refused: "pod.Spec.SecurityContext.SupplementalGroups is forbidden"},
		"labels":          {write: pod("seLinuxOptions: {}", ""), refused: "pod.Spec.SecurityContext.SELinuxOptions is forbidden"},
		"user":            {write: pod("runAsUser: 1", ""), refused: "pod.Spec.SecurityContext.RunAsUser is forbidden"},
		"group":           {write: pod("fsGroup: 1", ""), refused: "pod.Spec.SecurityContext.FSGroup is forbidden"},
		"container user":  {write: pod("", "runAsUser: 1"), refused: "SecurityContext.RunAsUser is forbidden"},
		"container label": {write: pod("", "seLinuxOptions: {}"), refused: "SecurityContext.SELinuxOptions is forbidden"},
	})
}

func TestRuntimeClass(t *testing.T) {
	t.Parallel()
	w := worldOf(t, map[string][]string{"runtimeclasses": {
		"{metadata: {name: vm}, handler: vm, overhead: {podFixed: {cpu: 250m}}, scheduling: {nodeSelector: {vm: 'yes'}, tolerations: [{key: vm, operator: Exists}]}}",
		"{metadata: {name: plain}, handler: plain}",
	}})
	pod := func(spec string) write {
		return write{object: "{metadata: {name: p}, spec: {" + spec + " containers: [{name: c, image: i}]}}"}
	}
	verdicts(t, &RuntimeClass{Objects: w}, map[string]verdict{
		"none":           {write: pod(""), not: []string{"overhead"}},
		"all of it":      {write: pod("runtimeClassName: vm,"), becomes: []string{"cpu: 250m", "vm: \"yes\"", "key: vm"}},
		"absent":         {write: pod("runtimeClassName: nix,"), refused: `pod rejected: RuntimeClass "nix" not found`},
		"same overhead":  {write: pod("runtimeClassName: vm, overhead: {cpu: 0.25},")},
		"other overhead": {write: pod("runtimeClassName: vm, overhead: {cpu: 1},"), refused: "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"},
		"own overhead":   {write: pod("runtimeClassName: plain, overhead: {cpu: 1},"), refused: "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"},
		"no class":       {write: pod("overhead: {cpu: 1},"), refused: "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"},
		"conflict":       {write: pod("runtimeClassName: vm, nodeSelector: {vm: 'no'},"), refused: "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no"},
	})
}

func TestPriority(t *testing.T) {
	t.Parallel()
	w := worldOf(t, map[string][]string{"priorityclasses": {
		"{metadata: {name: high}, value: 100, preemptionPolicy: Never}", "{metadata: {name: usual}, value: 5, globalDefault: true}",
	}})
	pod := func(spec string) write {
		return write{object: "{metadata: {name: p}, spec: {" + spec + " containers: [{name: c, image: i}]}}"}
	}
	verdicts(t, &Priority{Objects: w}, map[string]verdict{
		"default":      {write: pod(""), becomes: []string{"priority: 5", "priorityClassName: usual", "preemptionPolicy: PreemptLowerPriority"}},
		"named":        {write: pod("priorityClassName: high,"), becomes: []string{"priority: 100", "preemptionPolicy: Never"}},
		"system":       {write: pod("priorityClassName: system-node-critical,"), becomes: []string{"priority: 2000001000"}},
		"absent":       {write: pod("priorityClassName: nix,"), refused: "no PriorityClass with name nix was found"},
		"own number":   {write: pod("priority: 7,"), refused: "the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 5 from the given PriorityClass name"},
		"own policy":   {write: pod("priorityClassName: high, preemptionPolicy: PreemptLowerPriority,"), refused: "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority admission controller computed Never from the given PriorityClass name"},
		"update":       {write: write{op: admission.Update, object: plainPod, old: "{metadata: {name: p}, spec: {priority: 9, preemptionPolicy: Never, containers: [{name: c, image: i}]}}"}, becomes: []string{"priority: 9", "preemptionPolicy: Never"}},
		"two defaults": {write: write{resource: "priorityclasses", object: "{metadata: {name: x}, value: 1, globalDefault: true}"}, refused: "PriorityClass usual is already marked as default. Only one default can exist"},
		"same default": {write: write{op: admission.Update, resource: "priorityclasses", object: "{metadata: {name: usual}, value: 5, globalDefault: true}", old: "{metadata: {name: usual}, value: 5}"}},
		"no default":   {write: write{resource: "priorityclasses", object: "{metadata: {name: x}, value: 1}"}},
	})
}

func TestPodTopologyLabels(t *testing.T) {
	t.Parallel()
	w := worldOf(t, map[string][]string{"nodes": {"{metadata: {name: n, labels: {topology.kubernetes.io/zone: z, topology.kubernetes.io/region: r, other: o}}}"}})
	placed := "{metadata: {name: p}, spec: {nodeName: n, containers: [{name: c, image: i}]}}"
	verdicts(t, &PodTopologyLabels{Objects: w}, map[string]verdict{
		"binding":      {write: write{subresource: "binding", object: placed, old: plainPod}, becomes: []string{"topology.kubernetes.io/zone: z", "topology.kubernetes.io/region: r"}, not: []string{"other"}},
		"created":      {write: write{object: placed}, becomes: []string{"topology.kubernetes.io/zone: z"}},
		"not placed":   {write: write{object: plainPod}, not: []string{"labels"}},
		"node unknown": {write: write{object: "{metadata: {name: p}, spec: {nodeName: gone, containers: [{name: c, image: i}]}}"}, not: []string{"labels"}},
	})
}

func TestTaintNodesByCondition(t *testing.T) {
	t.Parallel()
	taint := "effect: NoSchedule\n    key: node.kubernetes.io/not-ready"
	verdicts(t, TaintNodesByCondition{}, map[string]verdict{
		"new":     {write: write{resource: "nodes", object: "{metadata: {name: n}}"}, becomes: []string{taint}},
		"updated": {write: write{op: admission.Update, resource: "nodes", object: "{metadata: {name: n}}", old: "{metadata: {name: n}}"}, not: []string{"taints"}},
	})
}
