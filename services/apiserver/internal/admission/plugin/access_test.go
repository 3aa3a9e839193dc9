package plugin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authn"
)

// wantError checks that an error says something, or that there is none.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	allowed := may{"alice approve certificates.k8s.io/signers/ example.com/one", "alice sign certificates.k8s.io/signers/ example.com/*", "alice attest certificates.k8s.io/signers/ example.com/one"}
	csr := func(signer, status string) string {
		return "{metadata: {name: r}, spec: {request: '', signerName: " + signer + "}, status: {" + status + "}}"
	}
	change := func(subresource, signer, status string) write {
		return write{op: admission.Update, resource: "certificatesigningrequests", subresource: subresource, object: csr(signer, status), old: csr(signer, "")}
	}
	const approved = "conditions: [{type: Approved, status: 'True'}]"
	verdicts(t, &CertificateApproval{Authorizer: allowed}, map[string]verdict{
		"allowed": {write: change("approval", "example.com/one", approved)},
		"other":   {write: change("approval", "example.com/two", approved), refused: `user not permitted to approve requests with signerName "example.com/two"`},
		"status":  {write: change("status", "example.com/two", approved)},
	})
	verdicts(t, &CertificateSigning{Authorizer: allowed}, map[string]verdict{
		"by domain": {write: change("status", "example.com/two", "certificate: YQ==")},
		"other":     {write: change("status", "example.org/two", "certificate: YQ=="), refused: `user not permitted to sign requests with signerName "example.org/two"`},
		"no change": {write: change("status", "example.org/two", "")},
	})
	bundle := func(signer string) write {
		return write{resource: "clustertrustbundles", object: "{metadata: {name: b}, spec: {signerName: '" + signer + "', trustBundle: x}}"}
	}
	verdicts(t, &ClusterTrustBundleAttest{Authorizer: allowed}, map[string]verdict{
		"allowed": {write: bundle("example.com/one")}, "unsigned": {write: bundle("")},
		"other": {write: bundle("example.com/two"), refused: `user not permitted to attest for signerName "example.com/two"`},
	})
	request := func(signer string, organizations ...string) write {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "x", Organization: organizations}}, key)
		if err != nil {
			t.Fatal(err)
		}
		text := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
		return write{resource: "certificatesigningrequests", object: "{metadata: {name: r}, spec: {signerName: " + signer + ", request: " + text + "}}"}
	}
	verdicts(t, CertificateSubjectRestriction{}, map[string]verdict{
		"masters":      {write: request("kubernetes.io/kube-apiserver-client", "system:masters"), refused: "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"},
		"others":       {write: request("kubernetes.io/kube-apiserver-client", "team")},
		"other signer": {write: request("example.com/a", "system:masters")},
		"garbage":      {write: write{resource: "certificatesigningrequests", object: "{metadata: {name: r}, spec: {signerName: kubernetes.io/kube-apiserver-client, request: YQ==}}"}, refused: "failed to parse CSR"},
	})
}

type kindsOf map[string]string

func (k kindsOf) ResourceOf(gvk schema.GroupVersionKind) (schema.GroupVersionResource, bool, bool) {
	resource, ok := k[gvk.Kind]
	return gvk.GroupVersion().WithResource(resource), gvk.Kind == "Pod", ok
}

func TestOwnerReferencesPermissionEnforcement(t *testing.T) {
	t.Parallel()
	p := &OwnerReferencesPermissionEnforcement{
		Authorizer: may{"bob delete /pods/ p", "alice update /pods/finalizers mine"},
		Kinds:      kindsOf{"Pod": "pods", "Node": "nodes"},
	}
	with := func(owners string) string {
		return "{metadata: {name: p, ownerReferences: [" + owners + "]}, spec: {containers: [{name: c, image: i}]}}"
	}
	owner := func(kind, name string, blocks string) string {
		return "{apiVersion: v1, kind: " + kind + ", name: " + name + ", uid: u-" + name + ", blockOwnerDeletion: " + blocks + "}"
	}
	bob := authn.User{Name: "bob"}
	verdicts(t, p, map[string]verdict{
		"created":         {write: write{object: with(owner("Pod", "any", "false"))}},
		"created, blocks": {write: write{object: with(owner("Pod", "mine", "true"))}},
		"created, others": {write: write{object: with(owner("Pod", "any", "true"))}, refused: "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: no, <nil>"},
		"unknown kind":    {write: write{object: with(owner("Thing", "any", "true"))}, refused: "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion v1 Kind Thing"},
		"cannot delete":   {write: write{op: admission.Update, object: with(owner("Pod", "any", "false")), old: with("")}, refused: "cannot set an ownerRef on a resource you can't delete: no, <nil>"},
		"can delete":      {write: write{op: admission.Update, object: with(owner("Pod", "any", "false")), old: with(""), user: bob}},
		"no change":       {write: write{op: admission.Update, object: with(owner("Pod", "any", "true")), old: with(owner("Pod", "any", "true"))}},
		"status":          {write: write{op: admission.Update, subresource: "status", object: with(owner("Pod", "any", "true")), old: with("")}},
	})
}

func TestEventRateLimit(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	config := "{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [%s]}"
	p, err := NewEventRateLimit([]byte(strings.Replace(config, "%s", "{type: Namespace, qps: 1, burst: 2}, {type: SourceAndObject, qps: 1, burst: 1}", 1)), clock)
	if err != nil {
		t.Fatal(err)
	}
	event := func(of string) write {
		return write{resource: "events", object: "{metadata: {name: e}, involvedObject: {name: " + of + "}}"}
	}
	dry := event("one")
	dry.dryRun = true
	for n, step := range []verdict{
		{write: event("one")}, {write: dry},
		{write: event("one"), refused: "limit reached on type SourceAndObject for key one"},
		{write: event("two"), refused: "limit reached on type Namespace for key default"},
		{write: write{object: plainPod}},
	} {
		a, _ := step.attributes(t)
		if err := admit(p, a); step.refused == "" && err != nil || step.refused != "" && (err == nil || !strings.Contains(err.Error(), step.refused)) {
			t.Errorf("step %d: got %v, want %q", n, err, step.refused)
		}
	}
	clock.Step(10 * time.Second)
	event("one").attributes(t)
	verdicts(t, p, map[string]verdict{"later": {write: event("one")}})
	for name, bad := range map[string]string{
		"type": "{type: Nobody, qps: 1, burst: 1}", "twice": "{type: User, qps: 1, burst: 1}, {type: User, qps: 1, burst: 1}",
		"qps": "{type: User, burst: 1}", "burst": "{type: User, qps: 1}", "none": "", "size": "{type: User, qps: 1, burst: 1, cacheSize: -1}",
	} {
		if _, err := NewEventRateLimit([]byte(strings.Replace(config, "%s", bad, 1)), clock); err == nil {
			t.Errorf("%s passes", name)
		}
	}
	if _, err := NewEventRateLimit(nil, clock); err == nil {
		t.Error("no configuration passes")
	}
}
