package clients

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"howdah.dev/test/internal/standalone"
)

// certify makes a certificate for 127.0.0.1 that is its own authority, and the folder with it and its key.
func (u *user) certify() (folder string, authority []byte) {
	u.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		u.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "clients-test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		u.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		u.t.Fatal(err)
	}
	authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	u.write("certs/tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	return filepath.Dir(u.write("certs/tls.crt", string(authority))), authority
}

// operate runs the operator until the test ends or it is killed.
func (u *user) operate(name string, args ...string) *exec.Cmd {
	u.t.Helper()
	return u.spawn(name, operator.bin(u.t), append([]string{"--name", name, "--lock-namespace", u.namespace, "--kubeconfig", u.c.Kubeconfig()}, args...)...)
}

const webhooks = `apiVersion: admissionregistration.k8s.io/v1
kind: %s
metadata: {name: shops.clients.howdah.dev}
webhooks:
- name: shops.clients.howdah.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 10
  clientConfig: {url: "https://127.0.0.1:%s/%s-clients-howdah-dev-v1-shop", caBundle: %s}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}
  rules: [{apiGroups: [clients.howdah.dev], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [shops]}]
---
`

// TestOperator runs two of an operator that controller-runtime drives: one leads, the other one serves its webhooks and waits.
func TestOperator(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.must("apply", "-f", "testdata/shop-crd.yaml")
	t.Cleanup(func() {
		_, _ = u.c.try(patience, "", "delete", "crd/shops.clients.howdah.dev", "--wait=false")
		_, _ = u.c.try(patience, "", "delete", "validatingwebhookconfiguration,mutatingwebhookconfiguration", "shops.clients.howdah.dev", "--ignore-not-found")
	})
	u.must("wait", "--for=condition=Established", "crd/shops.clients.howdah.dev", "--timeout=80s")
	holder := func() string {
		out, _ := u.try("", "get", "lease", "shops.clients.howdah.dev", "-o", "jsonpath={.spec.holderIdentity}")
		return out
	}
	first := u.operate("first")
	u.await("the first operator to lead", func() bool { return holder() != "" })
	leader := holder()

	folder, authority := u.certify()
	address, err := standalone.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	u.operate("second", "--webhook-port", port, "--cert-dir", folder)
	bundle := base64.StdEncoding.EncodeToString(authority)
	u.await("the webhooks to listen", func() bool {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	u.feed(fmt.Sprintf(webhooks, "ValidatingWebhookConfiguration", port, "validate", bundle, u.namespace)+
		fmt.Sprintf(webhooks, "MutatingWebhookConfiguration", port, "mutate", bundle, u.namespace), "create", "-f", "-")
	shop := func(color string) string {
		return "apiVersion: clients.howdah.dev/v1\nkind: Shop\nmetadata: {name: corner}\nspec: {color: " + color + "}\n"
	}
	refused := ""
	u.await("the webhook to be asked", func() bool {
		out, err := u.try(shop("purple"), "create", "-f", "-", "--dry-run=server")
		if err != nil {
			refused = err.Error()
		}
		return err != nil && out == "" && strings.Contains(refused, "no shop is purple")
	})
	if !strings.Contains(refused, `admission webhook "shops.clients.howdah.dev" denied the request: no shop is purple`) {
		t.Errorf("refusal: %s", refused)
	}

	is := func(color, by string) {
		t.Helper()
		u.await("shop and ConfigMap to be "+color+" by "+by, func() bool {
			settings, _ := u.try("", "get", "configmap", "corner", "-o", "jsonpath={.data.color}")
			status, _ := u.try("", "get", "shp", "corner", "-o", "jsonpath={.status.color}/{.status.by}")
			return settings == color && status == color+"/"+by
		})
	}
	u.feed(shop(`""`), "create", "-f", "-")
	is("red", "first") // as the webhook defaults it
	if out := u.must("patch", "shop", "corner", "--type=merge", "-p", `{"spec":{"color":"grey"}}`); !strings.Contains(out, "Warning: grey shops sell little") {
		t.Errorf("no warning: %s", out)
	}
	is("grey", "first")
	u.walk(
		step{args: `patch shop corner --type=merge -p '{"spec":{"color":"purple"}}'`, fails: true, want: []string{"no shop is purple"}},
		step{args: `patch shop corner --type=merge -p '{"spec":{"color":"a long name of a color"}}'`, fails: true, want: []string{`spec.color: Too long: may not be more than 10 bytes`}},
		step{args: "get shops", want: []string{`NAME\s+COLOR\s+BY`, `corner\s+grey\s+first`}},
		step{args: "delete configmap corner"},
	)
	is("grey", "first") // it owns the ConfigMap, and made it anew

	_ = first.Process.Kill()
	u.await("the second operator to lead", func() bool { h := holder(); return h != "" && h != leader })
	u.must("patch", "shop", "corner", "--type=merge", "-p", `{"spec":{"color":"blue"}}`)
	is("blue", "second")
	u.must("delete", "shop", "corner", "--timeout=80s") // waits for the finalizer
	u.must("get", "configmap", "corner-farewell")
	u.must("wait", "--for=delete", "configmap/corner", "--timeout=80s") // the garbage collector's
}
