package apiserver

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestAdmissionBySettings switches plugins on and off and sees them act through the API.
func TestAdmissionBySettings(t *testing.T) {
	config := filepath.Join(t.TempDir(), "admission.yaml")
	text := `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits: [{type: Server, qps: 1, burst: 1}]
`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := startMemory(t, func(c *Config) {
		c.EnabledAdmission = []string{"PodPreset", "NamespaceAutoProvision", "AlwaysPullImages", "EventRateLimit", "DenyServiceExternalIPs"}
		c.DisabledAdmission = []string{"ServiceAccount", "PodSecurity"}
		c.AdmissionConfig = config
	})
	// The namespace is made; there is no service account in it, and nobody minds.
	var pod corev1.Pod
	body, err := f.create("v1/pods", "fresh", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i:1","imagePullPolicy":"Never"}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &pod); err != nil || pod.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways || pod.Spec.ServiceAccountName != "" {
		t.Errorf("%v: %s", err, body)
	}
	if _, err := f.get("v1/namespaces", "", "fresh"); err != nil {
		t.Error(err)
	}
	_, err = f.create("v1/services", "fresh", `{"metadata":{"name":"s"},"spec":{"ports":[{"port":80}],"externalIPs":["1.2.3.4"]}}`)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "Use of external IPs is denied by admission control.") {
		t.Errorf("got %v", err)
	}
	event := `{"metadata":{"generateName":"e"},"involvedObject":{"namespace":"fresh","name":"p"}}`
	var limited atomic.Bool
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := f.create("v1/events", "fresh", event); apierrors.IsTooManyRequests(err) {
				limited.Store(true)
			}
		})
	}
	wg.Wait()
	if !limited.Load() {
		t.Error("20 events at once are let through")
	}
	// The kind of presets comes with the plugin.
	preset := `{"apiVersion":"settings.k8s.io/v1alpha1","kind":"PodPreset","metadata":{"name":"db"},"spec":{"selector":{"matchLabels":{"role":"front"}},"env":[{"name":"DB","value":"there"}],
		"volumeMounts":[{"name":"cache","mountPath":"/cache"}],"volumes":[{"name":"cache","emptyDir":{}}]}}`
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err = f.create("settings.k8s.io/v1alpha1/podpresets", "fresh", preset); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	made := func(role string) string {
		body, err := f.create("v1/pods", "fresh", `{"metadata":{"generateName":"`+role+`-","labels":{"role":"`+role+`"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	front := made("front") // a plugin knows a preset as soon as the cache does
	for deadline := time.Now().Add(time.Minute); !strings.Contains(front, "podpreset.admission.kubernetes.io/podpreset-db") && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
		front = made("front")
	}
	if !strings.Contains(front, `"name":"DB"`) || !strings.Contains(front, `"mountPath":"/cache"`) {
		t.Errorf("a selected pod: %s", front)
	}
	if body := made("back"); strings.Contains(body, `"name":"DB"`) {
		t.Errorf("another pod: %s", body)
	}
}

// PodSecurityPolicies are served, and decide, where their plugin runs.
func TestPodSecurityPolicies(t *testing.T) {
	t.Parallel()
	f := startMemory(t, func(c *Config) {
		c.EnabledAdmission = []string{"PodSecurityPolicy"}
		c.DisabledAdmission = []string{"ServiceAccount"}
	})
	pod := func(name, context string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"containers":[{"name":"c","image":"i","securityContext":` + context + `}]}}`
	}
	if _, err := f.create("v1/pods", "default", pod("a", "{}")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "no providers available") {
		t.Errorf("without a policy: %v", err)
	}
	if _, err := f.create("policy/v1beta1/podsecuritypolicies", "", `{"apiVersion":"policy/v1beta1","kind":"PodSecurityPolicy","metadata":{"name":"bad"},"spec":{"seLinux":{"rule":"Whatever"}}}`); !apierrors.IsInvalid(err) {
		t.Errorf("a policy without its rules: %v", err)
	}
	policy := `{"apiVersion":"policy/v1beta1","kind":"PodSecurityPolicy","metadata":{"name":"restricted"},"spec":{"seLinux":{"rule":"RunAsAny"},"runAsUser":{"rule":"MustRunAsNonRoot"},
		"supplementalGroups":{"rule":"RunAsAny"},"fsGroup":{"rule":"RunAsAny"},"volumes":["*"]}}`
	if _, err := f.create("policy/v1beta1/podsecuritypolicies", "", policy); err != nil {
		t.Fatal(err)
	}
	privileged := func() error {
		_, err := f.create("v1/pods", "default", pod("b", `{"privileged":true}`))
		return err
	}
	err := privileged() // the plugin knows a policy as soon as the cache does
	for deadline := time.Now().Add(time.Minute); err != nil && strings.Contains(err.Error(), "no providers available") && time.Now().Before(deadline); err = privileged() {
		time.Sleep(10 * time.Millisecond)
	}
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "Privileged containers are not allowed") {
		t.Errorf("a privileged pod: %v", err)
	}
	body, err := f.create("v1/pods", "default", pod("c", "{}"))
	if err != nil || !strings.Contains(string(body), `"kubernetes.io/psp":"restricted"`) || !strings.Contains(string(body), `"runAsNonRoot":true`) {
		t.Errorf("%v: %s", err, body)
	}
}

func TestAdmissionSettingsAreChecked(t *testing.T) {
	for name, configure := range map[string]func(*Config){
		"unknown plugin":  func(c *Config) { c.EnabledAdmission = []string{"Nonsense"} },
		"absent file":     func(c *Config) { c.AdmissionConfig = "/does/not/exist" },
		"no limits given": func(c *Config) { c.EnabledAdmission = []string{"EventRateLimit"} },
	} {
		cfg := Config{DatabaseURL: "postgres://localhost/none"}
		configure(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s passes", name)
		}
	}
}
