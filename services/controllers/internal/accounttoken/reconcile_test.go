package accounttoken

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
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

// TestNamesakeOfAnAccount has an account made again with its Secret, and a cache that still shows the one before: with that one's uid the Secret would go.
func TestNamesakeOfAnAccount(t *testing.T) {
	t.Parallel()
	var late *objecttest.Late
	c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
		late, c.Client = c.API.ServeLate(t)
		controllertest.Create(c, object.ServiceAccount, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa"}})
	}, func(env *controller.Env) (controller.Unit, error) {
		return New(env, controllertest.NewAuthorities("CA")), nil
	})
	release := late.Hold("serviceaccounts")
	defer release()
	controllertest.Delete(c, object.ServiceAccount, "ns", "sa", metav1.DeleteOptions{})
	account := controllertest.Create(c, object.ServiceAccount, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa"}})
	controllertest.Create(c, object.Secret, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", Annotations: map[string]string{corev1.ServiceAccountNameKey: "sa"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	})
	secret := controllertest.Await(c, object.Secret, "a token", func(all []*corev1.Secret) bool {
		return len(all) == 1 && len(all[0].Data[corev1.ServiceAccountTokenKey]) > 0
	})[0]
	if got := secret.Annotations[corev1.ServiceAccountUIDKey]; got != string(account.UID) {
		t.Errorf("it is of account %s, not of %s", got, account.UID)
	}
}
