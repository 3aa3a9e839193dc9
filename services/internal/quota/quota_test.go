package quota

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

var now = time.Unix(1_700_000_000, 0)

func read[T any](t *testing.T, text string) *T {
	t.Helper()
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return obj
}

func TestUsage(t *testing.T) {
	t.Parallel()
	pod := func(spec, status string) any {
		return read[corev1.Pod](t, "{spec: {"+spec+"}, status: {"+status+"}}")
	}
	claim := func(text string) any { return read[corev1.PersistentVolumeClaim](t, text) }
	service := func(spec string) any { return read[corev1.Service](t, "{spec: {"+spec+"}}") }
	busy := "overhead: {cpu: 50m}, initContainers: [{name: i, resources: {requests: {cpu: 2}}}], containers: [" +
		"{name: a, resources: {requests: {cpu: 1, memory: 1Gi, hugepages-2Mi: 4Mi, example.com/gpu: 1}, limits: {memory: 2Gi, hugepages-2Mi: 4Mi, example.com/gpu: 1}}}," +
		"{name: b, resources: {requests: {cpu: 500m, ephemeral-storage: 1Gi}, limits: {cpu: 1, ephemeral-storage: 2Gi}}}]"
	tests := map[string]struct {
		group, resource string
		obj             any
		want            string
	}{
		"pod": {"", "pods", pod(busy, ""), "count/pods=1,cpu=2050m,ephemeral-storage=1Gi,hugepages-2Mi=4Mi,limits.cpu=1050m,limits.ephemeral-storage=2Gi,limits.memory=2Gi," +
			"memory=1Gi,pods=1,requests.cpu=2050m,requests.ephemeral-storage=1Gi,requests.example.com/gpu=1,requests.hugepages-2Mi=4Mi,requests.memory=1Gi"},
		"devices of a class": {"", "pods", pod("containers: [{name: a, resources: {requests: {deviceclass.resource.kubernetes.io/gpu: 2}, limits: {deviceclass.resource.kubernetes.io/gpu: 2}}}]", ""),
			"count/pods=1,pods=1,requests.deviceclass.resource.kubernetes.io/gpu=2"},
		"ended pod":     {"", "pods", pod(busy, "phase: Succeeded"), "count/pods=1"},
		"cluster IP":    {"", "services", service("type: ClusterIP, ports: [{port: 1}]"), "count/services=1,services=1"},
		"node port":     {"", "services", service("type: NodePort, ports: [{port: 1}, {port: 2}]"), "count/services=1,services=1,services.nodeports=2"},
		"load balancer": {"", "services", service("type: LoadBalancer, ports: [{port: 1}]"), "count/services=1,services=1,services.loadbalancers=1,services.nodeports=1"},
		"without ports": {"", "services", service("type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 1}, {port: 2, nodePort: 30000}]"),
			"count/services=1,services=1,services.loadbalancers=1,services.nodeports=1"},
		"claim": {"", "persistentvolumeclaims", claim("{spec: {storageClassName: gold, resources: {requests: {storage: 1Gi}}}}"),
			"count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/requests.storage=1Gi,persistentvolumeclaims=1,requests.storage=1Gi"},
		"claim, shrunk": {"", "persistentvolumeclaims", claim("{spec: {resources: {requests: {storage: 1Gi}}}, status: {allocatedResources: {storage: 3Gi}}}"),
			"count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=3Gi"},
		"secret":     {"", "secrets", nil, "count/secrets=1,secrets=1"},
		"deployment": {"apps", "deployments", nil, "count/deployments.apps=1"},
		"devices": {"resource.k8s.io", "resourceclaims", read[resourcev1.ResourceClaim](t, "{spec: {devices: {requests: [{name: a, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 2}},"+
			" {name: b, firstAvailable: [{name: x, deviceClassName: gpu, allocationMode: ExactCount, count: 1}, {name: y, deviceClassName: nic, allocationMode: All}]}]}}}"),
			"count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=3,nic.deviceclass.resource.k8s.io/devices=32"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gr := schema.GroupResource{Group: test.group, Resource: test.resource}
			used := Usage(gr, test.obj, now, Known{})
			if got := Format(used); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			for consumed := range used {
				if !Relevant(gr, consumed) {
					t.Errorf("%s is consumed and not relevant", consumed)
				}
			}
		})
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	urgent := read[corev1.Pod](t, "{spec: {priorityClassName: high, activeDeadlineSeconds: 5, containers: [{name: c, resources: {requests: {cpu: 1}}}]}}")
	plain := read[corev1.Pod](t, "{spec: {containers: [{name: c}]}}")
	crossing := read[corev1.Pod](t, "{spec: {affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a, namespaceSelector: {}}}]}}}}")
	gold := read[corev1.PersistentVolumeClaim](t, "{spec: {volumeAttributesClassName: gold}}")
	for name, test := range map[string]struct {
		spec string
		obj  any
		want bool
	}{
		"none":              {"", plain, true},
		"terminating":       {"scopes: [Terminating]", urgent, true},
		"not terminating":   {"scopes: [NotTerminating]", urgent, false},
		"best effort":       {"scopes: [BestEffort]", plain, true},
		"both":              {"scopes: [BestEffort, NotTerminating]", plain, true},
		"one of both":       {"scopes: [BestEffort, Terminating]", plain, false},
		"not best effort":   {"scopes: [NotBestEffort]", urgent, true},
		"class in":          {"scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high, low]}]}", urgent, true},
		"class not in":      {"scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: NotIn, values: [high]}]}", plain, true},
		"class exists":      {"scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: Exists}]}", plain, false},
		"class absent":      {"scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: DoesNotExist}]}", plain, true},
		"crossing":          {"scopes: [CrossNamespacePodAffinity]", crossing, true},
		"not crossing":      {"scopes: [CrossNamespacePodAffinity]", plain, false},
		"attributes":        {"scopeSelector: {matchExpressions: [{scopeName: VolumeAttributesClass, operator: In, values: [gold]}]}", gold, true},
		"other attributes":  {"scopeSelector: {matchExpressions: [{scopeName: VolumeAttributesClass, operator: In, values: [tin]}]}", gold, false},
		"scoped, no pod":    {"scopes: [NotTerminating]", &corev1.Service{}, false},
		"no scope, service": {"", &corev1.Service{}, true},
	} {
		if got := Counts(read[corev1.ResourceQuotaSpec](t, "{"+test.spec+"}"), test.obj); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestDeltaAndFits(t *testing.T) {
	t.Parallel()
	q := read[corev1.ResourceQuota](t, "{metadata: {name: q}, status: {hard: {pods: 2, cpu: 1}, used: {pods: 3, cpu: 900m}}}")
	list := func(text string) List { return *read[List](t, "{"+text+"}") }
	if err := Fits(q, list("pods: '-1'")); err != nil {
		t.Errorf("less than before is refused: %v", err)
	}
	err := Fits(q, list("pods: '1', cpu: 200m"))
	if want := "exceeded quota: q, requested: cpu=200m,pods=1, used: cpu=900m,pods=3, limited: cpu=1,pods=2"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if got := Format(Delta(list("a: 1, b: 2, c: 3"), list("a: 1, b: 3, d: 1"))); got != "b=-1,c=3,d=-1" {
		t.Errorf("delta %s", got)
	}
	if !Equal(list("cpu: 1000m"), list("cpu: 1")) || Equal(list("cpu: 1"), list("memory: 1")) {
		t.Error("equal is not what it should be")
	}
}

// A change can bring an object into the scopes of one quota and out of those of another.
func TestChargeAcrossScopes(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	plain := read[corev1.Pod](t, "{spec: {containers: [{name: c}]}}")
	ends := read[corev1.Pod](t, "{spec: {activeDeadlineSeconds: 9, containers: [{name: c}]}}")
	of := func(scope string) *corev1.ResourceQuota {
		return read[corev1.ResourceQuota](t, "{spec: {scopes: ["+scope+"]}, status: {hard: {pods: 5}, used: {pods: 1}}}")
	}
	for name, tt := range map[string]struct {
		scope    string
		old, now any
		want     string
	}{
		"into": {"Terminating", plain, ends, "pods=1"}, "out of": {"NotTerminating", plain, ends, "pods=-1"}, "within": {"BestEffort", plain, ends, ""},
		"new": {"Terminating", nil, ends, "pods=1"}, "never": {"NotBestEffort", plain, ends, ""},
	} {
		w := Write{Resource: pods, Object: tt.now, Old: tt.old}
		delta, err := w.Delta()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := w.Charge(of(tt.scope), delta); err != nil || Format(got) != tt.want {
			t.Errorf("%s: %q, %v; want %q", name, Format(got), err, tt.want)
		}
	}
}
