package plugin

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"howdah.dev/services/apiserver/internal/admission"
)

func TestPodSecurity(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	in := func(labels string) *PodSecurity {
		p, err := NewPodSecurity(worldOf(t, map[string][]string{
			"namespaces": {"{metadata: {name: default, labels: {" + labels + "}}}"},
			"pods":       {"{metadata: {name: running, namespace: default}, spec: {hostNetwork: true, containers: [{name: c, image: i}]}}"},
		}), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	host := write{object: "{metadata: {name: p}, spec: {hostNetwork: true, containers: [{name: c, image: i}]}}"}
	baseline := in("pod-security.kubernetes.io/enforce: baseline")
	verdicts(t, in(""), map[string]verdict{"privileged by default": {write: host}})
	verdicts(t, baseline, map[string]verdict{
		"plain":  {write: write{object: plainPod}},
		"host":   {write: host, refused: `pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`},
		"status": {write: write{op: admission.Update, subresource: "status", object: host.object, old: plainPod}},
	})
	verdicts(t, in("pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/enforce-version: v1.24"), map[string]verdict{
		"restricted": {write: write{object: plainPod}, refused: `violates PodSecurity "restricted:v1.24": allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)`},
	})
	a, notes := host.attributes(t)
	if err := admit(in("pod-security.kubernetes.io/warn: baseline, pod-security.kubernetes.io/audit: baseline"), a); err != nil {
		t.Fatal(err)
	}
	if len(notes.warnings) != 1 || notes.warnings[0] != `would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)` {
		t.Errorf("warnings %q", notes.warnings)
	}
	if !strings.HasPrefix(notes.annotations["pod-security.kubernetes.io/audit-violations"], `would violate PodSecurity "baseline:latest"`) {
		t.Errorf("annotations %q", notes.annotations)
	}
	change := write{op: admission.Update, resource: "namespaces", object: "{metadata: {name: default, labels: {pod-security.kubernetes.io/enforce: baseline}}}", old: "{metadata: {name: default}}"}
	a, notes = change.attributes(t)
	if err := admit(baseline, a); err != nil {
		t.Fatal(err)
	}
	if want := `existing pods in namespace "default" violate the new PodSecurity enforce level "baseline:latest"`; len(notes.warnings) == 0 || notes.warnings[0] != want {
		t.Errorf("warnings %q", notes.warnings)
	}
	verdicts(t, baseline, map[string]verdict{"bad label": {
		write:   write{resource: "namespaces", object: "{metadata: {name: x, labels: {pod-security.kubernetes.io/enforce: strict}}}"},
		refused: `metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": must be one of privileged, baseline, restricted`,
	}})

	exempt, err := NewPodSecurity(worldOf(t, map[string][]string{"namespaces": {"{metadata: {name: default}}"}}), []byte(`
apiVersion: pod-security.admission.config.k8s.io/v1
kind: PodSecurityConfiguration
defaults: {enforce: baseline}
exemptions: {usernames: [boss]}
`), registry)
	if err != nil {
		t.Fatal(err)
	}
	boss := host
	boss.user.Name = "boss"
	verdicts(t, exempt, map[string]verdict{"exempt": {write: boss}, "others": {write: host, refused: "violates PodSecurity"}})
	if n, err := testutil.GatherAndCount(registry, "pod_security_evaluations_total", "pod_security_exemptions_total"); err != nil || n != 2 {
		t.Errorf("%d series, %v", n, err)
	}
	if _, err := NewPodSecurity(nil, []byte("{apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {enforce: x}}"), nil); err == nil {
		t.Error("an unknown level passes")
	}
}
