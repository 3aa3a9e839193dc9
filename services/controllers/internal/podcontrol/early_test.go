package podcontrol

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestUnnamed(t *testing.T) {
	t.Parallel()
	forbidden := func(why string) error {
		return apierrors.NewForbidden(corev1.Resource("pods"), "web-abc12", errors.New(why))
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{forbidden(`error looking up service account a/b: serviceaccount "b" not found`), `pods "web-" is forbidden: error looking up service account a/b: serviceaccount "b" not found`},
		{forbidden("no PriorityClass with name x was found"), `pods "web-" is forbidden: no PriorityClass with name x was found`},
		{forbidden("exceeded quota: q"), `pods "web-abc12" is forbidden: exceeded quota: q`},
		{errors.New(`no PriorityClass with name "web-abc12"`), `no PriorityClass with name "web-abc12"`},
	} {
		got := unnamed(tt.err, "web-abc12", "web-")
		if got.Error() != tt.want || apierrors.IsForbidden(got) != apierrors.IsForbidden(tt.err) {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
	if err := forbidden("no PriorityClass with name x was found"); unnamed(err, "web-0", "") != err {
		t.Error("a pod without a prefix lost its name")
	}
}
