package accounttoken

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/object"
)

// listing is a Secret that an account may list. The uid of the account is empty where the Secret never had one.
type listing struct {
	namespace, secret, account, uid string
}

func (l listing) key() string {
	return strings.Join([]string{l.namespace, l.secret, l.account, l.uid}, "/")
}

func listingOf(key string) (l listing) {
	l.namespace, key, _ = strings.Cut(key, "/")
	l.secret, key, _ = strings.Cut(key, "/")
	l.account, l.uid, _ = strings.Cut(key, "/")
	return l
}

// without returns the account without the Secret, or nil where it does not list it or is another one of its name.
func (l listing) without(account *corev1.ServiceAccount) *corev1.ServiceAccount {
	is := func(r corev1.ObjectReference) bool { return r.Name == l.secret }
	if l.uid != "" && l.uid != string(account.UID) || !slices.ContainsFunc(account.Secrets, is) {
		return nil
	}
	account = account.DeepCopy()
	account.Secrets = slices.DeleteFunc(account.Secrets, is)
	return account
}

// unlist takes a Secret that is gone out of its account.
func (c *filler) unlist(ctx context.Context, key string) (time.Duration, error) {
	l := listingOf(key)
	accounts := object.For(c.client, object.ServiceAccount)
	account, err := accounts.Get(ctx, l.namespace, l.account)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read service account %s/%s: %w", l.namespace, l.account, err)
	}
	changed := l.without(account)
	if changed == nil {
		return 0, nil
	}
	if _, err := accounts.Update(ctx, changed); err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("take Secret %s out of service account %s/%s: %w", l.secret, l.namespace, l.account, err)
	}
	return 0, nil
}
