package bootstraptoken

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// token is a Secret as kubeadm makes it, with the values of pairs.
func token(id string, pairs ...string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: secretPrefix + id}, Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{"token-id": []byte(id), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-signing": []byte("true")},
	}
	for i := 0; i < len(pairs); i += 2 {
		s.Data[pairs[i]] = []byte(pairs[i+1])
	}
	return s
}

func TestSigned(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	later, past := now.Add(time.Hour).Format(time.RFC3339), now.Format(time.RFC3339)
	ofName := token("abcdef")
	ofName.Name = "mine"
	going := token("abcdef")
	going.DeletionTimestamp = &metav1.Time{Time: now}
	for what, c := range map[string]struct {
		secret *corev1.Secret
		signs  bool
		next   bool
	}{
		"for signing":               {token("abcdef"), true, false},
		"for an hour":               {token("abcdef", "expiration", later), true, true},
		"expired":                   {token("abcdef", "expiration", past), false, false},
		"of a time that is none":    {token("abcdef", "expiration", "soon"), false, false},
		"not for signing":           {token("abcdef", "usage-bootstrap-signing", "false"), false, false},
		"with another's id":         {token("abcdef", "token-id", "fedcba"), false, false},
		"with an id that cannot be": {token("ABCDEF"), false, false},
		"with any secret part":      {token("abcdef", "token-secret", "Short"), true, false},
		"without a secret part":     {token("abcdef", "token-secret", ""), false, false},
		"of another name":           {ofName, false, false},
		"being deleted":             {going, false, false},
	} {
		data := map[string]string{contentKey: "x", "other": "y", signaturePrefix + "gone00": "old"}
		got, next := Signed(data, []*corev1.Secret{c.secret}, now)
		want := map[string]string{contentKey: "x", "other": "y"}
		if c.signs {
			want[signaturePrefix+"abcdef"] = sign("x", "abcdef", string(c.secret.Data["token-secret"]))
		}
		if !maps.Equal(got, want) || next.IsZero() == c.next {
			t.Errorf("%s: %v, next %v; want %v", what, got, next, want)
		}
	}
	if got, _ := Signed(map[string]string{signaturePrefix + "abcdef": "old"}, nil, now); len(got) != 1 {
		t.Errorf("a map without content became %v", got)
	}
}

// TestSignature compares with what k8s.io/cluster-bootstrap, by which kubeadm checks it, makes of the same content and token.
func TestSignature(t *testing.T) {
	t.Parallel()
	const want = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..vH_kT4yiol-nrAWgjfCYqvum5wsKETXe0S7OOp1VgnE"
	if got := sign("apiVersion: v1\nkind: Config\n", "abcdef", "0123456789abcdef"); got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}
