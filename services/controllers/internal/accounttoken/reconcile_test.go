package accounttoken

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// TestReplacedAuthorities: a Secret that is whole is given the authorities that take the place of those in it, and keeps its token.
func TestReplacedAuthorities(t *testing.T) {
	t.Parallel()
	ca := controllertest.NewAuthorities("CA")
	c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
		account := controllertest.Create(c, object.ServiceAccount, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa"}})
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", Annotations: map[string]string{corev1.ServiceAccountNameKey: "sa"}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}
		controllertest.Create(c, object.Secret, filled(secret, account, []byte("CA"), "token"))
	}, func(env *controller.Env) (controller.Unit, error) { return New(env, ca), nil })
	ca.Replace("new CA")
	all := controllertest.Await(c, object.Secret, "the new authority", func(all []*corev1.Secret) bool {
		return len(all) == 1 && string(all[0].Data[corev1.ServiceAccountRootCAKey]) == "new CA"
	})
	if string(all[0].Data[corev1.ServiceAccountTokenKey]) != "token" {
		t.Errorf("its token is %q", all[0].Data[corev1.ServiceAccountTokenKey])
	}
}
