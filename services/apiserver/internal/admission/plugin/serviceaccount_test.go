package plugin

import (
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/services/apiserver/internal/admission"
)

func TestServiceAccount(t *testing.T) {
	t.Parallel()
	p := &ServiceAccount{Clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)), Objects: worldOf(t, map[string][]string{"serviceaccounts": {
		"{metadata: {name: default, namespace: default}, imagePullSecrets: [{name: pull}]}",
		"{metadata: {name: mute, namespace: default}, automountServiceAccountToken: false}",
		"{metadata: {name: strict, namespace: default, annotations: {kubernetes.io/enforce-mountable-secrets: 'true'}}, secrets: [{name: mine}], imagePullSecrets: [{name: pull}]}",
	}})}
	pod := func(spec, container string) write {
		return write{object: "{metadata: {name: p}, spec: {" + spec + " containers: [{name: c, image: i" + container + "}]}}"}
	}
	mirror := func(spec string) write {
		return write{object: "{metadata: {name: p, annotations: {kubernetes.io/config.mirror: x}}, spec: {" + spec + " containers: [{name: c, image: i}]}}"}
	}
	strict := "serviceAccountName: strict, "
	verdicts(t, p, map[string]verdict{
		"default":       {write: pod("", ""), becomes: []string{"serviceAccountName: default", "imagePullSecrets:\n  - name: pull", "mountPath: /var/run/secrets/kubernetes.io/serviceaccount", "kube-root-ca.crt"}},
		"own secrets":   {write: pod("imagePullSecrets: [{name: own}],", ""), not: []string{"name: pull"}},
		"mute":          {write: pod("serviceAccountName: mute,", ""), not: []string{"mountPath"}},
		"mute, but":     {write: pod("serviceAccountName: mute, automountServiceAccountToken: true,", ""), becomes: []string{"mountPath"}},
		"mounted":       {write: pod("volumes: [{name: v, emptyDir: {}}],", ", volumeMounts: [{name: v, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]"), not: []string{"kube-api-access"}},
		"absent":        {write: pod("serviceAccountName: gone,", ""), refused: `error looking up service account default/gone: serviceaccount "gone" not found`},
		"no name":       {write: pod("serviceAccountName: a/b,", ""), refused: `error looking up service account default/a/b: invalid resource name "a/b": [may not contain '/']`},
		"mirror":        {write: mirror(""), not: []string{"serviceAccountName"}},
		"mirror, named": {write: mirror("serviceAccountName: a,"), refused: "a mirror pod may not reference service accounts"},
		"mirror, env":   {write: mirror("initContainers: [{name: i, image: i, envFrom: [{secretRef: {name: s}}]}],"), refused: "a mirror pod may not reference secrets"},
		"mirror, token": {write: mirror("volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}],"), refused: "a mirror pod may not use ServiceAccountToken volume projections"},
		"strict":        {write: pod(strict+"volumes: [{name: v, secret: {secretName: mine}}],", "")},
		"volume":        {write: pod(strict+"volumes: [{name: v, secret: {secretName: other}}],", ""), refused: `volume with secret.secretName="other" is not allowed because service account strict does not reference that secret`},
		"env":           {write: pod(strict, ", env: [{name: E, valueFrom: {secretKeyRef: {name: other, key: k}}}]"), refused: `container c with envVar E referencing secret.secretName="other" is not allowed because service account strict does not reference that secret`},
		"env from":      {write: pod(strict, ", envFrom: [{secretRef: {name: other}}]"), refused: `container c with envFrom referencing secret.secretName="other" is not allowed`},
		"pull":          {write: pod(strict+"imagePullSecrets: [{name: other}],", ""), refused: `imagePullSecret="other" is not allowed because service account strict does not reference that imagePullSecret`},
		"ephemeral": {write: write{op: admission.Update, subresource: "ephemeralcontainers", old: plainPod,
			object: "{metadata: {name: p}, spec: {serviceAccountName: strict, containers: [{name: c, image: i}], ephemeralContainers: [{name: e, image: i, envFrom: [{secretRef: {name: other}}]}]}}"},
			refused: `ephemeral container e with envFrom referencing secret.secretName="other" is not allowed`},
	})
}

// The name of the token's volume is the same for all pods of an account, unless one has it already.
func TestNamesOfTokenVolumes(t *testing.T) {
	t.Parallel()
	named := func(account string, volumes ...string) string {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
		for _, v := range volumes {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: v})
		}
		mountToken(p, types.UID(account))
		name := p.Spec.Volumes[len(volumes)].Name
		if mount := p.Spec.Containers[0].VolumeMounts[0].Name; mount != name {
			t.Errorf("the volume is %s, and mounted as %s", name, mount)
		}
		if !regexp.MustCompile(`^kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}$`).MatchString(name) {
			t.Errorf("the volume is called %q", name)
		}
		return name
	}
	first := named("one")
	if again := named("one", "other"); again != first {
		t.Errorf("%s, and for another pod of the account %s", first, again)
	}
	if other := named("two"); other == first {
		t.Errorf("%s for two accounts", other)
	}
	if free := named("one", first); free == first {
		t.Errorf("%s twice in a pod", free)
	}
}
