package accounttoken

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	ca := []byte("CA")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "bot", UID: "7"}}
	empty := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", Annotations: map[string]string{corev1.ServiceAccountNameKey: "bot"}}, Type: corev1.SecretTypeServiceAccountToken}
	full := filled(empty, account, ca, "token")
	if len(empty.Data) != 0 || string(full.Data["token"]) != "token" || string(full.Data["namespace"]) != "ns" || string(full.Data["ca.crt"]) != "CA" ||
		full.Annotations[corev1.ServiceAccountUIDKey] != "7" {
		t.Fatalf("filled: %+v", full)
	}
	change := func(s *corev1.Secret, f func(*corev1.Secret)) *corev1.Secret { s = s.DeepCopy(); f(s); return s }
	reborn, going := account.DeepCopy(), account.DeepCopy()
	reborn.UID, going.DeletionTimestamp = "8", &metav1.Time{Time: time.Unix(1, 0)}
	for name, c := range map[string]struct {
		secret  *corev1.Secret
		account *corev1.ServiceAccount
		want    action
	}{
		"empty":                         {empty, account, fill},
		"full":                          {full, account, nothing},
		"without a token":               {change(full, func(s *corev1.Secret) { delete(s.Data, "token") }), account, fill},
		"with another authority":        {change(full, func(s *corev1.Secret) { s.Data["ca.crt"] = []byte("old") }), account, fill},
		"with another namespace":        {change(full, func(s *corev1.Secret) { s.Data["namespace"] = []byte("x") }), account, nothing},
		"without a namespace":           {change(full, func(s *corev1.Secret) { delete(s.Data, "namespace") }), account, fill},
		"of no account":                 {full, nil, remove},
		"empty, of no account":          {empty, nil, remove},
		"of one with the same name":     {full, reborn, remove},
		"empty, of one that is new":     {empty, reborn, fill},
		"of one that is deleted":        {empty, going, nothing},
		"of another type":               {change(empty, func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }), nil, nothing},
		"that is deleted":               {change(empty, func(s *corev1.Secret) { s.DeletionTimestamp = going.DeletionTimestamp }), nil, nothing},
		"of an account named otherwise": {change(full, func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountNameKey] = "x" }), account, remove},
	} {
		if got := plan(c.secret, c.account, ca); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	ours := change(empty, func(s *corev1.Secret) { s.Data = map[string][]byte{"namespace": []byte("x")} })
	if kept := filled(ours, account, ca, "token"); string(kept.Data["namespace"]) != "x" {
		t.Errorf("the namespace became %q", kept.Data["namespace"])
	}
	if kept := filled(full, account, ca, ""); string(kept.Data["token"]) != "token" {
		t.Errorf("the token became %q", kept.Data["token"])
	}
}
