package admit

import (
	"cmp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/nodeagent/internal/pod"
)

// amounts reads "cpu=1 memory=1Gi".
func amounts(text string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, word := range strings.Fields(text) {
		name, value, _ := strings.Cut(word, "=")
		list[corev1.ResourceName(name)] = resource.MustParse(value)
	}
	return list
}

func asking(text string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: amounts(text)}}}}}
}

func changed(p *corev1.Pod, change func(p *corev1.Pod)) *corev1.Pod {
	change(p)
	return p
}

// site is a node with room for three pods, on which one is already.
func site(t *testing.T, change func(s *Site)) Site {
	t.Helper()
	allowed, err := NewSysctls([]string{"kernel.msg*", "net.core.somaxconn"})
	if err != nil {
		t.Fatal(err)
	}
	s := Site{
		Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"disk": "ssd"}}, Status: corev1.NodeStatus{
			Allocatable: amounts("cpu=2 memory=1Gi ephemeral-storage=10Gi pods=3 example.com/gpu=1"),
		}},
		Others: []*corev1.Pod{asking("cpu=500m memory=256Mi example.com/gpu=1")}, Sysctls: allowed, AppArmor: true,
	}
	if change != nil {
		change(&s)
	}
	return s
}

// taken says that the scheduler has taken a container's resources from drivers.
func taken(container string, resources ...string) *corev1.PodExtendedResourceClaimStatus {
	s := &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "devices"}
	for _, r := range resources {
		s.RequestMappings = append(s.RequestMappings, corev1.ContainerExtendedResourceRequest{ContainerName: container, ResourceName: r, RequestName: "r"})
	}
	return s
}

func TestCheck(t *testing.T) {
	t.Parallel()
	secured := func(c corev1.PodSecurityContext) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &c, Containers: []corev1.Container{{Name: "a"}}}}
	}
	setting := func(names ...string) *corev1.Pod {
		var list []corev1.Sysctl
		for _, name := range names {
			list = append(list, corev1.Sysctl{Name: name, Value: "1"})
		}
		return secured(corev1.PodSecurityContext{Sysctls: list})
	}
	short := func(kinds ...corev1.NodeConditionType) func(s *Site) {
		return func(s *Site) {
			for _, kind := range kinds {
				s.Node.Status.Conditions = append(s.Node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue})
			}
		}
	}
	tainted := func(effect corev1.TaintEffect) func(s *Site) {
		return func(s *Site) { s.Node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: effect}} }
	}
	strict, yes := corev1.SupplementalGroupsPolicyStrict, true
	confined := &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		change func(s *Site)
		want   string // "reason: message", or nothing where it is taken
	}{
		"fits":                    {asking("cpu=1500m memory=768Mi"), nil, ""},
		"asks for nothing":        {asking(""), func(s *Site) { s.Node.Status.Allocatable = amounts("pods=3") }, ""},
		"too much cpu":            {asking("cpu=1501m memory=2Gi"), nil, "OutOfcpu: Node didn't have enough resource: cpu, requested: 1501, used: 500, capacity: 2000"},
		"too much memory":         {asking("memory=769Mi"), nil, "OutOfmemory: Node didn't have enough resource: memory, requested: 806354944, used: 268435456, capacity: 1073741824"},
		"too much disk":           {asking("ephemeral-storage=11Gi"), nil, "OutOfephemeral-storage: Node didn't have enough resource: ephemeral-storage, requested: 11811160064, used: 0, capacity: 10737418240"},
		"a device that is used":   {asking("example.com/gpu=1"), nil, "OutOfexample.com/gpu: Node didn't have enough resource: example.com/gpu, requested: 1, used: 1, capacity: 1"},
		"a device of the cluster": {asking("example.com/licence=1"), nil, ""},
		"devices of drivers": {changed(asking("cpu=1 example.com/gpu=2 deviceclass.resource.kubernetes.io/nic=1"), func(p *corev1.Pod) {
			p.Status.ExtendedResourceClaimStatus = taken("a", "example.com/gpu", "deviceclass.resource.kubernetes.io/nic")
		}), nil, ""},
		"devices of drivers, for another container": {changed(asking("example.com/gpu=2"), func(p *corev1.Pod) {
			p.Status.ExtendedResourceClaimStatus = taken("b", "example.com/gpu")
		}), nil, "OutOfexample.com/gpu: Node didn't have enough resource: example.com/gpu, requested: 2, used: 1, capacity: 1"},
		"what no driver has": {changed(asking("cpu=3"), func(p *corev1.Pod) { p.Status.ExtendedResourceClaimStatus = taken("a", "cpu") }), nil,
			"OutOfcpu: Node didn't have enough resource: cpu, requested: 3000, used: 500, capacity: 2000"},
		"a class that nobody chose from": {asking("deviceclass.resource.kubernetes.io/nic=1"), nil,
			"OutOfdeviceclass.resource.kubernetes.io/nic: Node didn't have enough resource: deviceclass.resource.kubernetes.io/nic, requested: 1, used: 0, capacity: 0"},
		"huge pages that are not": {asking("hugepages-2Mi=2Mi"), nil, "OutOfhugepages-2Mi: Node didn't have enough resource: hugepages-2Mi, requested: 2097152, used: 0, capacity: 0"},
		"one pod too many": {asking(""), func(s *Site) { s.Others = append(s.Others, asking(""), asking("")) },
			"OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"},
		"what an init container asks for counts": {changed(asking(""), func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: corev1.ResourceRequirements{Requests: amounts("cpu=3")}}}
		}), nil, "OutOfcpu: Node didn't have enough resource: cpu, requested: 3000, used: 500, capacity: 2000"},
		"what another was given counts": {asking("cpu=1"), func(s *Site) {
			s.Others[0].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", Resources: &corev1.ResourceRequirements{Requests: amounts("cpu=1500m")}, AllocatedResources: amounts("cpu=1500m")}}
		}, "OutOfcpu: Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000"},

		"the node's label":          {changed(asking(""), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }), nil, ""},
		"another node's":            {changed(asking(""), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "tape"} }), nil, "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"},
		"another node's name":       {changed(asking(""), func(p *corev1.Pod) { p.Spec.NodeName = "m" }), nil, "NodeName: Predicate NodeName failed: node(s) didn't match the requested node name"},
		"a taint that evicts":       {asking(""), tainted(corev1.TaintEffectNoExecute), "TaintToleration: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"},
		"a taint for the scheduler": {asking(""), tainted(corev1.TaintEffectNoSchedule), ""},
		"a taint that it tolerates": {changed(asking(""), func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
		}), tainted(corev1.TaintEffectNoExecute), ""},
		"a machine that goes down": {asking(""), func(s *Site) { s.Down = true }, "NodeShutdown: Pod was rejected as the node is shutting down."},
		"another system":           {changed(asking(""), func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }), nil, "PodOSNotSupported: Failed to admit pod as the OS field doesn't match node OS"},
		"this system":              {changed(asking(""), func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Linux} }), nil, ""},
		"another system's label": {changed(asking(""), func(p *corev1.Pod) { p.Labels = map[string]string{"kubernetes.io/os": "windows"} }), nil,
			"PodOSSelectorNodeLabelDoesNotMatch: Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"},

		"short of disk":                {asking("cpu=1"), short(corev1.NodeDiskPressure), "Evicted: The node had condition: [DiskPressure]. "},
		"short of two":                 {asking("cpu=1"), short(corev1.NodePIDPressure, corev1.NodeMemoryPressure), "Evicted: The node had condition: [MemoryPressure PIDPressure]. "},
		"short of memory":              {asking(""), short(corev1.NodeMemoryPressure), "Evicted: The node had condition: [MemoryPressure]. "},
		"short of memory, asking":      {asking("cpu=1"), short(corev1.NodeMemoryPressure), ""},
		"short of memory, tolerating":  {changed(asking(""), func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }), short(corev1.NodeMemoryPressure), ""},
		"short, and the system's need": {changed(asking(""), func(p *corev1.Pod) { priority := int32(pod.SystemCritical); p.Spec.Priority = &priority }), short(corev1.NodeDiskPressure), ""},

		"safe sysctls":                 {setting("kernel.shm_rmid_forced", "net/ipv4/ip_local_port_range"), nil, ""},
		"an unsafe sysctl":             {setting("kernel.shmmax"), nil, `SysctlForbidden: forbidden sysctl: "kernel.shmmax" not allowlisted`},
		"one that is allowed":          {setting("net.core.somaxconn"), nil, ""},
		"one that a pattern allows":    {setting("kernel.msgmax"), nil, ""},
		"of the node's network":        {changed(setting("net.core.somaxconn"), func(p *corev1.Pod) { p.Spec.HostNetwork = true }), nil, `SysctlForbidden: forbidden sysctl: "net.core.somaxconn" not allowed with host Net enabled`},
		"of the node's IPC":            {changed(setting("kernel.msgmax"), func(p *corev1.Pod) { p.Spec.HostIPC = true }), nil, `SysctlForbidden: forbidden sysctl: "kernel.msgmax" not allowed with host IPC enabled`},
		"groups nobody keeps out":      {secured(corev1.PodSecurityContext{SupplementalGroupsPolicy: &strict}), nil, "SupplementalGroupsPolicyNotSupported: SupplementalGroupsPolicy=Strict is not supported in this node"},
		"groups the runtime keeps out": {secured(corev1.PodSecurityContext{SupplementalGroupsPolicy: &strict}), func(s *Site) { s.Node.Status.Features = &corev1.NodeFeatures{SupplementalGroupsPolicy: &yes} }, ""},
		"a profile":                    {secured(corev1.PodSecurityContext{AppArmorProfile: confined}), nil, ""},
		"a profile nobody enforces": {changed(asking(""), func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AppArmorProfile: confined}
		}), func(s *Site) { s.AppArmor = false }, "AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host"},
		"unconfined": {secured(corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}}), func(s *Site) { s.AppArmor = false }, ""},
	} {
		got := ""
		if failure := bothChecks(test.pod, site(t, test.change)); failure != nil {
			got = failure.Reason + ": " + failure.Message
			if !failure.Rejected {
				t.Errorf("%s: it is not a rejection", name)
			}
		}
		if got != test.want {
			t.Errorf("%s:\n%q, want\n%q", name, got, test.want)
		}
	}
}

func TestSysctlsOfAllPods(t *testing.T) {
	t.Parallel()
	if _, err := NewSysctls([]string{"vm.swappiness", "kernel.msg*"}); err == nil || !strings.Contains(err.Error(), `"vm.swappiness" is not known to be namespaced`) {
		t.Errorf("error %v", err)
	}
}

// bothChecks asks everything that is asked before and after a pod has got what it is to have for itself.
func bothChecks(p *corev1.Pod, s Site) *pod.Failure { return cmp.Or(Early(p, s), Late(p, s)) }
