package container

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type objects struct{}

func (objects) ConfigMap(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
	if name != "cm" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmap"}, name)
	}
	return &corev1.ConfigMap{Data: map[string]string{"a": "1", "b.c": "2", "=bad": "3"}}, nil
}

func (objects) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	if name != "s" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secret"}, name)
	}
	return &corev1.Secret{Data: map[string][]byte{"k": []byte("hush")}}, nil
}

func (objects) Services(namespace string) []*corev1.Service {
	service := func(name, ip string, port int32) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Name: "web-port", Port: port, Protocol: corev1.ProtocolTCP}}}}
	}
	if namespace == "default" {
		return []*corev1.Service{service("kubernetes", "10.96.0.1", 443), service("other", "10.96.0.3", 1)}
	}
	return []*corev1.Service{service("my-db", "10.96.0.2", 5432), service("headless", "None", 1)}
}

func builder(t *testing.T) *Builder {
	t.Helper()
	dir := t.TempDir()
	return &Builder{
		Pod:    &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Labels: map[string]string{"app": "x"}, Annotations: map[string]string{"n": "v"}}},
		Status: &corev1.PodStatus{PodIP: "10.0.0.2", PodIPs: []corev1.PodIP{{IP: "10.0.0.2"}}, HostIP: "192.0.2.1"},
		Node: Node{Name: "node", RootDir: dir, LogDir: "/logs", ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local",
			HostDNS: DNS{Servers: []string{"192.0.2.53"}, Searches: []string{"example.com"}}, HostsFile: filepath.Join(dir, "hosts"),
			Capacity:    corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("10Gi")},
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}},
		Objects: objects{},
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	look := func(name string) (string, bool) { return "<" + name + ">", name != "NONE" }
	for text, want := range map[string]string{
		"plain": "plain", "$(A)": "<A>", "a$(A)b$(B)": "a<A>b<B>", "$$(A)": "$(A)", "$$$(A)": "$<A>", "$(NONE)": "$(NONE)", "$(A": "$(A", "$": "$", "$A": "$A", "$()": "<>",
	} {
		if got := Expand(text, look); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	yes := true
	b := builder(t)
	c := &corev1.Container{
		Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}},
		EnvFrom: []corev1.EnvFromSource{
			{Prefix: "P_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Optional: &yes}},
		},
		Env: []corev1.EnvVar{
			{Name: "A", Value: "a"}, {Name: "B", Value: "$(A)$(P_a)$(MISSING)"},
			{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			{Name: "LABEL", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"}}},
			{Name: "CPU", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu"}}},
			{Name: "LIMIT", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}},
			{Name: "MILLI", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu", Divisor: resource.MustParse("1m")}}},
			{Name: "K", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k"}}},
			{Name: "GONE", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "z", Optional: &yes}}},
			{Name: "MY_DB_SERVICE_PORT", Value: "mine"},
		},
	}
	envs, err := b.environment(t.Context(), Run{Container: c})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range envs {
		got[e.GetKey()] = string(e.GetValue())
	}
	for name, want := range map[string]string{
		"A": "a", "B": "a1$(MISSING)", "IP": "10.0.0.2", "LABEL": "x", "CPU": "2", "LIMIT": "4", "MILLI": "1500", "K": "hush", "P_a": "1", "P_b.c": "2",
		"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", "KUBERNETES_PORT": "tcp://10.96.0.1:443", "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
		"MY_DB_SERVICE_HOST": "10.96.0.2", "MY_DB_SERVICE_PORT": "mine", "MY_DB_SERVICE_PORT_WEB_PORT": "5432",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	for _, name := range []string{"GONE", "OTHER_SERVICE_HOST", "HEADLESS_SERVICE_HOST", "P_=bad"} {
		if _, ok := got[name]; ok {
			t.Errorf("%s is set", name)
		}
	}
	for text, v := range map[string]corev1.EnvVarSource{
		`configmap "x" not found`:                {ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}},
		"couldn't find key z in ConfigMap ns/cm": {ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}, Key: "z"}},
		"couldn't find key z in Secret ns/s":     {SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "z"}},
		"unsupported fieldPath: spec.x":          {FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.x"}},
	} {
		if _, err := b.environment(t.Context(), Run{Container: &corev1.Container{Env: []corev1.EnvVar{{Name: "X", ValueFrom: &v}}}}); err == nil || err.Error() != text {
			t.Errorf("error %v, want %s", err, text)
		}
	}
}

// TestVariablesOfFiles: variables come from what containers have written into a volume, and what is not there is an error unless it may be missing.
func TestVariablesOfFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "env"), []byte("A='a'\nEMPTY=''\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b, volumes := builder(t), Volumes{Mounts: map[string]string{"v": dir}}
	for _, tt := range []struct {
		volume, path, key string
		optional          bool
		want, err         string
	}{
		{"v", "env", "A", false, "a", ""},
		{"v", "env", "EMPTY", true, "", ""},
		{"v", "env", "NONE", true, "", ""},
		{"v", "none", "A", true, "", ""},
		{"v", "env", "EMPTY", false, "", `environment variable key "EMPTY" not found in file "env" of volume "v"`},
		{"v", "none", "A", false, "", `couldn't parse env file "none" of volume "v": `},
		{"w", "env", "A", true, "", `cannot find the volume "w" referenced by FileKeyRef`},
	} {
		ref := &corev1.FileKeySelector{VolumeName: tt.volume, Path: tt.path, Key: tt.key, Optional: &tt.optional}
		c := &corev1.Container{Env: []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{FileKeyRef: ref}}}}
		envs, err := b.environment(t.Context(), Run{Container: c, Volumes: volumes})
		if (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%+v: %v", tt, err)
		}
		got, set := "", false
		for _, e := range envs {
			if e.GetKey() == "X" {
				got, set = string(e.GetValue()), true
			}
		}
		if got != tt.want || set != (tt.want != "") {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	list := func(words ...string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for _, w := range words {
			name, value, _ := strings.Cut(w, "=")
			out[corev1.ResourceName(name)] = resource.MustParse(value)
		}
		return out
	}
	for name, test := range map[string]struct {
		requests, limits     corev1.ResourceList
		shares, quota, limit int64
		score                int64
	}{
		"nothing":    {nil, nil, 2, 0, 0, 1000},
		"burstable":  {list("cpu=500m", "memory=1Gi"), nil, 512, 0, 0, 900},
		"limits":     {nil, list("cpu=250m", "memory=64Mi"), 256, 25_000, 64 << 20, -997},
		"guaranteed": {list("cpu=1", "memory=1Gi"), list("cpu=1", "memory=1Gi"), 1024, 100_000, 1 << 30, -997},
		"tiny":       {list("cpu=1m"), list("cpu=1m"), 2, 1000, 0, 999},
	} {
		b := builder(t)
		c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: test.requests, Limits: test.limits}}
		b.Pod.Spec.Containers = []corev1.Container{c}
		r := Resources(b.Pod, &c, b.Node)
		if r.GetCpuShares() != test.shares || r.GetCpuQuota() != test.quota || r.GetMemoryLimitInBytes() != test.limit || r.GetOomScoreAdj() != test.score {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// Where control groups can, every size of huge pages is limited: to none for containers that ask for none.
func TestHugePagesAreLimited(t *testing.T) {
	t.Parallel()
	b := builder(t)
	b.Node.Capacity = corev1.ResourceList{"hugepages-1Gi": resource.MustParse("0"), "hugepages-2Mi": resource.MustParse("64Mi"), "memory": resource.MustParse("1Gi")}
	c := corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")}}}
	b.Pod.Spec.Containers = []corev1.Container{c}
	if limits := Resources(b.Pod, &c, b.Node).GetHugepageLimits(); len(limits) != 0 {
		t.Errorf("where they cannot: %v", limits)
	}
	b.Node.PageLimits = true
	limits := Resources(b.Pod, &c, b.Node).GetHugepageLimits()
	if len(limits) != 2 || limits[0].GetPageSize() != "2MB" || limits[0].GetLimit() != 4<<20 || limits[1].GetPageSize() != "1GB" || limits[1].GetLimit() != 0 {
		t.Errorf("limits: %v", limits)
	}
}

// A container without limits of its own has those of its pod, and none is killed for memory that the pod as a whole has asked for.
func TestResourcesOfThePodAsAWhole(t *testing.T) {
	t.Parallel()
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	always := corev1.ContainerRestartPolicyAlways
	whole := &corev1.ResourceRequirements{Requests: list("2", "4Gi"), Limits: list("3", "5Gi")}
	none, own := corev1.ResourceRequirements{}, corev1.ResourceRequirements{Requests: list("500m", "1Gi"), Limits: list("1", "2Gi")}
	half := corev1.ResourceRequirements{Requests: list("500m", "1Gi"), Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	for name, test := range map[string]struct {
		pod                         *corev1.ResourceRequirements
		container, other            corev1.ResourceRequirements
		sidecar                     bool
		shares, quota, limit, score int64
	}{
		"none of its own":               {whole, none, none, false, 3072, 300_000, 5 << 30, 800},
		"its own":                       {whole, own, none, false, 512, 100_000, 2 << 30, 750},
		"one of its own":                {whole, half, none, false, 512, 100_000, 5 << 30, 750},
		"what others asked for is gone": {whole, none, own, false, 3072, 300_000, 5 << 30, 850},
		"a pod with requests alone":     {&corev1.ResourceRequirements{Requests: list("2", "4Gi")}, none, none, false, 2, 0, 0, 800},
		"a pod without":                 {nil, none, own, false, 2, 0, 0, 999},
		"a sidecar of a greater one":    {nil, none, own, true, 2, 0, 0, 900},
		"a sidecar that asks for more":  {nil, own, half, true, 512, 100_000, 2 << 30, 900},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := builder(t)
			c, other := corev1.Container{Name: "c", Resources: test.container}, corev1.Container{Name: "other", Resources: test.other}
			b.Pod.Spec.Resources, b.Pod.Spec.InitContainers, b.Pod.Spec.Containers = test.pod, nil, []corev1.Container{other}
			if test.sidecar {
				c.RestartPolicy = &always
				b.Pod.Spec.InitContainers = []corev1.Container{c}
			} else {
				b.Pod.Spec.Containers = append(b.Pod.Spec.Containers, c)
			}
			r := Resources(b.Pod, &c, b.Node)
			if r.GetCpuShares() != test.shares || r.GetCpuQuota() != test.quota || r.GetMemoryLimitInBytes() != test.limit || r.GetOomScoreAdj() != test.score {
				t.Errorf("%v", r)
			}
			want := "10" // what the node can give
			if test.limit > 0 {
				want = strconv.FormatInt(test.limit>>30, 10)
			}
			got, err := Resource(b.Pod, &c, &corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Gi")}, list("8", "10Gi"))
			if err != nil || got != want {
				t.Errorf("limits.memory is %s, want %s: %v", got, want, err)
			}
		})
	}
}

func TestSecurity(t *testing.T) {
	t.Parallel()
	yes, no, root, user, group := true, false, int64(0), int64(1000), int64(2000)
	b := builder(t)
	b.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &user, FSGroup: &group, SupplementalGroups: []int64{3000}, RunAsNonRoot: &yes}
	c := &corev1.Container{Name: "c", SecurityContext: &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"CAP_NET_ADMIN"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}}
	s, err := b.security(c, ImageUser{UID: &root}, "")
	if err != nil {
		t.Fatal(err)
	}
	if s.GetRunAsUser().GetValue() != 1000 || !s.GetNoNewPrivs() || !s.GetReadonlyRootfs() || s.GetPrivileged() || len(s.GetMaskedPaths()) == 0 ||
		!slices.Equal(s.GetSupplementalGroups(), []int64{3000, 2000}) || !slices.Equal(s.GetCapabilities().GetAddCapabilities(), []string{"NET_ADMIN"}) ||
		s.GetSeccomp().GetProfileType() != runtimeapi.SecurityProfile_RuntimeDefault {
		t.Errorf("security context: %v", s)
	}
	about := ` (pod: "p_ns(u)", container: c)`
	for want, test := range map[string]struct {
		user  *int64
		image ImageUser
	}{
		"": {&user, ImageUser{}},
		"container's runAsUser breaks non-root policy" + about:                                                    {&root, ImageUser{}},
		"container has runAsNonRoot and image will run as root" + about:                                           {nil, ImageUser{UID: &root}},
		"container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root" + about: {nil, ImageUser{Name: "app"}},
	} {
		b.Pod.Spec.SecurityContext.RunAsUser = test.user
		_, err := b.security(c, test.image, "")
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	c.SecurityContext = &corev1.SecurityContext{Privileged: &yes}
	b.Pod.Spec.SecurityContext = nil
	if s, err = b.security(c, ImageUser{}, ""); err != nil || !s.GetPrivileged() || len(s.GetMaskedPaths()) > 0 {
		t.Errorf("privileged: %v, %v", s, err)
	}
}

func TestDNSAndHosts(t *testing.T) {
	t.Parallel()
	two := "2"
	for name, test := range map[string]struct {
		change func(p *corev1.Pod)
		want   string
	}{
		"cluster":      {func(p *corev1.Pod) { p.Spec.DNSPolicy = corev1.DNSClusterFirst }, "10.96.0.10 ns.svc.cluster.local,svc.cluster.local,cluster.local,example.com ndots:5"},
		"default":      {func(p *corev1.Pod) { p.Spec.DNSPolicy = corev1.DNSDefault }, "192.0.2.53 example.com "},
		"host network": {func(p *corev1.Pod) { p.Spec.DNSPolicy, p.Spec.HostNetwork = corev1.DNSClusterFirst, true }, "192.0.2.53 example.com "},
		"cluster with host network": {func(p *corev1.Pod) { p.Spec.DNSPolicy, p.Spec.HostNetwork = corev1.DNSClusterFirstWithHostNet, true },
			"10.96.0.10 ns.svc.cluster.local,svc.cluster.local,cluster.local,example.com ndots:5"},
		"none": {func(p *corev1.Pod) {
			p.Spec.DNSPolicy = corev1.DNSNone
			p.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"1.1.1.1"}, Searches: []string{"x"}, Options: []corev1.PodDNSConfigOption{{Name: "edns0"}}}
		}, "1.1.1.1 x edns0"},
		"own options": {func(p *corev1.Pod) {
			p.Spec.DNSPolicy = corev1.DNSClusterFirst
			p.Spec.DNSConfig = &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &two}}}
		}, "10.96.0.10 ns.svc.cluster.local,svc.cluster.local,cluster.local,example.com ndots:2"},
	} {
		b := builder(t)
		test.change(b.Pod)
		d, err := b.dns()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join([]string{strings.Join(d.GetServers(), ","), strings.Join(d.GetSearches(), ","), strings.Join(d.GetOptions(), ",")}, " "); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	b := builder(t)
	b.Pod.Spec.Hostname, b.Pod.Spec.Subdomain = "me", "set"
	b.Pod.Spec.HostAliases = []corev1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"a", "b"}}}
	hosts, err := b.Hosts()
	if err != nil || !strings.Contains(hosts, "10.0.0.2\tme.set.ns.svc.cluster.local\tme\n") || !strings.Contains(hosts, "1.2.3.4\ta\tb\n") {
		t.Errorf("hosts: %v\n%s", err, hosts)
	}
	override, full := "other.name", true
	b.Pod.Spec.Hostname, b.Pod.Spec.SetHostnameAsFQDN = "", &full
	if hosts, err = b.Hosts(); err != nil || !strings.Contains(hosts, "10.0.0.2\t"+b.Pod.Name+".set.ns.svc.cluster.local\t"+b.Pod.Name+"\n") {
		t.Errorf("hosts of a pod that is called by its full name: %v\n%s", err, hosts)
	}
	b.Pod.Spec.Hostname, b.Pod.Spec.HostnameOverride, b.Pod.Spec.SetHostnameAsFQDN = "me", &override, nil
	if hosts, err = b.Hosts(); err != nil || !strings.Contains(hosts, "10.0.0.2\tother.name\n") || strings.Contains(hosts, "cluster.local") {
		t.Errorf("hosts of a pod with a name of its own: %v\n%s", err, hosts)
	}
	b.Pod.Spec.HostNetwork = true
	if err := os.WriteFile(b.Node.HostsFile, []byte("9.9.9.9 node\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if hosts, err = b.Hosts(); err != nil || !strings.Contains(hosts, "9.9.9.9 node\n") {
		t.Errorf("hosts of the node: %v\n%s", err, hosts)
	}
	config, err := b.Sandbox(0)
	if err != nil || config.GetHostname() != "" || config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() != runtimeapi.NamespaceMode_NODE {
		t.Errorf("sandbox on the node's network: %v, %v", config, err)
	}
}

func TestContainer(t *testing.T) {
	t.Parallel()
	b := builder(t)
	c := corev1.Container{
		Name: "c", Image: "i", Command: []string{"run", "$(A)"}, Args: []string{"$$(A)"}, WorkingDir: "/w", TerminationMessagePath: "/dev/termination-log",
		Env: []corev1.EnvVar{{Name: "A", Value: "a"}}, TTY: true,
		VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v", ReadOnly: true}, {Name: "v", MountPath: "rel", SubPathExpr: "x/$(A)"}},
	}
	b.Pod.Spec.Containers = []corev1.Container{c}
	run := Run{Container: &c, Attempt: 3, ImageRef: "sha256:i", Volumes: Volumes{Mounts: map[string]string{"v": "/volumes/v"}}, SubPath: func(volume, sub string) (string, error) { return "/bound/" + volume + "/" + sub, nil }}
	config, err := b.Container(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(config.GetCommand(), []string{"run", "a"}) || !slices.Equal(config.GetArgs(), []string{"$(A)"}) || config.GetLogPath() != "c/3.log" || !config.GetTty() {
		t.Errorf("configuration: %v", config)
	}
	var mounts []string
	for _, m := range config.GetMounts() {
		mounts = append(mounts, m.GetContainerPath()+"<-"+strings.TrimPrefix(m.GetHostPath(), b.Node.RootDir))
	}
	want := []string{"/v<-/volumes/v", "/rel<-/bound/v/x/a", "/etc/hosts<-/pods/u/etc-hosts", "/dev/termination-log<-/pods/u/containers/c/3.message"}
	if !slices.Equal(mounts, want) {
		t.Errorf("mounts %v, want %v", mounts, want)
	}
	for text, m := range map[string]corev1.VolumeMount{
		`cannot find volume "w" to mount into container "c"`:        {Name: "w", MountPath: "/w"},
		"unable to provision SubPath `../x`: must not contain '..'": {Name: "v", MountPath: "/w", SubPath: "../x"},
		`missing value for NONE`:                                    {Name: "v", MountPath: "/w", SubPathExpr: "$(NONE)"},
	} {
		bad := c
		bad.VolumeMounts = []corev1.VolumeMount{m}
		run.Container = &bad
		if _, err := b.Container(t.Context(), run); err == nil || err.Error() != text {
			t.Errorf("error %v, want %s", err, text)
		}
	}
}

func TestImageVolumesAreMountedByTheRuntime(t *testing.T) {
	t.Parallel()
	b := builder(t)
	b.Pod.Annotations = map[string]string{"a": "b"}
	b.Pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "r:1"}}}}
	c := corev1.Container{
		Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "A", Value: "a"}},
		VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}, {Name: "v", MountPath: "/w", SubPath: "etc"}, {Name: "v", MountPath: "/x", SubPathExpr: "x/$(A)"}},
	}
	run := Run{Container: &c, ImageRef: "sha256:i", Images: map[string]VolumeImage{"v": {ID: "sha256:v", Reference: "r:1"}}}
	config, err := b.Container(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ path, sub string }{{"/v", ""}, {"/w", "etc"}, {"/x", "x/a"}} {
		m := config.GetMounts()[i]
		if m.GetContainerPath() != want.path || m.GetImageSubPath() != want.sub || m.GetHostPath() != "" || !m.GetReadonly() {
			t.Errorf("mount %v, want %v", m, want)
		}
		if m.GetImage().GetImage() != "sha256:v" || m.GetImage().GetUserSpecifiedImage() != "r:1" || m.GetImage().GetAnnotations()["a"] != "b" {
			t.Errorf("image %v", m.GetImage())
		}
	}
	c.VolumeMounts[1].SubPath = "../etc"
	if _, err := b.Container(t.Context(), run); err == nil {
		t.Error("a path that leaves the volume is not refused")
	}
}

func TestTargetNamesTheProcessesToJoin(t *testing.T) {
	t.Parallel()
	yes := true
	for name, test := range map[string]struct {
		spec   corev1.PodSpec
		target string
		want   runtimeapi.NamespaceMode
	}{
		"its own":       {corev1.PodSpec{}, "", runtimeapi.NamespaceMode_CONTAINER},
		"another's":     {corev1.PodSpec{}, "id", runtimeapi.NamespaceMode_TARGET},
		"all the pod's": {corev1.PodSpec{ShareProcessNamespace: &yes}, "id", runtimeapi.NamespaceMode_POD},
		"the node's":    {corev1.PodSpec{HostPID: true}, "id", runtimeapi.NamespaceMode_NODE},
	} {
		got := (&Builder{Pod: &corev1.Pod{Spec: test.spec}}).namespaces(test.target)
		if got.GetPid() != test.want || (got.GetTargetId() != "") != (test.want == runtimeapi.NamespaceMode_TARGET) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
