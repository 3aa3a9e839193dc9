package bootstraptoken

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/registry"
)

type secrets map[string]*corev1.Secret

func (s secrets) Get(_ context.Context, _, resource, namespace, name string) (registry.Object, error) {
	if secret := s[name]; secret != nil && resource == "secrets" && namespace == "kube-system" {
		return secret, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)
}

func TestHolder(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	const token = "abcdef.0123456789abcdef"
	for name, c := range map[string]struct {
		change func(*corev1.Secret)
		token  string
		groups []string
	}{
		"good": {func(*corev1.Secret) {}, token, []string{"system:bootstrappers"}},
		"with groups": {func(s *corev1.Secret) {
			s.Data["auth-extra-groups"] = []byte("system:bootstrappers:a,system:bootstrappers:b:c")
		}, token, []string{"system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b:c"}},
		"another secret":       {func(*corev1.Secret) {}, "abcdef.0123456789abcdeg", nil},
		"unknown":              {func(*corev1.Secret) {}, "aaaaaa.0123456789abcdef", nil},
		"of another form":      {func(*corev1.Secret) {}, "abcdef.0123456789abcdef0", nil},
		"a path":               {func(*corev1.Secret) {}, "../../.0123456789abcdef", nil},
		"with a foreign group": {func(s *corev1.Secret) { s.Data["auth-extra-groups"] = []byte("system:masters") }, token, nil},
		"of another type":      {func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, token, nil},
		"deleted":              {func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: now} }, token, nil},
		"not for this":         {func(s *corev1.Secret) { delete(s.Data, "usage-bootstrap-authentication") }, token, nil},
		"not yet expired":      {func(s *corev1.Secret) { s.Data["expiration"] = []byte("2030-01-01T00:00:01Z") }, token, []string{"system:bootstrappers"}},
		"expired":              {func(s *corev1.Secret) { s.Data["expiration"] = []byte("2030-01-01T00:00:00Z") }, token, nil},
		"expires some time":    {func(s *corev1.Secret) { s.Data["expiration"] = []byte("soon") }, token, nil},
		"of another id":        {func(s *corev1.Secret) { s.Data["token-id"] = []byte("ghijkl") }, token, nil},
		"without a secret":     {func(s *corev1.Secret) { delete(s.Data, "token-secret") }, token, nil},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken, Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true"),
		}}
		c.change(secret)
		v := Verifier{Objects: secrets{secret.Name: secret}, Clock: clocktesting.NewFakePassiveClock(now)}
		user, err := v.Holder(t.Context(), c.token)
		if errors.Is(err, authn.ErrNotMine) != (c.groups == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if (err == nil) != (c.groups != nil) || err == nil && (user.Name != "system:bootstrap:abcdef" || !slices.Equal(user.Groups, c.groups)) {
			t.Errorf("%s: %v %v", name, user, err)
		}
	}
}
