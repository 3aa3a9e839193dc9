package plugin

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/admission/podsecuritypolicy"
	"howdah.dev/services/apiserver/internal/authn"
)

// securityPolicies is a world of policies, by name what their spec says beside four rules that leave all open.
func securityPolicies(t *testing.T, specs map[string]string) world {
	t.Helper()
	w := world{}
	for name, spec := range specs {
		u := &unstructured.Unstructured{}
		text := "{apiVersion: policy/v1beta1, kind: PodSecurityPolicy, metadata: {name: " + name + "}, spec: {" + spec + "}}"
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		content := u.Object["spec"].(map[string]any)
		for _, rule := range []string{"seLinux", "runAsUser", "supplementalGroups", "fsGroup"} {
			if content[rule] == nil {
				content[rule] = map[string]any{"rule": "RunAsAny"}
			}
		}
		if content["volumes"] == nil {
			content["volumes"] = []any{"emptyDir", "secret"}
		}
		w["podsecuritypolicies"] = append(w["podsecuritypolicies"], u)
	}
	return w
}

// everyone may use every policy.
func everyone(policies world) may {
	var out may
	for _, p := range policies["podsecuritypolicies"] {
		out = append(out, "alice use policy/podsecuritypolicies/ "+p.GetName())
	}
	return out
}

func securityPod(spec, container string) write {
	return write{object: "{metadata: {name: p}, spec: {" + spec + " containers: [{name: c, image: i" + container + "}]}}"}
}

func TestPodSecurityPolicyRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy  string
		pod     write
		refused string
	}{
		"host network":     {"", securityPod("hostNetwork: true,", ""), `spec.securityContext.hostNetwork: Invalid value: true: Host network is not allowed to be used`},
		"host pid":         {"", securityPod("hostPID: true,", ""), "Host PID is not allowed to be used"},
		"host ipc":         {"", securityPod("hostIPC: true,", ""), "Host IPC is not allowed to be used"},
		"privileged":       {"", securityPod("", ", securityContext: {privileged: true}"), `PodSecurityPolicy: unable to admit pod: [spec.containers[0].securityContext.privileged: Invalid value: true: Privileged containers are not allowed]`},
		"init container":   {"", write{object: "{metadata: {name: p}, spec: {initContainers: [{name: i, image: i, securityContext: {privileged: true}}], containers: [{name: c, image: i}]}}"}, "spec.initContainers[0].securityContext.privileged"},
		"capability":       {"", securityPod("", ", securityContext: {capabilities: {add: [SYS_ADMIN]}}"), `capabilities.add: Invalid value: "SYS_ADMIN": capability may not be added`},
		"dropped no more":  {"requiredDropCapabilities: [KILL]", securityPod("", ", securityContext: {capabilities: {add: [KILL]}}"), "KILL is required to be dropped but was not found"},
		"volume":           {"", securityPod("volumes: [{name: v, hostPath: {path: /}}],", ""), `spec.volumes[0]: Invalid value: "hostPath": hostPath volumes are not allowed to be used`},
		"host path":        {"volumes: ['*'], allowedHostPaths: [{pathPrefix: /var/log}]", securityPod("volumes: [{name: v, hostPath: {path: /var/logs}}],", ""), `Invalid value: "/var/logs": is not allowed to be used`},
		"writable path":    {"volumes: ['*'], allowedHostPaths: [{pathPrefix: /var, readOnly: true}]", securityPod("volumes: [{name: v, hostPath: {path: /var/log/}}],", ", volumeMounts: [{name: v, mountPath: /x}]"), "volumeMounts[0].readOnly: Invalid value: false: must be read-only"},
		"csi driver":       {"volumes: [csi], allowedCSIDrivers: [{name: a}]", securityPod("volumes: [{name: v, csi: {driver: b}}],", ""), "Inline CSI driver is not allowed to be used"},
		"flex driver":      {"volumes: [flexVolume], allowedFlexVolumes: [{driver: a}]", securityPod("volumes: [{name: v, flexVolume: {driver: b}}],", ""), "Flexvolume driver is not allowed to be used"},
		"host port":        {"hostPorts: [{min: 80, max: 90}]", securityPod("", ", ports: [{containerPort: 1, hostPort: 91}]"), "Host port 91 is not allowed to be used. Allowed ports: [{80 90}]"},
		"root":             {"runAsUser: {rule: MustRunAsNonRoot}", securityPod("", ", securityContext: {runAsUser: 0}"), "running with the root UID is forbidden"},
		"may be root":      {"runAsUser: {rule: MustRunAsNonRoot}", securityPod("", ", securityContext: {runAsNonRoot: false}"), "runAsNonRoot: Invalid value: false: must be true"},
		"user":             {"runAsUser: {rule: MustRunAs, ranges: [{min: 5, max: 9}]}", securityPod("securityContext: {runAsUser: 4},", ""), "runAsUser: Invalid value: 4: must be in the ranges: [{5 9}]"},
		"group":            {"runAsGroup: {rule: MayRunAs, ranges: [{min: 5, max: 9}]}", securityPod("", ", securityContext: {runAsGroup: 4}"), "runAsGroup: Invalid value: 4: must be in the ranges: [{5 9}]"},
		"fs group":         {"fsGroup: {rule: MustRunAs, ranges: [{min: 5, max: 9}]}", securityPod("securityContext: {fsGroup: 4},", ""), "group 4 must be in the ranges: [{5 9}]"},
		"more groups":      {"supplementalGroups: {rule: MayRunAs, ranges: [{min: 5, max: 9}]}", securityPod("securityContext: {supplementalGroups: [5, 10]},", ""), "group 10 must be in the ranges: [{5 9}]"},
		"SELinux":          {"seLinux: {rule: MustRunAs, seLinuxOptions: {level: a}}", securityPod("securityContext: {seLinuxOptions: {level: b}},", ""), `seLinuxOptions.level: Invalid value: "b": must be a`},
		"writable root":    {"readOnlyRootFilesystem: true", securityPod("", ", securityContext: {readOnlyRootFilesystem: false}"), "ReadOnlyRootFilesystem must be set to true"},
		"escalation":       {"allowPrivilegeEscalation: false", securityPod("", ", securityContext: {allowPrivilegeEscalation: true}"), "Allowing privilege escalation for containers is not allowed"},
		"proc mount":       {"", securityPod("", ", securityContext: {procMount: Unmasked}"), "ProcMountType is not allowed"},
		"unsafe sysctl":    {"", securityPod("securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]},", ""), `unsafe sysctl "kernel.msgmax" is not allowed`},
		"forbidden sysctl": {"forbiddenSysctls: ['net.*']", securityPod("securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: '1'}]},", ""), `sysctl "net.ipv4.tcp_syncookies" is not allowed`},
		"runtime class":    {"runtimeClass: {allowedRuntimeClassNames: [a]}", securityPod("runtimeClassName: b,", ""), `spec.runtimeClassName: Unsupported value: "b": supported values: "a"`},
		"no runtime class": {"runtimeClass: {allowedRuntimeClassNames: [a]}", securityPod("", ""), "spec.runtimeClassName: Required value"},
		"seccomp":          {"", securityPod("securityContext: {seccompProfile: {type: Localhost, localhostProfile: f}},", ""), "localhost/f is not an allowed seccomp profile"},
	} {
		t.Run(name, func(t *testing.T) {
			w := securityPolicies(t, map[string]string{"only": c.policy})
			verdict{write: c.pod, refused: c.refused}.check(t, &podsecuritypolicy.Plugin{Objects: w, Authorizer: everyone(w)})
		})
	}
}

func TestPodSecurityPolicyFills(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy  string
		pod     write
		becomes []string
	}{
		"user and groups":   {"runAsUser: {rule: MustRunAs, ranges: [{min: 5, max: 9}]}, runAsGroup: {rule: MustRunAs, ranges: [{min: 6, max: 9}]}, fsGroup: {rule: MustRunAs, ranges: [{min: 7, max: 9}]}, supplementalGroups: {rule: MustRunAs, ranges: [{min: 8, max: 9}]}", securityPod("", ""), []string{"runAsUser: 5", "runAsGroup: 6", "fsGroup: 7", "supplementalGroups:\n    - 8"}},
		"not root":          {"runAsUser: {rule: MustRunAsNonRoot}", securityPod("", ""), []string{"runAsNonRoot: true"}},
		"capabilities":      {"defaultAddCapabilities: [CHOWN], requiredDropCapabilities: [KILL]", securityPod("", ""), []string{"add:\n        - CHOWN", "drop:\n        - KILL"}},
		"SELinux":           {"seLinux: {rule: MustRunAs, seLinuxOptions: {level: a}}", securityPod("", ""), []string{"level: a"}},
		"read-only root":    {"readOnlyRootFilesystem: true", securityPod("", ""), []string{"readOnlyRootFilesystem: true"}},
		"no escalation":     {"allowPrivilegeEscalation: false", securityPod("", ""), []string{"allowPrivilegeEscalation: false"}},
		"runtime class":     {"runtimeClass: {allowedRuntimeClassNames: [a], defaultRuntimeClassName: a}", securityPod("", ""), []string{"runtimeClassName: a"}},
		"allowed host path": {"volumes: [hostPath], allowedHostPaths: [{pathPrefix: /var/log}]", securityPod("volumes: [{name: v, hostPath: {path: /var/log/x}}],", ""), []string{"kubernetes.io/psp: only"}},
		"token of account":  {"", securityPod("volumes: [{name: kube-api-access-x, projected: {sources: [{serviceAccountToken: {path: token}}]}}],", ""), []string{"kubernetes.io/psp: only"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := securityPolicies(t, map[string]string{"only": c.policy})
			verdict{write: c.pod, becomes: c.becomes}.check(t, &podsecuritypolicy.Plugin{Objects: w, Authorizer: everyone(w)})
		})
	}
}

// Policies count for those who may use them; the first that takes the pod as it is goes before one that changes it.
func TestPodSecurityPolicyChoice(t *testing.T) {
	t.Parallel()
	w := securityPolicies(t, map[string]string{
		"a-changes": "readOnlyRootFilesystem: true", "b-plain": "", "c-plain": "", "d-free": "privileged: true, hostNetwork: true",
	})
	p := &podsecuritypolicy.Plugin{Objects: w, Authorizer: may{
		"alice use policy/podsecuritypolicies/ a-changes", "alice use policy/podsecuritypolicies/ b-plain", "alice use policy/podsecuritypolicies/ c-plain",
		"bob use policy/podsecuritypolicies/ a-changes", "system:serviceaccount:default:robot use policy/podsecuritypolicies/ d-free",
	}}
	as := func(user string, w write) write { w.user = authn.User{Name: user}; return w }
	host := securityPod("hostNetwork: true,", "")
	update := func(w write, old string) write { w.op, w.old = admission.Update, old; return w }
	verdicts(t, p, map[string]verdict{
		"unchanged first":    {write: securityPod("", ""), becomes: []string{"kubernetes.io/psp: b-plain"}},
		"changed at last":    {write: as("bob", securityPod("", "")), becomes: []string{"kubernetes.io/psp: a-changes", "readOnlyRootFilesystem: true"}},
		"none usable":        {write: as("carol", securityPod("", "")), refused: "PodSecurityPolicy: no providers available to validate pod request"},
		"by the account":     {write: as("carol", securityPod("serviceAccountName: robot, hostNetwork: true,", "")), becomes: []string{"kubernetes.io/psp: d-free"}},
		"not by another's":   {write: host, refused: "Host network"},
		"update of metadata": {write: update(as("carol", host), host.object)},
		"update of the spec": {write: update(host, securityPod("", "").object), refused: "Host network"},
		"other kinds":        {write: write{resource: "nodes", object: "{metadata: {name: n}}"}},
	})
}
