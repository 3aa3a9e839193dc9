// Package bootstrap is what machines join a cluster by: bootstrap tokens, and the objects that lead them from a token to a node's certificate.
//
// Source: "Authenticating with Bootstrap Tokens", "TLS bootstrapping" and "kubeadm token" in the Kubernetes reference.
package bootstrap

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// SecretPrefix begins the name of a token's Secret in kube-system; the token's id ends it.
	SecretPrefix = "bootstrap-token-"
	// DefaultGroup is that of tokens by which nodes join; its name is kubeadm's, whose users have bindings for it.
	DefaultGroup = "system:bootstrappers:kubeadm:default-node-token"

	usagePrefix = "usage-bootstrap-"
)

// Usages are what a token may be for.
var Usages = []string{"signing", "authentication"}

var (
	tokens = regexp.MustCompile(`\A([a-z0-9]{6})\.([a-z0-9]{16})\z`)
	ids    = regexp.MustCompile(`\A[a-z0-9]{6}\z`)
	groups = regexp.MustCompile(`\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`)
)

// Token is a bootstrap token: its id is no secret.
type Token struct{ ID, Secret string }

func (t Token) String() string { return t.ID + "." + t.Secret }

// ParseToken reads ID.SECRET. Its error does not repeat what may be a secret.
func ParseToken(text string) (Token, error) {
	parts := tokens.FindStringSubmatch(text)
	if parts == nil {
		return Token{}, errors.New(`the bootstrap token is not of the form "[a-z0-9]{6}.[a-z0-9]{16}"`)
	}
	return Token{parts[1], parts[2]}, nil
}

// ParseID reads a token's id, of an id or a whole token.
func ParseID(text string) (string, error) {
	if ids.MatchString(text) {
		return text, nil
	}
	if t, err := ParseToken(text); err == nil {
		return t.ID, nil
	}
	return "", errors.New(`it is neither a token's id, of the form "[a-z0-9]{6}", nor a token`)
}

// NewToken makes a token by chance.
func NewToken() (Token, error) {
	const alphabet = "0123456789abcdefghijklmnopqrstuvwxyz"
	var text [22]byte
	for i := range text {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		if err != nil {
			return Token{}, fmt.Errorf("make a token: %w", err)
		}
		text[i] = alphabet[n.Int64()]
	}
	return Token{string(text[:6]), string(text[6:])}, nil
}

// Grant is a token with what it is for.
type Grant struct {
	Token       Token
	Description string
	Expires     time.Time // zero: never
	Usages      []string  // of Usages
	Groups      []string  // whom its holder is one of, beside system:bootstrappers
}

// Validate reports all that is wrong at once.
func (g Grant) Validate() error {
	var problems []error
	if len(g.Usages) == 0 {
		problems = append(problems, errors.New("a token has at least one usage"))
	}
	for _, usage := range g.Usages {
		if !slices.Contains(Usages, usage) {
			problems = append(problems, fmt.Errorf("usage %q is none of %s", usage, strings.Join(Usages, ", ")))
		}
	}
	for _, group := range g.Groups {
		if !groups.MatchString(group) {
			problems = append(problems, fmt.Errorf(`group %q is not of the form "system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]"`, group))
		}
	}
	if len(g.Groups) > 0 && !slices.Contains(g.Usages, "authentication") {
		problems = append(problems, errors.New("groups are for tokens with the usage authentication"))
	}
	return errors.Join(problems...)
}

// Secret is the object of a grant.
func (g Grant) Secret() *corev1.Secret {
	data := map[string][]byte{"token-id": []byte(g.Token.ID), "token-secret": []byte(g.Token.Secret)}
	set := func(key, value string) {
		if value != "" {
			data[key] = []byte(value)
		}
	}
	set("description", g.Description)
	set("auth-extra-groups", strings.Join(slices.Sorted(slices.Values(g.Groups)), ","))
	if !g.Expires.IsZero() {
		set("expiration", g.Expires.UTC().Format(time.RFC3339))
	}
	for _, usage := range g.Usages {
		set(usagePrefix+usage, "true")
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: SecretPrefix + g.Token.ID},
		Type:       corev1.SecretTypeBootstrapToken, Data: data,
	}
}

// GrantOf reads the object of a grant.
func GrantOf(s *corev1.Secret) (Grant, error) {
	t, err := ParseToken(string(s.Data["token-id"]) + "." + string(s.Data["token-secret"]))
	if err != nil || s.Name != SecretPrefix+t.ID {
		return Grant{}, fmt.Errorf("the Secret %s is no bootstrap token", s.Name)
	}
	g := Grant{Token: t, Description: string(s.Data["description"])}
	if text := string(s.Data["expiration"]); text != "" {
		if g.Expires, err = time.Parse(time.RFC3339, text); err != nil {
			return Grant{}, fmt.Errorf("the Secret %s: the time %q cannot be read", s.Name, text)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		if usage, ok := strings.CutPrefix(key, usagePrefix); ok && string(s.Data[key]) == "true" {
			g.Usages = append(g.Usages, usage)
		}
	}
	if text := string(s.Data["auth-extra-groups"]); text != "" {
		g.Groups = strings.Split(text, ",")
	}
	return g, nil
}
