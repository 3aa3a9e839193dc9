package kubeletconfig

import (
	"maps"
	"os"
	"strings"
	"testing"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

const head = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"

func TestRead(t *testing.T) {
	t.Parallel()
	got, err := Read([]byte(head + `
maxPods: 50
podPidsLimit: -1
clusterDNS: [10.96.0.10, "fd00::a"]
cgroupDriver: cgroupfs
syncFrequency: 0s
evictionHard: {memory.available: 200Mi, nodefs.available: 5%}
evictionSoftGracePeriod: {memory.available: 1m}
kubeReserved: {cpu: 100m, memory: 1Gi}
enforceNodeAllocatable: [pods]
authentication: {anonymous: {enabled: false}, webhook: {enabled: true, cacheTTL: 2m0s}}
authorization: {mode: Webhook}
crashLoopBackOff: {maxContainerRestartPeriod: 30s}
memorySwap: {swapBehavior: LimitedSwap}
registerWithTaints: [{key: a, value: b, effect: NoSchedule}, {key: c, effect: NoExecute}]
reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 1, limits: {memory: 1Gi, hugepages-2Mi: 4Mi}}]
shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 10}, {priority: 1000, shutdownGracePeriodSeconds: 20}]
staticPodURLHeader: {X-A: [one, "two, three"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"max-pods": "50", "pod-max-pids": "-1", "cluster-dns": "10.96.0.10,fd00::a", "eviction-hard": "memory.available<200Mi,nodefs.available<5%",
		"eviction-soft-grace-period": "memory.available=1m", "kube-reserved": "cpu=100m,memory=1Gi", "enforce-node-allocatable": "pods", "anonymous-auth": "false",
		"max-container-restart-period": "30s", "swap-behavior": "LimitedSwap", "register-with-taints": "a=b:NoSchedule,c:NoExecute",
		"reserved-memory": "0:memory=1Gi;1:hugepages-2Mi=4Mi,memory=1Gi", "shutdown-grace-period-by-pod-priority": "0=10s,1000=20s",
		"manifest-url-header": `"X-A:one","X-A:two, three"`,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		head + "maxPod: 1":                                   `unknown field "maxPod"`,
		head + "maxPods: many":                               "cannot unmarshal",
		head + "cgroupDriver: systemd":                       "cgroupDriver: the node agent has cgroupfs alone, not systemd",
		head + "kubeAPIQPS: 5\noomScoreAdj: 1":               "oomScoreAdj: the node agent has no such setting",
		head + "authentication: {x509: {clientCAFile: /ca}}": "authentication.x509: the node agent has no such setting",
		"kind: Pod\napiVersion: v1":                          "it is a Pod of v1, not a KubeletConfiguration",
		"kind: KubeletConfiguration":                         "not a KubeletConfiguration of kubelet.config.k8s.io/v1beta1",
	} {
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestTablesNameFields holds the tables to the fields that there are: each is one of a KubeletConfiguration.
func TestTablesNameFields(t *testing.T) {
	t.Parallel()
	known := func(path string) {
		value := "null"
		parts := strings.Split(path, ".")
		for i := len(parts) - 1; i >= 0; i-- {
			value = "{" + parts[i] + ": " + value + "}"
		}
		var typed kubeletv1beta1.KubeletConfiguration
		if err := yaml.UnmarshalStrict([]byte(value), &typed); err != nil && strings.Contains(err.Error(), "unknown field") {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path := range flags {
		known(path)
		if _, both := fixed[path]; both {
			t.Errorf("%s is in both tables", path)
		}
	}
	for path := range fixed {
		known(path)
	}
	for _, path := range objects {
		known(path)
	}
}

func TestExample(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../../examples/config/kubelet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Read(data); err != nil || got["register-with-taints"] != "dedicated=batch:NoSchedule" {
		t.Errorf("%v, %v", got, err)
	}
}
