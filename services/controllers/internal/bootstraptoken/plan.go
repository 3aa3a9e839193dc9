// Package bootstraptoken looks after the tokens by which machines ask to join: it signs the ConfigMap cluster-info with them, so that who has
// a token can trust what everybody may read, and removes those that have expired.
package bootstraptoken

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// secretPrefix begins the name of a token's Secret; the token's id ends it.
	secretPrefix = "bootstrap-token-"
	// contentKey of the ConfigMap is what is signed, and signaturePrefix with a token's id is where its signature is.
	contentKey      = "kubeconfig"
	signaturePrefix = "jws-kubeconfig-"
)

var ids = regexp.MustCompile(`\A[a-z0-9]{6}\z`)

// expires says whether a token ends by itself, and when. As in Kubernetes, one whose time cannot be read has ended.
func expires(secret *corev1.Secret) (at time.Time, ever bool) {
	text := string(secret.Data["expiration"])
	if text == "" {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, true
	}
	return at, true
}

// signs returns the id and the secret part of a token that is for signing and good now. Any secret part signs, as in Kubernetes, also one with which
// nobody can sign in.
func signs(secret *corev1.Secret, now time.Time) (id, password string, ok bool) {
	id, password = string(secret.Data["token-id"]), string(secret.Data["token-secret"])
	if secret.Type != corev1.SecretTypeBootstrapToken || secret.DeletionTimestamp != nil || !ids.MatchString(id) || secret.Name != secretPrefix+id ||
		password == "" || string(secret.Data["usage-bootstrap-signing"]) != "true" {
		return "", "", false
	}
	if at, ever := expires(secret); ever && !now.Before(at) {
		return "", "", false
	}
	return id, password, true
}

// Signed returns the data that the ConfigMap is to have: a signature of each token that signs now, and of no other. A map without content keeps
// what it has. next is when the first of the tokens expires, zero where none does.
func Signed(data map[string]string, secrets []*corev1.Secret, now time.Time) (want map[string]string, next time.Time) {
	content, ok := data[contentKey]
	if !ok {
		return data, time.Time{}
	}
	want = maps.Clone(data)
	maps.DeleteFunc(want, func(key, _ string) bool { return strings.HasPrefix(key, signaturePrefix) })
	for _, secret := range secrets {
		id, password, ok := signs(secret, now)
		if !ok {
			continue
		}
		want[signaturePrefix+id] = sign(content, id, password)
		if at, ever := expires(secret); ever && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return want, next
}

// sign returns a JSON Web Signature without its payload (RFC 7515, appendix F): whoever checks it has the content from elsewhere.
func sign(content, id, password string) string {
	encode := base64.RawURLEncoding.EncodeToString
	header := encode(fmt.Appendf(nil, `{"alg":"HS256","kid":%q}`, id))
	mac := hmac.New(sha256.New, []byte(password))
	mac.Write([]byte(header + "." + encode([]byte(content))))
	return header + ".." + encode(mac.Sum(nil))
}
