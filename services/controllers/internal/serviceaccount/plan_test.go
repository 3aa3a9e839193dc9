package serviceaccount

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func TestMissing(t *testing.T) {
	t.Parallel()
	active := &corev1.Namespace{}
	ending := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}
	if !missing(active, false) || missing(active, true) || missing(ending, false) {
		t.Error("only an active namespace without the account needs one")
	}
}

func TestAccountComesBack(t *testing.T) {
	t.Parallel()
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env), nil })
	controllertest.Create(c, object.Namespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	first := controllertest.Await(c, object.ServiceAccount, "the account", func(s []*corev1.ServiceAccount) bool { return len(s) == 1 })[0]
	controllertest.Delete(c, object.ServiceAccount, "a", "default", metav1.DeleteOptions{})
	controllertest.Await(c, object.ServiceAccount, "another account", func(s []*corev1.ServiceAccount) bool {
		return len(s) == 1 && s[0].UID != first.UID
	})
}
