package podspec_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"howdah.dev/kit/podspec"
)

// check defaults the spec in YAML, validates it as a pod's and compares every error.
func check(t *testing.T, text string, want ...string) {
	t.Helper()
	var spec corev1.PodSpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	podspec.DefaultPod(&spec)
	var got []string
	for _, e := range podspec.ValidatePod(&spec, &metav1.ObjectMeta{Name: "p", Namespace: "default"}, field.NewPath("spec")) {
		got = append(got, e.Error())
	}
	for i := range want {
		want[i] = strings.TrimSpace(want[i])
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("of\n%s\ngot\n  %s\nwant\n  %s", text, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

const label = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`

// one is a spec of one good container with more fields of the spec after it.
func one(more string) string {
	return "containers: [{name: a, image: busybox}]\n" + more
}

// with is a spec of one container with more fields of the container, as flow YAML.
func with(more string) string {
	return "containers: [{name: a, image: busybox, " + more + "}]\n"
}

func TestSpec(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"good":          {one(""), nil},
		"no containers": {"containers: []", []string{"spec.containers: Required value"}},
		"restart policy": {one("restartPolicy: Sometimes"), []string{
			`spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"`,
		}},
		"dns policy": {one("dnsPolicy: Mine"), []string{
			`spec.dnsPolicy: Unsupported value: "Mine": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"`,
		}},
		"dns none": {one("dnsPolicy: None"), []string{"spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"}},
		"dns none without servers": {one("dnsPolicy: None\ndnsConfig: {searches: [a.b]}"), []string{
			"spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None",
		}},
		"too many nameservers": {one("dnsConfig: {nameservers: [1.1.1.1, 1.1.1.2, 1.1.1.3, 1.1.1.4], options: [{value: x}]}"), []string{
			`spec.dnsConfig.nameservers: Invalid value: ["1.1.1.1","1.1.1.2","1.1.1.3","1.1.1.4"]: must not have more than 3 nameservers`,
			"spec.dnsConfig.options[0]: Required value: must not be empty",
		}},
		"deadline": {one("activeDeadlineSeconds: 0"), []string{
			"spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
		}},
		"hostname":              {one("hostname: A_b"), []string{`spec.hostname: Invalid value: "A_b": ` + label}},
		"host pid and shared":   {one("hostPID: true\nshareProcessNamespace: true"), []string{"spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled"}},
		"user namespace":        {one("hostUsers: false\nhostNetwork: true"), []string{"spec.hostNetwork: Forbidden: when `hostUsers` is false"}},
		"gates twice":           {one("schedulingGates: [{name: a.b/c}, {name: a.b/c}]"), []string{`spec.schedulingGates[1]: Duplicate value: "a.b/c"`}},
		"readiness gate":        {one("readinessGates: [{conditionType: 'a b'}]"), []string{`spec.readinessGates[0].conditionType: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`}},
		"host alias":            {one("hostAliases: [{ip: 300.1.1.1, hostnames: [ok]}]"), []string{`spec.hostAliases[0].ip: Invalid value: "300.1.1.1": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`}},
		"preemption policy":     {one("preemptionPolicy: Maybe"), []string{`spec.preemptionPolicy: Unsupported value: "Maybe": supported values: "PreemptLowerPriority", "Never"`}},
		"os":                    {one("os: {name: plan9}"), []string{`spec.os: Unsupported value: "plan9": supported values: "linux", "windows"`}},
		"resource claims":       {one("resourceClaims: [{name: a}]"), []string{"spec.resourceClaims[0]: Invalid value: {\"name\":\"a\"}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"}},
		"node selector":         {one("nodeSelector: {a: 'b c'}"), []string{`spec.nodeSelector: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
		"negative grace is let": {one("terminationGracePeriodSeconds: -1"), nil},
		"overhead":              {one("overhead: {cpu: -1m}"), []string{`spec.overhead.limits[cpu]: Invalid value: "-1m": must be greater than or equal to 0`}},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); check(t, c.spec, c.want...) })
	}
}

func TestContainers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"no image":              {"containers: [{name: a}]", []string{"spec.containers[0].image: Required value"}},
		"no name":               {"containers: [{image: a}]", []string{"spec.containers[0].name: Required value"}},
		"bad name":              {"containers: [{image: a, name: A}]", []string{`spec.containers[0].name: Invalid value: "A": ` + label}},
		"same names":            {"containers: [{image: a, name: a}, {image: a, name: a}]", []string{`spec.containers[1].name: Duplicate value: "a"`}},
		"init of the same name": {one("initContainers: [{name: a, image: b}]"), []string{`spec.initContainers[0].name: Duplicate value: "a"`}},
		"padded image":          {"containers: [{image: ' a', name: a}]", []string{`spec.containers[0].image: Invalid value: " a": must not have leading or trailing whitespace`}},
		"pull policy":           {with("imagePullPolicy: Often"), []string{`spec.containers[0].imagePullPolicy: Unsupported value: "Often": supported values: "Always", "IfNotPresent", "Never"`}},
		"message policy": {with("terminationMessagePolicy: Shout"), []string{
			`spec.containers[0].terminationMessagePolicy: Unsupported value: "Shout": supported values: "File", "FallbackToLogsOnError"`,
		}},
		"restart policy of a regular one": {with("restartPolicy: Always"), nil},
		"sidecar":                         {one("initContainers: [{name: s, image: b, restartPolicy: Always, readinessProbe: {tcpSocket: {port: 1}}}]"), nil},
		"init with a probe": {one("initContainers: [{name: s, image: b, readinessProbe: {tcpSocket: {port: 1}}, lifecycle: {preStop: {sleep: {seconds: 1}}}}]"), []string{
			"spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
			"spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always",
		}},
		"init restart policy": {one("initContainers: [{name: s, image: b, restartPolicy: Sometimes}]"), []string{
			`spec.initContainers[0].restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure"`,
		}},
		"ephemeral": {one("ephemeralContainers: [{name: d, image: b, targetContainerName: x, ports: [{containerPort: 1}]}]"), []string{
			`spec.ephemeralContainers[0].targetContainerName: Not found: "x"`,
			"spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
		}},
		"ports": {with("ports: [{containerPort: 0}, {containerPort: 70000}, {name: Bad_Name, containerPort: 1}, {name: x, containerPort: 2}, {name: x, containerPort: 3, protocol: ICMP}]"), []string{
			"spec.containers[0].ports[0].containerPort: Required value",
			"spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
			`spec.containers[0].ports[2].name: Invalid value: "Bad_Name": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)`,
			`spec.containers[0].ports[4].name: Duplicate value: "x"`,
			`spec.containers[0].ports[4].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"`,
		}},
		"host ports": {
			"containers: [{name: a, image: b, ports: [{containerPort: 1, hostPort: 80}]}, {name: c, image: b, ports: [{containerPort: 2, hostPort: 80}, {containerPort: 3, hostPort: 80, protocol: UDP}]}]",
			[]string{`spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//80"`},
		},
		"host network ports": {"hostNetwork: true\ncontainers: [{name: a, image: b, ports: [{containerPort: 1, hostPort: 80}]}]", []string{
			"spec.containers[0].ports[0].hostPort: Invalid value: 80: must match `containerPort` when `hostNetwork` is true",
		}},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); check(t, c.spec, c.want...) })
	}
}

func TestEnv(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  string
		want []string
	}{
		"no name": {"env: [{value: x}]", []string{"spec.containers[0].env[0].name: Required value"}},
		"no source": {"env: [{name: A, valueFrom: {}}]", []string{
			"spec.containers[0].env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
		}},
		"value and source": {"env: [{name: A, value: b, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]", []string{
			"spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
		}},
		"two sources": {"env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}, secretKeyRef: {name: a, key: b}}}]", []string{
			`spec.containers[0].env[0].valueFrom: Invalid value: "": may not have more than one field specified at a time`,
		}},
		"label by key": {"env: [{name: A, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['app']\"}}}]", nil},
		"all labels": {"env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.labels}}}]", []string{
			`spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"`,
		}},
		"unknown field": {"env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nothing}}}]", []string{
			`spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.nothing": error converting fieldPath: field label not supported: spec.nothing`,
		}},
		"resource": {"env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.gold}}}]", []string{
			`spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.gold": supported values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"`,
		}},
		"divisor": {"env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: '5'}}}]", []string{
			`spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor's values 1m and 1 are supported with the cpu resource`,
		}},
		"no key":       {"env: [{name: A, valueFrom: {configMapKeyRef: {name: a, key: ''}}}]", []string{"spec.containers[0].env[0].valueFrom.configMapKeyRef.key: Required value"}},
		"no envFrom":   {"envFrom: [{prefix: A_}]", []string{"spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"}},
		"both envFrom": {"envFrom: [{configMapRef: {name: a}, secretRef: {name: b}}]", []string{`spec.containers[0].envFrom: Invalid value: "": may not have more than one field specified at a time`}},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); check(t, with(c.env), c.want...) })
	}
}

func TestProbes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		probe string
		want  []string
	}{
		"good":       {"livenessProbe: {exec: {command: [a]}}, readinessProbe: {httpGet: {port: 80}}, startupProbe: {grpc: {port: 1}}", nil},
		"no handler": {"livenessProbe: {periodSeconds: 1}", []string{"spec.containers[0].livenessProbe: Required value: must specify a handler type"}},
		"two handlers": {"livenessProbe: {exec: {command: [a]}, tcpSocket: {port: 1}}", []string{
			"spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
		}},
		"success threshold": {"livenessProbe: {tcpSocket: {port: 1}, successThreshold: 2}", []string{"spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"}},
		"readiness grace": {"readinessProbe: {tcpSocket: {port: 1}, terminationGracePeriodSeconds: 2}", []string{
			"spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 2: must not be set for readinessProbes",
		}},
		"negative": {"readinessProbe: {tcpSocket: {port: 0}, timeoutSeconds: -1}", []string{
			"spec.containers[0].readinessProbe.timeoutSeconds: Invalid value: -1: must be greater than or equal to 0",
			"spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive",
		}},
		"scheme":     {"readinessProbe: {httpGet: {port: 1, scheme: FTP}}", []string{`spec.containers[0].readinessProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"`}},
		"no command": {"lifecycle: {postStart: {exec: {}}}", []string{"spec.containers[0].lifecycle.postStart.exec.command: Required value"}},
		"long sleep": {"lifecycle: {preStop: {sleep: {seconds: 31}}}", []string{
			"spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
		}},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); check(t, with(c.probe), c.want...) })
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		resources string
		want      []string
	}{
		"good": {"limits: {cpu: 1, memory: 1Gi, hugepages-2Mi: 4Mi, example.com/gpu: 1}, requests: {cpu: 500m}", nil},
		"above the limit": {"limits: {cpu: 1}, requests: {cpu: 2}", []string{
			`spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1`,
		}},
		"negative": {"limits: {memory: -1}", []string{
			`spec.containers[0].resources.limits[memory]: Invalid value: "-1": must be greater than or equal to 0`,
			`spec.containers[0].resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0`,
		}},
		"unknown": {"limits: {gold: 1}, requests: {gold: 1}", []string{
			`spec.containers[0].resources.limits[gold]: Invalid value: "gold": must be a standard resource for containers`,
			`spec.containers[0].resources.limits[gold]: Invalid value: "gold": must be a standard resource type or fully qualified`,
			`spec.containers[0].resources.requests[gold]: Invalid value: "gold": must be a standard resource for containers`,
			`spec.containers[0].resources.requests[gold]: Invalid value: "gold": must be a standard resource type or fully qualified`,
		}},
		"extended below its limit": {"limits: {example.com/gpu: 2}, requests: {example.com/gpu: 1}", []string{
			`spec.containers[0].resources.requests: Invalid value: "1": must be equal to example.com/gpu limit of 2`,
		}},
		"extended without a limit": {"requests: {example.com/gpu: 1}", []string{
			"spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
		}},
		"half a device": {"limits: {example.com/gpu: 500m}", []string{
			`spec.containers[0].resources.limits[example.com/gpu]: Invalid value: "500m": must be an integer`,
			`spec.containers[0].resources.requests[example.com/gpu]: Invalid value: "500m": must be an integer`,
		}},
		"huge pages alone": {"limits: {hugepages-2Mi: 2Mi}", []string{"spec.containers[0].resources: Forbidden: HugePages require cpu or memory"}},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); check(t, with("resources: {"+c.resources+"}"), c.want...) })
	}
	t.Run("of the pod", func(t *testing.T) {
		t.Parallel()
		check(t, with("resources: {limits: {cpu: 3}, requests: {cpu: 2}}")+"resources: {limits: {cpu: 2}, requests: {cpu: 1}}",
			`spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 2`,
			`spec.resources.containers[0][cpu].limits: Invalid value: "3": must be less than or equal to pod limits of 2`)
	})
}

func TestSecurity(t *testing.T) {
	t.Parallel()
	const escalation = `spec.containers[0].securityContext: Invalid value: {"privileged":true,"allowPrivilegeEscalation":false}: cannot set ` + "`allowPrivilegeEscalation` to false and `privileged` to true"
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"user": {one("securityContext: {runAsUser: -1, supplementalGroups: [-5]}"), []string{
			"spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
			"spec.securityContext.supplementalGroups[0]: Invalid value: -5: must be between 0 and 2147483647, inclusive",
		}},
		"escalation": {with("securityContext: {privileged: true, allowPrivilegeEscalation: false}"), []string{escalation}},
		"seccomp": {with("securityContext: {seccompProfile: {type: Localhost}}"), []string{
			"spec.containers[0].securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
		}},
		"apparmor": {with("securityContext: {appArmorProfile: {type: RuntimeDefault, localhostProfile: x}}"), []string{
			`spec.containers[0].securityContext.appArmorProfile.localhostProfile: Invalid value: "x": can only be set when AppArmor type is Localhost`,
		}},
		"proc mount": {with("securityContext: {procMount: Unmasked}"), []string{"spec.containers[0].securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`"}},
		"sysctls": {one("hostNetwork: true\nsecurityContext: {sysctls: [{name: net.core.somaxconn, value: '1'}, {name: 'a b', value: ''}]}"), []string{
			`spec.securityContext.sysctls[0].name: Invalid value: "net.core.somaxconn": may not be specified when 'hostNetwork' is true`,
			`spec.securityContext.sysctls[1].name: Invalid value: "a b": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`,
		}},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); check(t, c.spec, c.want...) })
	}
}

func TestPlacement(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"toleration without key": {"tolerations: [{operator: Equal}]", []string{
			`spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when ` + "`key`" + ` is empty, which means "match all values and all keys"`,
		}},
		"toleration seconds": {"tolerations: [{key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 1}]", []string{
			"spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
		}},
		"toleration operator": {"tolerations: [{key: a, operator: Like}]", []string{`spec.tolerations[0].operator: Unsupported value: "Like": supported values: "Equal", "Exists"`}},
		"no terms": {"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}", []string{
			"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term",
		}},
		"In of nothing": {"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}]}]}}}", []string{
			"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
		}},
		"weight": {"affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: {}}]}}", []string{
			"spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
		}},
		"no topology": {"affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchLabels: {a: b}}}]}}", []string{
			"spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty",
			"spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: \"\": name part must be non-empty",
			"spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
		}},
		"spread": {"topologySpreadConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}, {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]", []string{
			"spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
			"spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
			`spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, ScheduleAnyway}"`,
		}},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); check(t, one(c.spec), c.want...) })
	}
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		volume string
		want   []string
	}{
		"two sources":   {"{name: v, emptyDir: {}, hostPath: {path: /a}}", []string{"spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"}},
		"no name":       {"{emptyDir: {}}", []string{"spec.volumes[0].name: Required value"}},
		"same names":    {"{name: v}, {name: v}", []string{`spec.volumes[1].name: Duplicate value: "v"`}},
		"host path":     {"{name: v, hostPath: {path: /a/../b, type: Pipe}}", []string{`spec.volumes[0].hostPath.path: Invalid value: "/a/../b": must not contain '..'`, `spec.volumes[0].hostPath.type: Unsupported value: "Pipe": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"`}},
		"secret":        {"{name: v, secret: {defaultMode: 512}}", []string{"spec.volumes[0].secret.secretName: Required value", "spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive"}},
		"config map":    {"{name: v, configMap: {name: c, items: [{key: '', path: /abs}, {key: k, path: ..up}]}}", []string{"spec.volumes[0].configMap.items[0].key: Required value", `spec.volumes[0].configMap.items[0].path: Invalid value: "/abs": must be a relative path`, `spec.volumes[0].configMap.items[1].path: Invalid value: "..up": must not start with '..'`}},
		"nfs":           {"{name: v, nfs: {server: s, path: rel}}", []string{`spec.volumes[0].nfs.path: Invalid value: "rel": must be an absolute path`}},
		"iscsi":         {"{name: v, iscsi: {targetPortal: p, iqn: bad, lun: 300}}", []string{`spec.volumes[0].iscsi.iqn: Invalid value: "bad": must be valid format starting with iqn, eui, or naa`, "spec.volumes[0].iscsi.lun: Invalid value: 300: must be between 0 and 255, inclusive"}},
		"claim":         {"{name: v, persistentVolumeClaim: {claimName: ''}}", []string{"spec.volumes[0].persistentVolumeClaim.claimName: Required value"}},
		"token":         {"{name: v, projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 10}}]}}", []string{"spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 10: may not specify a duration less than 10 minutes"}},
		"colliding":     {"{name: v, projected: {sources: [{secret: {name: s, items: [{key: k, path: t}]}}, {configMap: {name: c, items: [{key: k, path: t}]}}]}}", []string{`spec.volumes[0].projected: Invalid value: "c": conflicting duplicate paths`}},
		"token over it": {"{name: v, projected: {sources: [{serviceAccountToken: {path: t}}, {configMap: {name: c, items: [{key: k, path: t}]}}]}}", nil},
		"certificate":   {"{name: v, projected: {sources: [{podCertificate: {signerName: a.com/b, keyType: ED25519, credentialBundlePath: c}}]}}", nil},
		"certificates": {"{name: v, projected: {sources: [{podCertificate: {}}, {podCertificate: {signerName: a.kubernetes.io/b, keyType: ED25519, maxExpirationSeconds: 86401, keyPath: k, certificateChainPath: k, userAnnotations: {a: b}}}]}}", []string{
			"spec.volumes[0].projected.sources[0].podCertificate.signerName: Required value",
			`spec.volumes[0].projected.sources[0].podCertificate.keyType: Unsupported value: "": supported values: "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"`,
			"spec.volumes[0].projected.sources[0].podCertificate: Required value: specify at least one of credentialBundlePath, keyPath, and certificateChainPath",
			`spec.volumes[0].projected.sources[1].podCertificate.userAnnotations: Invalid value: "a": must be a domain-prefixed key (such as "acme.io/foo")`,
			"spec.volumes[0].projected.sources[1].podCertificate.maxExpirationSeconds: Invalid value: 86401: if provided, maxExpirationSeconds must be <= 86400",
			`spec.volumes[0].projected: Invalid value: "k": conflicting duplicate paths`,
		}},
		"trust bundle": {"{name: v, projected: {sources: [{clusterTrustBundle: {name: b, path: p}}, {clusterTrustBundle: {name: 'x.io:s:b', path: q}}, {clusterTrustBundle: {signerName: x.io/s, labelSelector: {}, path: r}}]}}", nil},
		"trust bundles": {"{name: v, projected: {sources: [{clusterTrustBundle: {name: a, signerName: b, path: p, optional: true}}, {clusterTrustBundle: {path: p}}, {clusterTrustBundle: {name: '', path: /q}}, {clusterTrustBundle: {signerName: ''}}, {clusterTrustBundle: {name: a, labelSelector: {}, path: ..r}, secret: {name: x}}, {clusterTrustBundle: {signerName: x.io/s, labelSelector: {matchExpressions: [{key: a, operator: Foo}]}, path: s}}]}}", []string{
			`spec.volumes[0].projected.sources[0].clusterTrustBundle: Invalid value: {"Name":"a","SignerName":"b","LabelSelector":null,"Optional":true,"Path":"p"}: only one of name and signerName may be used`,
			"spec.volumes[0].projected.sources[1].clusterTrustBundle: Required value: either name or signerName must be specified",
			`spec.volumes[0].projected: Invalid value: "p": conflicting duplicate paths`,
			"spec.volumes[0].projected.sources[2].clusterTrustBundle.name: Required value: must be a valid object name",
			`spec.volumes[0].projected.sources[2].clusterTrustBundle.name: Invalid value: "": not a valid clustertrustbundlename: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
			`spec.volumes[0].projected.sources[2].clusterTrustBundle.path: Invalid value: "/q": must be a relative path`,
			"spec.volumes[0].projected.sources[3].clusterTrustBundle.signerName: Required value: must be a valid signer name",
			"spec.volumes[0].projected.sources[3].clusterTrustBundle.signerName: Required value",
			"spec.volumes[0].projected.sources[3].clusterTrustBundle.path: Required value",
			"spec.volumes[0].projected.sources[4].clusterTrustBundle.labelSelector: Invalid value: {}: labelSelector must be unset if name is specified",
			`spec.volumes[0].projected.sources[4].clusterTrustBundle.path: Invalid value: "..r": must not start with '..'`,
			"spec.volumes[0].projected.sources[4]: Forbidden: may not specify more than 1 volume type per source",
			`spec.volumes[0].projected.sources[5].clusterTrustBundle.labelSelector.matchExpressions[0].operator: Invalid value: "Foo": not a valid selector operator`,
		}},
		"downward":      {"{name: v, downwardAPI: {items: [{path: a, fieldRef: {fieldPath: status.podIP}}]}}", []string{`spec.volumes[0].downwardAPI.fieldRef.fieldPath: Unsupported value: "status.podIP": supported values: "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"`}},
		"ephemeral":     {"{name: v, ephemeral: {volumeClaimTemplate: {spec: {}}}}", []string{"spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 access mode is required", "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value"}},
		"csi":           {"{name: v, csi: {driver: ''}}", []string{"spec.volumes[0].csi.driver: Required value"}},
		"image":         {"{name: v, image: {}}", []string{"spec.volumes[0].image.reference: Required value"}},
		"size limit":    {"{name: v, emptyDir: {sizeLimit: -1}}", []string{"spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"}},
		"fc":            {"{name: v, fc: {}}", []string{"spec.volumes[0].fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"}},
		"fc, both":      {"{name: v, fc: {wwids: [a], targetWWNs: [b]}}", []string{`spec.volumes[0].fc.targetWWNs: Invalid value: ["b"]: targetWWNs and wwids can not be specified simultaneously`, "spec.volumes[0].fc.lun: Required value: lun is required if targetWWNs is specified"}},
		"csi, secret":   {"{name: v, csi: {driver: '', nodePublishSecretRef: {name: ''}}}", []string{"spec.volumes[0].csi.driver: Required value", "spec.volumes[0].csi.nodePublishSecretRef.name: Required value"}},
		"many required": {"{name: v, rbd: {}}, {name: w, azureFile: {}}, {name: x, quobyte: {}}, {name: y, gcePersistentDisk: {partition: 256}}", []string{"spec.volumes[0].rbd.monitors: Required value", "spec.volumes[0].rbd.image: Required value", "spec.volumes[1].azureFile.secretName: Required value", "spec.volumes[1].azureFile.shareName: Required value", "spec.volumes[2].quobyte.registry: Required value: must be a host:port pair or multiple pairs separated by commas", "spec.volumes[2].quobyte.volume: Required value", "spec.volumes[3].persistentDisk.pdName: Required value", "spec.volumes[3].persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, one("serviceAccountName: s\nvolumes: ["+c.volume+"]"), c.want...)
		})
	}
}

func TestMounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mounts string
		want   []string
	}{
		"unknown volume": {"volumeMounts: [{name: x, mountPath: /x}]", []string{`spec.containers[0].volumeMounts[0].name: Not found: "x"`}},
		"no path":        {"volumeMounts: [{name: v}]", []string{"spec.containers[0].volumeMounts[0].mountPath: Required value"}},
		"same path":      {"volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /a}]", []string{`spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/a": must be unique`}},
		"sub path":       {"volumeMounts: [{name: v, mountPath: /a, subPath: ../x}]", []string{`spec.containers[0].volumeMounts.subPath: Invalid value: "../x": must not contain '..'`}},
		"both sub paths": {"volumeMounts: [{name: v, mountPath: /a, subPath: x, subPathExpr: w}]", []string{`spec.containers[0].volumeMounts[0].subPathExpr: Invalid value: "w": subPathExpr and subPath are mutually exclusive`}},
		"propagation":    {"volumeMounts: [{name: v, mountPath: /a, mountPropagation: Bidirectional}]", []string{"spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers"}},
		"recursive":      {"volumeMounts: [{name: v, mountPath: /a, recursiveReadOnly: Enabled}]", []string{"spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true"}},
		"device":         {"volumeDevices: [{name: v, devicePath: /dev/x}]", []string{`spec.containers[0].volumeDevices[0].name: Invalid value: "v": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode`}},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); check(t, with(c.mounts)+"volumes: [{name: v}]", c.want...) })
	}
}

// The volumes that variables come from are checked last, after all containers, and those of the containers that start first before the others.
func TestEnvironmentFiles(t *testing.T) {
	t.Parallel()
	env := func(key, volume string) string {
		return "env: [{name: A, valueFrom: {fileKeyRef: {path: f, key: " + key + ", volumeName: " + volume + "}}}]"
	}
	check(t, "containers: [{name: c, image: i, "+env("a=b", "v")+"}]\ninitContainers: [{name: d, image: i, "+env("k", "w")+"}]\nvolumes: [{name: v, secret: {secretName: s}}]\nnodeName: A_",
		`spec.containers[0].env[0].valueFrom.fileKeyRef.key: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='`,
		`spec.nodeName: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		`spec.initContainers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: "w"`,
		`spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Invalid value: "v": referenced volume must be of type emptyDir`)
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	var spec corev1.PodSpec
	text := with("env: [{name: A, value: x}, {name: A, value: y}], ports: [{containerPort: 1}, {containerPort: 1}], resources: {limits: {memory: 100m}}") +
		"nodeSelector: {beta.kubernetes.io/os: linux}\nterminationGracePeriodSeconds: -3"
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	got := podspec.Warnings(&spec, &metav1.ObjectMeta{}, field.NewPath("spec"), field.NewPath("metadata", "annotations"))
	want := []string{
		`spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`,
		`spec.containers[0].resources.limits[memory]: fractional byte value "100m" is invalid, must be an integer`,
		`spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply`,
		`spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]`,
		`spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestStopSignals: a pod that says what a container ends with has to say for which system that is.
func TestStopSignals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal, os string
		want       []string
	}{
		"linux":      {"SIGRTMIN+15", "os: {name: linux}", nil},
		"windows":    {"SIGKILL", "os: {name: windows}", nil},
		"no system":  {"SIGTERM", "", []string{"spec.containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`"}},
		"of another": {"SIGHUP", "os: {name: windows}", []string{`spec.containers[0].lifecycle.stopSignal: Unsupported value: "SIGHUP": supported values: "SIGKILL", "SIGTERM"`}},
		"unknown": {"SIGRTMAX-15", "os: {name: linux}", []string{`spec.containers[0].lifecycle.stopSignal: Unsupported value: "SIGRTMAX-15": supported values: "SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGIO", "SIGIOT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT", ` +
			`"SIGRTMAX", "SIGRTMAX-1", "SIGRTMAX-10", "SIGRTMAX-11", "SIGRTMAX-12", "SIGRTMAX-13", "SIGRTMAX-14", "SIGRTMAX-2", "SIGRTMAX-3", "SIGRTMAX-4", "SIGRTMAX-5", "SIGRTMAX-6", "SIGRTMAX-7", "SIGRTMAX-8", "SIGRTMAX-9", ` +
			`"SIGRTMIN", "SIGRTMIN+1", "SIGRTMIN+10", "SIGRTMIN+11", "SIGRTMIN+12", "SIGRTMIN+13", "SIGRTMIN+14", "SIGRTMIN+15", "SIGRTMIN+2", "SIGRTMIN+3", "SIGRTMIN+4", "SIGRTMIN+5", "SIGRTMIN+6", "SIGRTMIN+7", "SIGRTMIN+8", "SIGRTMIN+9", ` +
			`"SIGSEGV", "SIGSTKFLT", "SIGSTOP", "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGWINCH", "SIGXCPU", "SIGXFSZ"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, with("lifecycle: {stopSignal: "+c.signal+"}")+c.os, c.want...)
		})
	}
}
