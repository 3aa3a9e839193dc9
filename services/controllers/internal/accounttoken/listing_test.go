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

func TestListing(t *testing.T) {
	t.Parallel()
	l := listing{"ns", "s", "bot", "7"}
	if got := listingOf(l.key()); got != l {
		t.Errorf("%v became %v", l, got)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bot", UID: "7"}, Secrets: []corev1.ObjectReference{{Name: "a"}, {Name: "s"}, {Name: "b"}}}
	for name, c := range map[string]struct {
		listing listing
		left    int // 0: it stays as it is
	}{
		"listed":                         {l, 2},
		"of a Secret that had no uid":    {listing{"ns", "s", "bot", ""}, 2},
		"of another account of its name": {listing{"ns", "s", "bot", "6"}, 0},
		"not listed":                     {listing{"ns", "x", "bot", "7"}, 0},
	} {
		got := c.listing.without(account)
		if (got == nil) != (c.left == 0) || got != nil && (len(got.Secrets) != c.left || got.Secrets[1].Name != "b") {
			t.Errorf("%s: %v", name, got)
		}
	}
	if len(account.Secrets) != 3 {
		t.Errorf("the account was changed: %v", account.Secrets)
	}
}

// TestRemovedSecretIsUnlisted: an account does not go on listing a Secret that was removed.
func TestRemovedSecretIsUnlisted(t *testing.T) {
	t.Parallel()
	c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
		account := controllertest.Create(c, object.ServiceAccount, &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa"}, Secrets: []corev1.ObjectReference{{Name: "s"}, {Name: "other"}},
		})
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", Annotations: map[string]string{corev1.ServiceAccountNameKey: "sa"}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}
		controllertest.Create(c, object.Secret, filled(secret, account, []byte("CA"), "token"))
	}, func(env *controller.Env) (controller.Unit, error) {
		return New(env, controllertest.NewAuthorities("CA")), nil
	})
	controllertest.Delete(c, object.Secret, "ns", "s", metav1.DeleteOptions{})
	controllertest.Await(c, object.ServiceAccount, "the other Secret alone", func(all []*corev1.ServiceAccount) bool {
		return len(all) == 1 && len(all[0].Secrets) == 1 && all[0].Secrets[0].Name == "other"
	})
}
