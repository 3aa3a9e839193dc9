package bootstraptoken

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// TestTokenComesAndGoes signs with a token, and loses both when its time has come.
func TestTokenComesAndGoes(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC))
	c := controllertest.Start(t, clock, nil, func(env *controller.Env) (controller.Unit, error) {
		signer, cleaner := NewSigner(env), NewCleaner(env)
		signer.Queues = append(signer.Queues, cleaner.Queues...)
		return signer, nil
	})
	for _, namespace := range []string{"kube-public", "team"} {
		controllertest.Create(c, object.ConfigMap, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: infoName}, Data: map[string]string{contentKey: "x"},
		})
	}
	signed := func(n int) func([]*corev1.ConfigMap) bool {
		return func(list []*corev1.ConfigMap) bool {
			for _, m := range list {
				if m.Namespace == "kube-public" && len(m.Data) != 1+n || m.Namespace != "kube-public" && len(m.Data) != 1 {
					return false
				}
			}
			return true
		}
	}
	controllertest.Create(c, object.Secret, token("abcdef", "expiration", clock.Now().Add(time.Hour).Format(time.RFC3339)))
	controllertest.Create(c, object.Secret, token("fedcba"))
	elsewhere := token("aaaaaa", "expiration", clock.Now().Format(time.RFC3339))
	elsewhere.Namespace = "team"
	controllertest.Create(c, object.Secret, elsewhere)
	controllertest.Await(c, object.ConfigMap, "two signatures", signed(2))

	c.Go(func(ctx context.Context) error { // time passes, six thousand times as fast
		for ctx.Err() == nil {
			clock.Step(time.Minute)
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	})
	controllertest.Await(c, object.Secret, "the end of the token", func(list []*corev1.Secret) bool { return len(list) == 2 })
	controllertest.Await(c, object.ConfigMap, "one signature", signed(1))
}
