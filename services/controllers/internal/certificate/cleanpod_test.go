package certificate

import (
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// Requests of pods go a quarter of an hour after they were made, and no sooner.
func TestOldPodCertificateRequestsGo(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	prepare := func(c *controllertest.Cluster) {
		for name, age := range map[string]time.Duration{"old": keepPod, "young": keepPod - time.Second} {
			c.API.Now = func() time.Time { return now.Add(-age) }
			controllertest.Create(c, object.PodCertificateRequest, &certificatesv1beta1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
		}
	}
	c := controllertest.Start(t, clocktesting.NewFakeClock(now), prepare, func(env *controller.Env) (controller.Unit, error) { return NewPodCleaning(env), nil })
	controllertest.Await(c, object.PodCertificateRequest, "the young one alone", func(all []*certificatesv1beta1.PodCertificateRequest) bool {
		return len(all) == 1 && all[0].Name == "young"
	})
}
