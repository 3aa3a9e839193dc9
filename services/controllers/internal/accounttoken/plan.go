package accounttoken

import (
	"bytes"

	corev1 "k8s.io/api/core/v1"
)

// action is what is to be done about a Secret.
type action int

const (
	nothing action = iota
	fill           // write its account's uid and the authority, and a namespace and a token where it has none
	remove         // its account is gone
)

// plan decides about a Secret of the type kubernetes.io/service-account-token and the account that it names, nil where there is none.
func plan(secret *corev1.Secret, account *corev1.ServiceAccount, ca []byte) action {
	switch {
	case secret.Type != corev1.SecretTypeServiceAccountToken || secret.DeletionTimestamp != nil:
		return nothing
	case account == nil, !belongs(secret, account):
		return remove
	case account.DeletionTimestamp != nil:
		return nothing
	case len(secret.Data[corev1.ServiceAccountTokenKey]) == 0, len(secret.Data[corev1.ServiceAccountNamespaceKey]) == 0,
		!bytes.Equal(secret.Data[corev1.ServiceAccountRootCAKey], ca) && len(ca) > 0:
		return fill
	}
	return nothing
}

// belongs reports whether the Secret names this very account, not one that had its name before.
func belongs(secret *corev1.Secret, account *corev1.ServiceAccount) bool {
	uid := secret.Annotations[corev1.ServiceAccountUIDKey]
	return secret.Annotations[corev1.ServiceAccountNameKey] == account.Name && (uid == "" || uid == string(account.UID))
}

// filled returns the Secret with everything that it needs; an empty token leaves its own.
func filled(secret *corev1.Secret, account *corev1.ServiceAccount, ca []byte, token string) *corev1.Secret {
	out := secret.DeepCopy()
	if out.Data == nil {
		out.Data = map[string][]byte{}
	}
	out.Annotations[corev1.ServiceAccountUIDKey] = string(account.UID)
	if len(secret.Data[corev1.ServiceAccountNamespaceKey]) == 0 {
		out.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	}
	if len(ca) > 0 {
		out.Data[corev1.ServiceAccountRootCAKey] = ca
	}
	if token != "" {
		out.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	return out
}
