package legacytoken

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Labels of the Secrets that hold tokens, as Kubernetes names them. Their values are days in UTC.
const (
	lastUsedLabel     = "kubernetes.io/legacy-token-last-used"
	invalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"
)

// action is what is to be done about a Secret.
type action int

const (
	nothing action = iota
	mark           // it was not used for long: its token is good no more
	remove         // and it was not used since
)

// plan decides about a Secret whose account is the one that it names, nil where there is none. used says whether a pod has it. An error
// says what keeps a Secret from being judged.
func plan(secret *corev1.Secret, account *corev1.ServiceAccount, used bool, period time.Duration, now time.Time) (action, error) {
	if secret.Type != corev1.SecretTypeServiceAccountToken || !generated(secret, account) || used {
		return nothing, nil
	}
	if now.Before(secret.CreationTimestamp.Add(period)) {
		return nothing, nil
	}
	if day, ok := secret.Labels[lastUsedLabel]; ok {
		over, err := passed(day, period, now)
		if err != nil {
			return nothing, fmt.Errorf("label %s: %w", lastUsedLabel, err)
		}
		if !over {
			return nothing, nil
		}
	}
	over, err := passed(secret.Labels[invalidSinceLabel], period, now)
	switch {
	case err != nil: // not marked, or not by a day
		return mark, nil
	case over:
		return remove, nil
	}
	return nothing, nil
}

// passed reports whether the period has passed since the end of the day.
func passed(day string, period time.Duration, now time.Time) (bool, error) {
	begin, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return false, err
	}
	return !now.Before(begin.Add(24*time.Hour + period)), nil
}

// generated reports whether the Secret and the account name each other: the control plane made it once, people did not.
func generated(secret *corev1.Secret, account *corev1.ServiceAccount) bool {
	return account != nil && slices.ContainsFunc(account.Secrets, func(ref corev1.ObjectReference) bool { return ref.Name == secret.Name })
}
