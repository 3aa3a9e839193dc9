package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"howdah.dev/services/apiserver/internal/webhook"
)

func TestWebhookIdentities(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(`{apiVersion: v1, kind: Config, users: [{name: "*", user: {token: t}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const form = "{apiVersion: %s, kind: %s, kubeConfigFile: %s}"
	for _, config := range []string{
		fmt.Sprintf(form, "apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration", path),
		fmt.Sprintf(form, "apiserver.config.k8s.io/v1alpha1", "WebhookAdmission", path),
	} {
		i, err := WebhookIdentities([]byte(config))
		if err != nil || i.For(&webhook.Target{URL: "https://a"}).Token != "t" {
			t.Errorf("%s: %v", config, err)
		}
	}
	for config, want := range map[string]string{
		fmt.Sprintf(form, "apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration", "a/b"):         "must be an absolute file path",
		fmt.Sprintf(form, "apiserver.config.k8s.io/v1", "WebhookAdmissionConfiguration", path+".none"):  "no such file",
		fmt.Sprintf(form, "v1", "WebhookAdmissionConfiguration", path):                                  "want a WebhookAdmissionConfiguration",
		"{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeconfig: /a}": "want a WebhookAdmissionConfiguration",
	} {
		if _, err := WebhookIdentities([]byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", config, err)
		}
	}
	if i, err := WebhookIdentities(nil); i != nil || err != nil {
		t.Errorf("without a configuration: %v, %v", i, err)
	}
}
