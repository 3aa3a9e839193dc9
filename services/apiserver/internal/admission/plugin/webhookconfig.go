package plugin

import (
	"errors"
	"path/filepath"

	"howdah.dev/services/apiserver/internal/webhook"
)

// WebhookIdentities reads the configuration of one of the webhook plugins: whom the apiserver is to webhooks. An empty one is nobody.
func WebhookIdentities(config []byte) (*webhook.Identities, error) {
	if config == nil {
		return nil, nil
	}
	var c struct {
		APIVersion     string `json:"apiVersion"`
		Kind           string `json:"kind"`
		KubeConfigFile string `json:"kubeConfigFile"`
	}
	err := decodeConfig(config, &c, "WebhookAdmissionConfiguration", "apiserver.config.k8s.io/v1")
	if err != nil {
		err = decodeConfig(config, &c, "WebhookAdmission", "apiserver.config.k8s.io/v1alpha1")
	}
	switch {
	case err != nil:
		return nil, errors.New("want a WebhookAdmissionConfiguration of apiserver.config.k8s.io/v1: " + err.Error())
	case c.KubeConfigFile == "":
		return nil, nil
	case !filepath.IsAbs(c.KubeConfigFile):
		return nil, errors.New("kubeConfigFile must be an absolute file path")
	}
	return webhook.ReadIdentities(c.KubeConfigFile)
}
