package bootstrap

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const trackingName = "kube-apiserver-legacy-service-account-token-tracking"

// tracking notes since when the use of tokens in Secrets is seen, as Kubernetes does: what was not used since then is old. What is no day
// is replaced.
func tracking(ctx context.Context, cfg Config) error {
	since := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: trackingName, Namespace: metav1.NamespaceSystem},
		Data:       map[string]string{"since": cfg.Now().UTC().Format(time.DateOnly)},
	}
	return ensure(ctx, cfg.API, resource{version: "v1", resource: "configmaps"}, since, func(old, _ *corev1.ConfigMap) bool {
		_, err := time.Parse(time.DateOnly, old.Data["since"])
		return err == nil
	})
}
