package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestBadInput is refused with Kubernetes' own words, and leaves nothing.
func TestBadInput(t *testing.T) {
	c := setup(t)
	tests := []struct {
		name, manifest string
		args           []string
		want           []string
	}{
		{"malformed YAML", "a: [", nil, []string{"error"}},
		{"unknown kind", "{apiVersion: v1, kind: Sprocket, metadata: {name: a}}", []string{"--validate=false"}, []string{`no matches for kind "Sprocket" in version "v1"`}},
		{"unknown field", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dta: {}}", nil, []string{`strict decoding error: unknown field "dta"`}},
		{"bad name", "{apiVersion: v1, kind: ConfigMap, metadata: {name: Not_Good}}", nil, []string{`ConfigMap "Not_Good" is invalid: metadata.name: Invalid value: "Not_Good": a lowercase RFC 1123 subdomain must consist of`}},
		{"missing image", "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}", nil, []string{`spec.containers[0].image: Required value`}},
		{"selector mismatch", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {c: d}}, spec: {containers: [{name: c, image: i}]}}}}`, nil,
			[]string{`spec.template.metadata.labels: Invalid value: {"c":"d"}: ` + "`selector` does not match template `labels`"}},
		{"missing namespace", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: nowhere}}", []string{"--namespace=nowhere"}, []string{`namespaces "nowhere" not found`}},
		{"too large", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: " + strings.Repeat("x", 1<<20+1) + "}}", []string{"--server-side"}, []string{"Too long"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"create", "-f", "-"}, tt.args...)
			if tt.name == "too large" {
				args = append([]string{"apply", "-f", "-"}, tt.args...)
			}
			if len(tt.args) == 0 || !strings.HasPrefix(tt.args[0], "--namespace") {
				args = append([]string{"-n", c.namespace}, args...)
			}
			out, err := run(time.Minute, yaml(tt.manifest), "kubectl", args...)
			if err == nil {
				t.Fatalf("accepted: %s", out)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
	t.Run("conflict", func(t *testing.T) {
		c.kubectl("create", "configmap", "contested", "--from-literal=a=1")
		old := c.kubectl("get", "configmap/contested", "-o", "yaml")
		c.kubectl("label", "configmap/contested", "moved=on")
		_, err := run(time.Minute, old, "kubectl", "-n", c.namespace, "replace", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), "the object has been modified; please apply your changes to the latest version and try again") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("not found", func(t *testing.T) {
		_, err := c.try("get", "pod", "nobody")
		if err == nil || !strings.Contains(err.Error(), `Error from server (NotFound): pods "nobody" not found`) {
			t.Errorf("got %v", err)
		}
	})
	if out := c.kubectl("get", "pods,deployments", "-o", "name"); out != "" {
		t.Errorf("something was left behind: %s", out)
	}
}
