package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// issuer is an OpenID Connect provider with one key.
type issuer struct {
	url, ca string
	key     *rsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	encode := base64.RawURLEncoding.EncodeToString
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []map[string]string{{
			"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes()),
		}}})
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	i.url = server.URL
	i.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return i
}

// token is one of the issuer's, for the subject.
func (i *issuer) token(t *testing.T, subject string) string {
	t.Helper()
	part := func(value any) string {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	now := time.Now()
	signed := part(map[string]string{"alg": "RS256", "kid": "1"}) + "." +
		part(map[string]any{"iss": i.url, "aud": "howdah", "sub": subject, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()})
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// configuration lets the issuer's users in, with a prefix.
func (i *issuer) configuration(prefix string) string {
	return fmt.Sprintf(`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthenticationConfiguration","jwt":[{"issuer":{"url":%q,"audiences":["howdah"],"certificateAuthority":%q},
		"claimMappings":{"username":{"claim":"sub","prefix":%q}}}]}`, i.url, i.ca, prefix)
}

const authorizers = `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthorizationConfiguration","authorizers":[{"type":"Node","name":"node"},{"type":"RBAC","name":"rbac"}%s]}`

// replace puts a text into a file as editors and ConfigMap volumes do: at once.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestConfigurationsAreFollowed changes both files of a standalone that runs: good ones are in force, and bad ones are counted and
// change nothing.
func TestConfigurationsAreFollowed(t *testing.T) {
	t.Parallel()
	first, second := newIssuer(t), newIssuer(t)
	folder := t.TempDir()
	authentication, authorization := filepath.Join(folder, "authentication"), filepath.Join(folder, "authorization")
	replace(t, authentication, first.configuration("first:"))
	replace(t, authorization, fmt.Sprintf(authorizers, ""))
	admin, address, dir := runStandalone(t, "--authentication-config", authentication, "--authorization-config", authorization)
	client := func(token string) kubernetes.Interface {
		return kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://" + address, BearerToken: token,
			TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(dir, "gateway", "ca.crt")}})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	await := func(what string, is func() (bool, string)) {
		t.Helper()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			good, told := is()
			if good {
				return
			}
			select {
			case <-ctx.Done():
				t.Fatalf("%s: %s", what, told)
			case <-tick.C:
			}
		}
	}
	known := func(by *issuer, subject string) func() (bool, string) {
		who, want, _ := strings.Cut(subject, " ")
		c := client(by.token(t, who))
		return func() (bool, string) {
			review, err := c.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if want == "" {
				return apierrors.IsUnauthorized(err), fmt.Sprint(err)
			}
			return err == nil && review.Status.UserInfo.Username == want, fmt.Sprint(err, review)
		}
	}
	hank := client(second.token(t, "hank"))
	mayList := func() (bool, string) {
		_, err := hank.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err == nil, fmt.Sprint(err)
	}
	counted := func(name, status string) func() (bool, string) {
		line := regexp.MustCompile(`(?m)^apiserver_` + name + `_config_controller_automatic_reloads_total\{.*status="` + status + `".*\} [1-9]`)
		return func() (bool, string) {
			text, err := admin.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
			return err == nil && line.Match(text), fmt.Sprint(line, err)
		}
	}
	await("the first issuer's token", known(first, "jane first:jane"))
	if is, told := known(second, "jane ")(); !is {
		t.Errorf("the second issuer's token: %s", told)
	}

	replace(t, authentication, second.configuration(""))
	replace(t, authorization, fmt.Sprintf(authorizers, fmt.Sprintf(`,{"type":"Webhook","name":"hook","webhook":{"timeout":"5s","subjectAccessReviewVersion":"v1",
		"matchConditionSubjectAccessReviewVersion":"v1","failurePolicy":"NoOpinion","authorizedTTL":"1s","unauthorizedTTL":"1s",
		"connectionInfo":{"type":"KubeConfigFile","kubeConfigFile":%q}}}`, webhook(t))))
	await("the second issuer's token", known(second, "hank hank"))
	await("the first issuer's token, now", known(first, "jane "))
	await("what the webhook allows", mayList)
	await("the reload of issuers", counted("authentication", "success"))
	await("the reload of authorizers", counted("authorization", "success"))

	replace(t, authentication, "jwt: [")
	replace(t, authorization, fmt.Sprintf(authorizers, `,{"type":"Nobody","name":"x"}`))
	await("the refusal of issuers", counted("authentication", "failure"))
	await("the refusal of authorizers", counted("authorization", "failure"))
	if is, told := known(second, "hank hank")(); !is {
		t.Errorf("after a file that is not good: %s", told)
	}
	if is, told := mayList(); !is {
		t.Errorf("after a file that is not good: %s", told)
	}
}
