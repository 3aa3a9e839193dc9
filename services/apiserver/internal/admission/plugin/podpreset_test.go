package plugin

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/registry"
)

func presets(t *testing.T, texts ...string) world {
	t.Helper()
	w := world{}
	for _, text := range texts {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		w["podpresets"] = append(w["podpresets"], registry.Object(u))
	}
	return w
}

func TestPodPreset(t *testing.T) {
	t.Parallel()
	head := "{apiVersion: settings.k8s.io/v1alpha1, kind: PodPreset, metadata: {namespace: default, name: "
	p := &PodPreset{Objects: presets(t,
		head+"a, resourceVersion: '7'}, spec: {selector: {matchLabels: {app: web}}, env: [{name: DB, value: there}], envFrom: [{configMapRef: {name: c}}], volumes: [{name: v, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /v}]}}",
		head+"b}, spec: {selector: {matchLabels: {app: other}}, env: [{name: X, value: z}]}}",
		head+"c}, spec: {selector: {}, env: [{name: X, value: [1]}]}}", // not readable
	)}
	pod := func(meta, container string) write {
		return write{object: "{metadata: {name: p, labels: {app: web}, " + meta + "}, spec: {initContainers: [{name: i, image: i}], containers: [{name: c, image: i" + container + "}]}}"}
	}
	verdicts(t, p, map[string]verdict{
		"applied":      {write: pod("", ""), becomes: []string{"name: DB", "mountPath: /v", "emptyDir: {}", "configMapRef", "podpreset.admission.kubernetes.io/podpreset-a: \"7\""}, not: []string{"name: X"}},
		"same":         {write: pod("", ", env: [{name: DB, value: there}]"), becomes: []string{"mountPath: /v"}},
		"excluded":     {write: pod("annotations: {podpreset.admission.kubernetes.io/exclude: 'true'}", ""), not: []string{"name: DB"}},
		"not selected": {write: write{object: plainPod}, not: []string{"name: DB"}},
	})
	for name, w := range map[string]write{
		"env": pod("", ", env: [{name: DB, value: here}]"), "mount path": pod("", ", volumeMounts: [{name: w, mountPath: /v}]"), "mount name": pod("", ", volumeMounts: [{name: v, mountPath: /w}]"),
	} {
		a, notes := w.attributes(t)
		if err := admit(p, a); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(notes.warnings) != 2 || !strings.HasPrefix(notes.warnings[1], "conflict occurred while applying podpresets: a on pod: ") || len(a.Object.GetAnnotations()) > 0 {
			t.Errorf("%s: %q, annotations %v", name, notes.warnings, a.Object.GetAnnotations())
		}
	}
}
