package plugin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authn"
)

func node(name string) authn.User {
	return authn.User{Name: "system:node:" + name, Groups: []string{"system:nodes"}}
}

func TestNodeRestriction(t *testing.T) {
	t.Parallel()
	n1 := node("n1")
	p := &NodeRestriction{Objects: worldOf(t, map[string][]string{"nodes": {"{metadata: {name: n1, uid: u1}}"}, "pods": {
		"{metadata: {name: here, namespace: default}, spec: {nodeName: n1}}", "{metadata: {name: there, namespace: default}, spec: {nodeName: n2}}",
	}})}
	nodeWith := func(name, labels, spec string) string {
		return "{metadata: {name: " + name + ", labels: {" + labels + "}}, spec: {" + spec + "}}"
	}
	change := func(before, after string) write {
		return write{op: admission.Update, resource: "nodes", object: after, old: before, user: n1}
	}
	plain := nodeWith("n1", "", "")
	on := func(name string) string {
		return "{metadata: {name: p, labels: {a: b}}, spec: {nodeName: " + name + ", containers: [{name: c, image: i}]}}"
	}
	mirror := func(owner, spec string) write {
		return write{object: "{metadata: {name: p, annotations: {kubernetes.io/config.mirror: x}, ownerReferences: [" + owner + "]}, spec: {" + spec + " containers: [{name: c, image: i}]}}", user: n1}
	}
	owner := "{apiVersion: v1, kind: Node, name: n1, uid: u1, controller: true}"
	verdicts(t, p, map[string]verdict{
		"somebody else":    {write: write{op: admission.Update, resource: "nodes", object: nodeWith("n1", "", "taints: [{key: a, effect: NoSchedule}]"), old: plain}},
		"a nameless node":  {write: write{object: plainPod, user: authn.User{Name: "x", Groups: []string{"system:nodes"}}}, refused: `could not determine node from user "x"`},
		"itself":           {write: change(plain, nodeWith("n1", "kubernetes.io/hostname: h, example.com/a: b, node.kubernetes.io/x: y", ""))},
		"another":          {write: write{op: admission.Update, resource: "nodes", object: nodeWith("n2", "", ""), old: nodeWith("n2", "", ""), user: n1}, refused: `nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2"`},
		"taints":           {write: change(plain, nodeWith("n1", "", "taints: [{key: a, effect: NoSchedule}]")), refused: `node "n1" is not allowed to modify taints`},
		"labels":           {write: change(plain, nodeWith("n1", "node-restriction.kubernetes.io/a: b, node-role.kubernetes.io/master: ''", "")), refused: "is not allowed to modify labels: node-restriction.kubernetes.io/a, node-role.kubernetes.io/master"},
		"first labels":     {write: write{resource: "nodes", object: nodeWith("n1", "x.node-restriction.kubernetes.io/a: b", ""), user: n1}, refused: `node "n1" is not allowed to set the following labels: x.node-restriction.kubernetes.io/a`},
		"other labels":     {write: change(plain, nodeWith("n1", "foo.k8s.io/a: b", "")), refused: "is not allowed to modify labels: foo.k8s.io/a"},
		"owners":           {write: change(plain, "{metadata: {name: n1, ownerReferences: [{name: a}]}}"), refused: `node "n1" is not allowed to modify ownerReferences`},
		"its lease":        {write: write{resource: "leases", object: "{metadata: {name: n1}}", user: n1}, refused: `can only access leases in the "kube-node-lease" system namespace`},
		"its CSINode":      {write: write{resource: "csinodes", object: "{metadata: {name: n1}}", user: n1}},
		"another CSINode":  {write: write{resource: "csinodes", object: "{metadata: {name: n2}}", user: n1}, refused: "can only access CSINode with the same name as the requesting node"},
		"a claim":          {write: write{op: admission.Update, resource: "persistentvolumeclaims", object: "{metadata: {name: v}}", old: "{metadata: {name: v}}", user: n1}, refused: "may only update PVC status"},
		"a claim's size":   {write: write{op: admission.Update, subresource: "status", resource: "persistentvolumeclaims", object: "{metadata: {name: v}, status: {capacity: {storage: 1Gi}}}", old: "{metadata: {name: v}}", user: n1}},
		"a claim's phase":  {write: write{op: admission.Update, subresource: "status", resource: "persistentvolumeclaims", object: "{metadata: {name: v}, status: {phase: Lost}}", old: "{metadata: {name: v}}", user: n1}, refused: "is not allowed to update fields other than status.quantity and status.conditions"},
		"its folder":       {write: write{op: admission.Update, resource: "persistentvolumes", object: folder("n1", "", going), old: folder("n1", ours, going), user: n1}},
		"a folder in use":  {write: write{op: admission.Update, resource: "persistentvolumes", object: folder("n1", "", ""), old: folder("n1", ours, ""), user: n1}, refused: "may only let volumes go that are folders of its own"},
		"another's folder": {write: write{op: admission.Update, resource: "persistentvolumes", object: folder("n2", "", going), old: folder("n2", ours, going), user: n1}, refused: "may only let volumes go that are folders of its own"},
		"its folder's end": {write: write{op: admission.Update, resource: "persistentvolumes", object: folder("n1", "", going), old: folder("n1", ours+", kubernetes.io/pv-protection", going), user: n1}, refused: "not allowed to change volumes but for the finalizer"},
		"a new folder":     {write: write{resource: "persistentvolumes", object: folder("n1", ours, ""), user: n1}, refused: "may only let volumes go that are folders of its own"},
		"its pod's status": {write: write{op: admission.Update, subresource: "status", object: on("n1"), old: on("n1"), user: n1}},
		"status elsewhere": {write: write{op: admission.Update, subresource: "status", object: on("n2"), old: on("n2"), user: n1}, refused: `node "n1" can only update pod status for pods with spec.nodeName set to itself`},
		"labels by status": {write: write{op: admission.Update, subresource: "status", object: "{metadata: {name: p}, spec: {nodeName: n1}}", old: on("n1"), user: n1}, refused: `node "n1" cannot update labels through pod status`},
		"delete elsewhere": {write: write{op: admission.Delete, old: on("n2"), user: n1}, refused: `node "n1" can only delete pods with spec.nodeName set to itself`},
		"evict":            {write: write{subresource: "eviction", old: "{metadata: {name: here}}", user: n1}}, // known by its name alone where the eviction is refused anyway
		"evict elsewhere":  {write: write{subresource: "eviction", old: "{metadata: {name: there}}", user: n1}, refused: `node n1 can only evict pods with spec.nodeName set to itself`},
		"evict nobody":     {write: write{subresource: "eviction", old: "{metadata: {name: none}}", user: n1}, refused: `pod "none" not found`},
		"its spec":         {write: write{op: admission.Update, object: on("n1"), old: on("n1"), user: n1}, refused: `unexpected operation "UPDATE", node "n1" can only create and delete mirror pods`},
		"binding":          {write: write{subresource: "binding", object: on("n1"), old: plainPod, user: n1}, refused: `unexpected pod subresource "binding", only 'status' and 'eviction' are allowed`},
		"plain pod":        {write: write{object: on("n1"), user: n1}, refused: `pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods`},
		"mirror":           {write: mirror(owner, "nodeName: n1,")},
		"mirror elsewhere": {write: mirror(owner, "nodeName: n2,"), refused: `node "n1" can only create pods with spec.nodeName set to itself`},
		"mirror, no owner": {write: mirror("", "nodeName: n1,"), refused: `node "n1" can only create pods with an owner reference set to itself`},
		"mirror, uid":      {write: mirror("{apiVersion: v1, kind: Node, name: n1, uid: u2, controller: true}", "nodeName: n1,"), refused: "node n1 UID mismatch: expected u2 got u1"},
		"mirror, secret":   {write: mirror(owner, "nodeName: n1, volumes: [{name: v, secret: {secretName: s}}],"), refused: `node "n1" can not create pods that reference secrets`},
		"mirror, claim":    {write: mirror(owner, "nodeName: n1, volumes: [{name: v, persistentVolumeClaim: {claimName: s}}],"), refused: "reference persistentvolumeclaims"},
		"mirror, account":  {write: mirror(owner, "nodeName: n1, serviceAccountName: a,"), refused: "reference a service account"},
	})
}

// The signers of node agents are asked for a node's own certificate only.
func TestNodesAskForTheirOwnCertificates(t *testing.T) {
	t.Parallel()
	of := func(name string) string {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: []string{"system:nodes"}}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	}
	own, others := of("system:node:n1"), of("system:node:n2")
	asks := func(signer, request string) write {
		return write{resource: "certificatesigningrequests", object: "{metadata: {name: r}, spec: {signerName: " + signer + ", request: " + request + "}}", user: node("n1")}
	}
	verdicts(t, &NodeRestriction{}, map[string]verdict{
		"client":           {write: asks("kubernetes.io/kube-apiserver-client-kubelet", own)},
		"serving":          {write: asks("kubernetes.io/kubelet-serving", own)},
		"another's":        {write: asks("kubernetes.io/kube-apiserver-client-kubelet", others), refused: "can only create a node CSR with CN=system:node:n1"},
		"another's server": {write: asks("kubernetes.io/kubelet-serving", others), refused: "can only create a node CSR with CN=system:node:n1"},
		"another signer":   {write: asks("example.com/one", others)},
		"no request":       {write: asks("kubernetes.io/kubelet-serving", "AAAA"), refused: "unable to parse csr: PEM block type must be CERTIFICATE REQUEST"},
	})
}

const (
	ours  = "howdah.dev/local-path"
	going = `, deletionTimestamp: "2026-01-01T00:00:00Z"`
)

// folder is a volume that lies on a node.
func folder(node, finalizers, more string) string {
	return "{metadata: {name: v, labels: {howdah.dev/local-path-node: " + node + "}, finalizers: [" + finalizers + "]" + more + "}}"
}

func TestNodeTokens(t *testing.T) {
	t.Parallel()
	p := &NodeRestriction{
		Objects: worldOf(t, map[string][]string{"pods": {
			"{metadata: {name: here, namespace: default, uid: u}, spec: {nodeName: n1, volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t, audience: vault}}]}}]}}",
			"{metadata: {name: driven, namespace: default, uid: u}, spec: {nodeName: n1, volumes: [{name: v, csi: {driver: inline}}, {name: w, persistentVolumeClaim: {claimName: c}}]}}",
			"{metadata: {name: lost, namespace: default, uid: u}, spec: {nodeName: n1, volumes: [{name: v, csi: {driver: none}}, {name: w, persistentVolumeClaim: {claimName: none}}, {name: x, persistentVolumeClaim: {claimName: unbound}}]}}",
			"{metadata: {name: there, namespace: default, uid: u}, spec: {nodeName: n2}}",
		}, "persistentvolumeclaims": {
			"{metadata: {name: c, namespace: default}, spec: {volumeName: v}}", "{metadata: {name: unbound, namespace: default}}",
		}, "persistentvolumes": {
			"{metadata: {name: v}, spec: {csi: {driver: claimed, volumeHandle: h}}}",
		}, "csidrivers": {
			"{metadata: {name: inline}, spec: {tokenRequests: [{audience: ''}]}}", "{metadata: {name: claimed}, spec: {tokenRequests: [{audience: vault}]}}",
		}}),
		Authorizer: may{"system:node:n1 request-serviceaccounts-token-audience /extra/ sa"},
	}
	bound := func(name, uid string, audiences ...string) *authenticationv1.TokenRequest {
		return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences,
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID(uid)}}}
	}
	for name, test := range map[string]struct {
		request *authenticationv1.TokenRequest
		want    string
	}{
		"unbound":        {&authenticationv1.TokenRequest{}, "node requested token not bound to a pod"},
		"no uid":         {bound("here", ""), "node requested token with a pod binding without a uid"},
		"another uid":    {bound("here", "x"), "the UID in the bound object reference (x) does not match the UID in record"},
		"another node":   {bound("there", "u"), "node requested token bound to a pod scheduled on a different node"},
		"none named":     {bound("here", "u"), `audience "" not found in pod spec volume`},
		"of a driver":    {bound("driven", "u"), ""},
		"claim's driver": {bound("driven", "u", "vault"), ""},
		"no driver's":    {bound("driven", "u", "bank"), `audience "bank" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience`},
		"lost": {bound("lost", "u", "vault"), `error validating audience "vault": [csidriver.storage.k8s.io "none" not found, ` +
			`persistentvolumeclaim "none" not found, persistentvolume "" not found]`},
		"named audience":  {bound("here", "u", "vault"), ""},
		"other audience":  {bound("here", "u", "bank"), `audience "bank" not found in pod spec volume`},
		"by permission":   {bound("here", "u", "extra"), ""},
		"two audiences":   {bound("here", "u", "vault", "bank"), "node may only request 0 or 1 audiences"},
		"no pod any more": {bound("gone", "u"), `pod "gone" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			w := write{resource: "serviceaccounts", subresource: "token", old: "{metadata: {name: sa}}", user: node("n1")}
			a, _ := w.attributes(t)
			a.Body = test.request
			wantError(t, admit(p, a), test.want)
		})
	}
}
