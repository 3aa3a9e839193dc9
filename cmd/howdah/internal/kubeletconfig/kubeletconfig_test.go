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

func file(text string) File { return File{"f", []byte(text)} }

func TestRead(t *testing.T) {
	t.Parallel()
	got, err := Read(file(head + `
maxPods: 50
podPidsLimit: -1
clusterDNS: [10.96.0.10, "fd00::a"]
cgroupDriver: cgroupfs
syncFrequency: 0s
evictionHard: {memory.available: 200Mi, nodefs.available: 5%}
evictionSoftGracePeriod: {memory.available: 1m}
kubeReserved: {cpu: 100m, memory: 1Gi}
enforceNodeAllocatable: [pods]
authentication: {anonymous: {enabled: false}, webhook: {enabled: true, cacheTTL: 2m0s}, x509: {clientCAFile: /ca}}
authorization: {mode: Webhook}
crashLoopBackOff: {maxContainerRestartPeriod: 30s}
memorySwap: {swapBehavior: LimitedSwap}
registerWithTaints: [{key: a, value: b, effect: NoSchedule}, {key: c, effect: NoExecute}]
reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 1, limits: {memory: 1Gi, hugepages-2Mi: 4Mi}}]
shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 10}, {priority: 1000, shutdownGracePeriodSeconds: 20}]
staticPodURLHeader: {X-A: [one, "two, three"]}
nodeLeaseDurationSeconds: 20
nodeStatusUpdateFrequency: 5s
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"max-pods": "50", "pod-max-pids": "-1", "cluster-dns": "10.96.0.10,fd00::a", "eviction-hard": "memory.available<200Mi,nodefs.available<5%",
		"eviction-soft-grace-period": "memory.available=1m", "kube-reserved": "cpu=100m,memory=1Gi", "enforce-node-allocatable": "pods", "anonymous-auth": "false",
		"max-container-restart-period": "30s", "swap-behavior": "LimitedSwap", "register-with-taints": "a=b:NoSchedule,c:NoExecute",
		"reserved-memory": "0:memory=1Gi;1:hugepages-2Mi=4Mi,memory=1Gi", "shutdown-grace-period-by-pod-priority": "0=10s,1000=20s",
		"node-lease-duration": "20s", "node-status-update-frequency": "5s", "node-status-report-frequency": "5s", "client-ca-file": "/ca",
		"manifest-url-header": `"X-A:one","X-A:two, three"`,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestLaterFilesGoFirst has a file correct what another says, and leave alone what it does not name.
func TestLaterFilesGoFirst(t *testing.T) {
	t.Parallel()
	got, err := Read(
		file(head+"cgroupDriver: systemd\nmaxPods: 50\nclusterDNS: [a, b]\nevictionHard: {memory.available: 1Gi, pid.available: 5%}\nkubeReserved: {cpu: 1}"),
		file(head+"cgroupDriver: cgroupfs\nclusterDNS: [c]\nevictionHard: {memory.available: 2Gi}\nkubeReserved: null"),
	)
	want := map[string]string{"max-pods": "50", "cluster-dns": "c", "eviction-hard": "memory.available<2Gi,pid.available<5%"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Read(file(head), File{"other", []byte("kind: Pod")}); err == nil || !strings.HasPrefix(err.Error(), "other: it is a Pod") {
		t.Errorf("%v", err)
	}
}

// TestWhatKubeadmWrites reads what kubeadm init writes for its nodes, with the one setting changed that a node has otherwise.
func TestWhatKubeadmWrites(t *testing.T) {
	t.Parallel()
	got, err := Read(file(head + `
authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 0s, enabled: true}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}}
cgroupDriver: cgroupfs
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: ""
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
imageMaximumGCAge: 0s
logging: {flushFrequency: 0, options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}, verbosity: 0}
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
runtimeRequestTimeout: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
`))
	if err != nil || got["healthz-port"] != "10248" || got["resolv-conf"] != "/run/systemd/resolve/resolv.conf" || got["client-ca-file"] != "/etc/kubernetes/pki/ca.crt" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		head + "maxPod: 1":                     `unknown field "maxPod"`,
		head + "maxPods: many":                 "cannot unmarshal",
		head + "cgroupDriver: systemd":         "cgroupDriver: the node agent has cgroupfs alone, not systemd",
		head + "kubeAPIQPS: 5\noomScoreAdj: 1": "oomScoreAdj: the node agent has no such setting",
		head + "logging: {verbosity: 5}":       "logging.verbosity: the node agent has 0 alone, not 5",
		"kind: Pod\napiVersion: v1":            "it is a Pod of v1, not a KubeletConfiguration",
		"kind: KubeletConfiguration":           "not a KubeletConfiguration of kubelet.config.k8s.io/v1beta1",
	} {
		if _, err := Read(file(text)); err == nil || !strings.Contains(err.Error(), want) {
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
	if got, err := Read(File{Data: data}); err != nil || got["register-with-taints"] != "dedicated=batch:NoSchedule" {
		t.Errorf("%v, %v", got, err)
	}
}
