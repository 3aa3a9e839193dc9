// Package legacytoken ends tokens in Secrets that nobody uses: those which Kubernetes made for every service account before 1.24. One that was
// not used for a period gets a label, with which the API server refuses it; after a second period without use the Secret goes. People who miss
// it take the label away in between.
package legacytoken

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

const (
	// sweepEvery is the time between sweeps, Kubernetes' own: days are what is counted in.
	sweepEvery = 24 * time.Hour
	// sweepKey is the only key of the queue: a sweep sees all Secrets.
	sweepKey = "secrets"
	// The ConfigMap of the API server that says since which day uses are noted.
	trackingName = "kube-apiserver-legacy-service-account-token-tracking"
	sinceKey     = "since"
)

// cleaner sweeps Secrets.
type cleaner struct {
	client   *object.Client
	period   time.Duration
	secrets  *object.Informer[*corev1.Secret]
	accounts *object.Informer[*corev1.ServiceAccount]
	pods     *object.Informer[*corev1.Pod]
	clock    clock.WithTicker
	queue    *reconcile.Controller
}

// New returns the controller; period is how long a token must be unused to be marked, and then to be removed.
func New(env *controller.Env, period time.Duration) controller.Unit {
	c := &cleaner{
		client: env.Client, period: period, pods: env.Pods(), clock: env.Clock,
		secrets:  object.InformerFor(env.Informers, object.Secret, object.Option{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)}),
		accounts: object.InformerFor(env.Informers, object.ServiceAccount),
	}
	c.queue = reconcile.New(reconcile.Config{Name: "legacytoken", Reconcile: c.reconcile, Metrics: env.Metrics})
	first := func(ctx context.Context) error {
		c.queue.Enqueue(sweepKey, trace.SpanContext{})
		<-ctx.Done()
		return ctx.Err()
	}
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}, Loops: []func(context.Context) error{first}}
}

func (c *cleaner) reconcile(ctx context.Context, _ string) (time.Duration, error) {
	now := c.clock.Now().UTC()
	tracked, err := c.tracked(ctx, now)
	if err != nil || !tracked {
		return sweepEvery, err
	}
	used := referenced(c.pods.List(""))
	for _, secret := range c.secrets.List("") {
		account, ok := c.accounts.Get(secret.Namespace, secret.Annotations[corev1.ServiceAccountNameKey])
		if !ok {
			account = nil
		}
		decided, err := plan(secret, account, used[name{secret.Namespace, secret.Name}], c.period, now)
		if err != nil {
			slog.WarnContext(ctx, "legacy token is not judged", "namespace", secret.Namespace, "name", secret.Name, "err", err)
		}
		if err := c.apply(ctx, secret, decided, now); err != nil {
			return 0, err
		}
	}
	return sweepEvery, nil
}

// tracked reports whether uses are known for the whole period. Without the ConfigMap nothing is.
func (c *cleaner) tracked(ctx context.Context, now time.Time) (bool, error) {
	m, err := object.For(c.client, object.ConfigMap).Get(ctx, metav1.NamespaceSystem, trackingName)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read ConfigMap %s: %w", trackingName, err)
	}
	over, err := passed(m.Data[sinceKey], c.period, now)
	if err != nil {
		slog.WarnContext(ctx, "ConfigMap does not say since when uses of legacy tokens are noted", "name", trackingName, "err", err)
		return false, nil
	}
	return over, nil
}

// apply holds for the Secret as it was judged: one that was used meanwhile is left to the next sweep.
func (c *cleaner) apply(ctx context.Context, secret *corev1.Secret, decided action, now time.Time) error {
	var err error
	switch decided {
	case nothing:
		return nil
	case mark:
		var patch []byte
		patch, err = json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": secret.UID, "resourceVersion": secret.ResourceVersion, "labels": map[string]string{invalidSinceLabel: now.Format(time.DateOnly)},
		}})
		if err == nil {
			_, err = object.For(c.client, object.Secret).Patch(ctx, secret.Namespace, secret.Name, types.MergePatchType, patch, "")
		}
	case remove:
		err = object.For(c.client, object.Secret).Delete(ctx, secret.Namespace, secret.Name, metav1.DeleteOptions{
			Preconditions: object.AsSeen(secret),
		})
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("end legacy token in Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}
