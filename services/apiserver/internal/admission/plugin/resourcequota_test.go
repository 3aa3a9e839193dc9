package plugin

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/internal/quota"
)

func TestResourceQuota(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	with := func(config string, quotas ...string) *ResourceQuota {
		var data []byte
		if config != "" {
			data = []byte("{apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [" + config + "]}")
		}
		p, err := NewResourceQuota(worldOf(t, map[string][]string{"resourcequotas": quotas}), data, clock)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	one := func(hard, used, spec string) string {
		return "{metadata: {name: q, namespace: default}, spec: {hard: {" + hard + "}, " + spec + "}, status: {hard: {" + hard + "}, used: {" + used + "}}}"
	}
	pod := write{object: "{metadata: {name: p}, spec: {priorityClassName: high, containers: [{name: c, image: i, resources: {requests: {cpu: 1}, limits: {cpu: 2}}}]}}"}
	verdicts(t, with("", one("pods: 1, limits.cpu: 3", "pods: 0, limits.cpu: 2", "")), map[string]verdict{
		"too much":        {write: pod, refused: `pods "p" is forbidden: exceeded quota: q, requested: limits.cpu=2, used: limits.cpu=2, limited: limits.cpu=3`},
		"says too little": {write: write{object: plainPod}, refused: "failed quota: q: must specify limits.cpu for: c"},
		"not counted":     {write: write{resource: "configmaps", object: "{metadata: {name: c}}"}},
		"status":          {write: write{op: admission.Update, subresource: "status", object: pod.object, old: plainPod}},
	})
	verdicts(t, with("", one("pods: 1, requests.storage: 1Gi", "requests.storage: 0", "")), map[string]verdict{
		"not counted yet": {write: pod, refused: "status unknown for quota: q, resources: pods"},
	})
	verdicts(t, with("", one("pods: 0", "pods: 0", "scopes: [BestEffort]")), map[string]verdict{
		"other scope": {write: pod}, "scope": {write: write{object: plainPod}, refused: "exceeded quota: q"},
	})
	selector := "scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}"
	verdicts(t, with("", one("pods: 0", "pods: 0", selector)), map[string]verdict{"selected": {write: pod, refused: "exceeded quota: q"}, "not selected": {write: write{object: plainPod}}})

	ends := write{op: admission.Update, object: "{metadata: {name: p}, spec: {activeDeadlineSeconds: 5, containers: [{name: c, image: i}]}}", old: plainPod}
	verdicts(t, with("", one("pods: 1", "pods: 1", "scopes: [Terminating]"), one("pods: 0", "pods: 0", "scopes: [NotTerminating]")), map[string]verdict{
		"into a full scope": {write: ends, refused: "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"},
		"of the same scope": {write: write{op: admission.Update, object: plainPod, old: plainPod}},
	})

	limited := "{resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: [high]}]}, {resource: persistentvolumeclaims, matchContains: [.storageclass.storage.k8s.io/requests.storage]}"
	claim := write{resource: "persistentvolumeclaims", object: "{metadata: {name: v}, spec: {storageClassName: gold, resources: {requests: {storage: 1Gi}}}}"}
	verdicts(t, with(limited), map[string]verdict{
		"uncovered scope": {write: pod, refused: "insufficient quota to match these scopes: [{PriorityClass In [high]}]"},
		"other pods":      {write: write{object: plainPod}},
		"uncovered name":  {write: claim, refused: "insufficient quota to consume: gold.storageclass.storage.k8s.io/requests.storage"},
	})
	verdicts(t, with(limited, one("pods: 5", "pods: 0", selector), one("gold.storageclass.storage.k8s.io/requests.storage: 2Gi", "gold.storageclass.storage.k8s.io/requests.storage: 0", "")), map[string]verdict{
		"covered scope": {write: pod}, "covered name": {write: claim},
	})
	if _, err := NewResourceQuota(nil, []byte("{apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [{}]}"), clock); err == nil {
		t.Error("a limited resource without a name passes")
	}
}

// A claim to devices counts for the extended resource whose name their class has, beside what its own pod counts for.
func TestResourceQuotaOfExtendedResources(t *testing.T) {
	t.Parallel()
	const names = "requests.example.com/gpu: 5"
	p := &ResourceQuota{Clock: clocktesting.NewFakeClock(time.Unix(0, 0)), Objects: worldOf(t, map[string][]string{
		"resourcequotas": {"{metadata: {name: q, namespace: default}, spec: {hard: {" + names + "}}, status: {hard: {" + names + "}, used: {requests.example.com/gpu: 2}}}"},
		"deviceclasses":  {"{metadata: {name: gpu}, spec: {extendedResourceName: example.com/gpu}}"},
		"pods":           {"{metadata: {name: p, namespace: default, uid: u}, spec: {containers: [{name: c, resources: {requests: {example.com/gpu: 2}}}]}}"},
	})}
	claim := func(metadata string) write {
		return write{resource: "resourceclaims", object: "{metadata: {name: c, namespace: default" + metadata + "}, spec: {devices: {requests: [{name: a, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 4}}]}}}"}
	}
	own := `, annotations: {resource.kubernetes.io/extended-resource-claim: "true"}, ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u, controller: true}]`
	verdicts(t, p, map[string]verdict{
		"another's":      {write: claim(""), refused: "exceeded quota: q, requested: requests.example.com/gpu=4, used: requests.example.com/gpu=2, limited: requests.example.com/gpu=5"},
		"the pod's rest": {write: claim(own)},
	})
}

// What is charged is for the commit to add; where nothing is, no transaction is needed.
func TestResourceQuotaCharges(t *testing.T) {
	t.Parallel()
	hard := "{metadata: {name: q, namespace: default}, spec: {hard: {services.nodeports: 5, services: 5}}, status: {hard: {services.nodeports: 5, services: 5}, used: {services.nodeports: 3, services: 1}}}"
	p := &ResourceQuota{Objects: worldOf(t, map[string][]string{"resourcequotas": {hard}}), Clock: clocktesting.NewFakeClock(time.Unix(0, 0))}
	service := func(kind, ports string) string {
		return "{metadata: {name: s}, spec: {type: " + kind + ", ports: [" + ports + "]}}"
	}
	for name, test := range map[string]struct {
		write
		want string
	}{
		"create":  {write{resource: "services", object: service("NodePort", "{port: 1}, {port: 2}")}, "services=1,services.nodeports=2"},
		"plain":   {write{resource: "services", object: service("ClusterIP", "{port: 1}, {port: 2}")}, "services=1"},
		"less":    {write{op: admission.Update, resource: "services", object: service("ClusterIP", "{port: 1}"), old: service("NodePort", "{port: 1}, {port: 2}")}, "services.nodeports=-2"},
		"as much": {write{op: admission.Update, resource: "services", object: service("NodePort", "{port: 3}"), old: service("NodePort", "{port: 1}")}, ""},
		"other":   {write{resource: "configmaps", object: "{metadata: {name: c}}"}, ""},
	} {
		a, _ := test.attributes(t)
		if err := admit(p, a); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := ""
		if a.Usage != nil {
			list, err := a.Usage.Charge(p.Objects.List(t.Context(), "", "resourcequotas", "default")[0].(*corev1.ResourceQuota))
			if err != nil {
				t.Error(err)
			}
			got = quota.Format(list)
		}
		if got != test.want {
			t.Errorf("%s: charges %q, want %q", name, got, test.want)
		}
	}
}
