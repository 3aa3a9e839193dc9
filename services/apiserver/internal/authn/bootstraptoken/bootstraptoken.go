// Package bootstraptoken knows the holders of bootstrap tokens: Secrets of kube-system by which machines ask to join.
package bootstraptoken

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/registry"
)

// Objects reads the Secrets; a missing one is 404.
type Objects interface {
	Get(ctx context.Context, group, resource, namespace, name string) (registry.Object, error)
}

// Verifier looks tokens up when they come: what is deleted is good no more.
type Verifier struct {
	Objects Objects
	Clock   clock.PassiveClock
}

const (
	group      = "system:bootstrappers"
	userPrefix = "system:bootstrap:"
)

var (
	tokens = regexp.MustCompile(`\A([a-z0-9]{6})\.([a-z0-9]{16})\z`)
	groups = regexp.MustCompile(`\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`)
)

// Holder returns the user of a bootstrap token.
func (v Verifier) Holder(ctx context.Context, token string) (*authn.User, error) {
	parts := tokens.FindStringSubmatch(token)
	if parts == nil {
		return nil, authn.ErrNotMine
	}
	id := parts[1]
	obj, err := v.Objects.Get(ctx, "", "secrets", metav1.NamespaceSystem, "bootstrap-token-"+id)
	if apierrors.IsNotFound(err) {
		return nil, authn.ErrNotMine
	}
	if err != nil {
		return nil, err
	}
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return nil, fmt.Errorf("the bootstrap token is a %T", obj)
	}
	if err := v.good(secret, id, parts[2]); err != nil {
		return nil, refused(ctx, id, err)
	}
	all, err := extraGroups(secret)
	if err != nil {
		return nil, refused(ctx, id, err)
	}
	return &authn.User{Name: userPrefix + id, Groups: append([]string{group}, all...)}, nil
}

// refused logs why a token is not good. As in Kubernetes, its bearer is not told, and others may know the token.
func refused(ctx context.Context, id string, why error) error {
	slog.InfoContext(ctx, "bootstrap token refused", "id", id, "err", why)
	return authn.ErrNotMine
}

func (v Verifier) good(secret *corev1.Secret, id, password string) error {
	switch {
	case secret.DeletionTimestamp != nil:
		return errors.New("it is being deleted")
	case secret.Type != corev1.SecretTypeBootstrapToken:
		return errors.New("the Secret has another type")
	case subtle.ConstantTimeCompare(secret.Data["token-secret"], []byte(password)) != 1:
		return errors.New("the secret part is wrong")
	case string(secret.Data["token-id"]) != id:
		return errors.New("the Secret's token-id is another")
	case string(secret.Data["usage-bootstrap-authentication"]) != "true":
		return errors.New("it is not for authentication")
	}
	if text := string(secret.Data["expiration"]); text != "" {
		expires, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return fmt.Errorf("its expiration: %w", err)
		}
		if !v.Clock.Now().Before(expires) {
			return errors.New("it has expired")
		}
	}
	return nil
}

func extraGroups(secret *corev1.Secret) ([]string, error) {
	text := string(secret.Data["auth-extra-groups"])
	if text == "" {
		return nil, nil
	}
	var all []string
	for name := range strings.SplitSeq(text, ",") {
		if !groups.MatchString(name) {
			return nil, fmt.Errorf("bootstrap group %q is invalid (must match %s)", name, groups)
		}
		all = append(all, name)
	}
	return all, nil
}
