package plugin

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/services/apiserver/internal/admission"
)

// Who may end a pod's request for a certificate.
func TestPodCertificateSigning(t *testing.T) {
	t.Parallel()
	p := &PodCertificateSigning{Authorizer: may{"alice sign certificates.k8s.io/signers/ example.com/one"}}
	change := func(subresource, signer, status string) write {
		of := func(status string) string {
			return "{metadata: {name: r}, spec: {signerName: " + signer + "}, status: {" + status + "}}"
		}
		return write{op: admission.Update, resource: "podcertificaterequests", subresource: subresource, object: of(status), old: of("")}
	}
	const denied = "conditions: [{type: Denied, status: 'True'}]"
	verdicts(t, p, map[string]verdict{
		"allowed":   {write: change("status", "example.com/one", denied)},
		"other":     {write: change("status", "example.com/two", denied), refused: `PodCertificateRequest.certificates.k8s.io "r" is invalid: spec.signerName: Forbidden: User "alice" is not permitted to "sign" for signer "example.com/two"`},
		"no change": {write: change("status", "example.com/two", "")},
		"the spec":  {write: change("", "example.com/two", denied)},
	})
}

// What a node may ask of signers.
func TestNodesAskForTheirPods(t *testing.T) {
	t.Parallel()
	p := &NodeRestriction{Objects: worldOf(t, map[string][]string{
		"nodes":           {"{metadata: {name: n1, uid: nu}}"},
		"serviceaccounts": {"{metadata: {name: sa, namespace: default, uid: su}}"},
		"pods": {
			"{metadata: {name: p, namespace: default, uid: pu}, spec: {nodeName: n1, serviceAccountName: sa}}",
			"{metadata: {name: elsewhere, namespace: default, uid: pu}, spec: {nodeName: n2, serviceAccountName: sa}}",
			"{metadata: {name: mirror, namespace: default, uid: pu, annotations: {kubernetes.io/config.mirror: x}}, spec: {nodeName: n1, serviceAccountName: sa}}",
		},
	})}
	const asked = "{metadata: {name: r}, spec: {nodeName: n1, nodeUID: nu, podName: p, podUID: pu, serviceAccountName: sa, serviceAccountUID: su}}"
	with := func(pairs ...string) write {
		return write{resource: "podcertificaterequests", object: strings.NewReplacer(pairs...).Replace(asked), user: node("n1")}
	}
	verdicts(t, p, map[string]verdict{
		"its pod":         {write: with()},
		"another node":    {write: with("nodeName: n1", "nodeName: n2"), refused: `PodCertificateRequest.Spec.NodeName="n2", which is not the requesting node "n1"`},
		"an older node":   {write: with("nodeUID: nu", "nodeUID: x"), refused: `PodCertificateRequest for pod "default/p" names node UID "x", inconsistent with the running node ("nu")`},
		"no pod":          {write: with("podName: p", "podName: q"), refused: `while retrieving pod "default/q" named in the PodCertificateRequest: pod "q" not found`},
		"an older pod":    {write: with("podUID: pu", "podUID: x"), refused: `PodCertificateRequest for pod "default/p" contains pod UID ("x") which differs from running pod "pu"`},
		"a pod elsewhere": {write: with("podName: p", "podName: elsewhere"), refused: `pod "default/elsewhere" is not running on node "n1" named in the PodCertificateRequest`},
		"a mirror pod":    {write: with("podName: p", "podName: mirror"), refused: `pod "default/mirror" is a mirror pod`},
		// Its node is looked at first, and what may agree later is no refusal.
		"all of it":       {write: with("nodeUID: nu", "nodeUID: x", "podName: p", "podName: q"), refused: `PodCertificateRequest for pod "default/q" names node UID "x"`},
		"another account": {write: with("serviceAccountName: sa", "serviceAccountName: sb"), refused: `PodCertificateRequest for pod "default/p" contains serviceAccountName ("sb") that differs from running pod ("sa")`},
		"an older account": {write: with("serviceAccountUID: su", "serviceAccountUID: x"),
			refused: `PodCertificateRequest for pod "default/p" names service account UID "x", which differs from the running service account ("su")`},
	})
	a, _ := with("podUID: pu", "podUID: x").attributes(t)
	if status, ok := errors.AsType[*apierrors.StatusError](admit(p, a)); !ok || status.ErrStatus.Code != 500 || status.ErrStatus.Details != nil {
		t.Errorf("what may agree later is a 500 without details: %v", status)
	}
}

// What new groups of pods refer to, and what keeps them.
func TestPodGroups(t *testing.T) {
	t.Parallel()
	p := &PodGroupWorkloadExists{Objects: worldOf(t, map[string][]string{
		"workloads": {"{metadata: {name: w, namespace: default}, spec: {podGroupTemplates: [{name: t, schedulingPolicy: {basic: {}}}]}}"},
	})}
	of := func(ref string) write {
		return write{resource: "podgroups", object: "{metadata: {name: g}, spec: {podGroupTemplateRef: {" + ref + "}}}"}
	}
	verdicts(t, p, map[string]verdict{
		"alone":       {write: write{resource: "podgroups", object: "{metadata: {name: g}}"}},
		"of one":      {write: of("workload: {workloadName: w, podGroupTemplateName: t}")},
		"no workload": {write: of("workload: {workloadName: x, podGroupTemplateName: t}"), refused: `podgroups.scheduling.k8s.io "g" is forbidden: PodGroup rejected: Workload "x" not found`},
		"no template": {write: of("workload: {workloadName: w, podGroupTemplateName: u}"), refused: `PodGroup rejected: PodGroupTemplate "u" not found in Workload "w"`},
	})
	a, _ := of("").attributes(t)
	for range 2 { // once is enough
		if err := admit(PodGroupProtection{}, a); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.Object.GetFinalizers(); len(got) != 1 || got[0] != "scheduling.k8s.io/podgroup-protection" {
		t.Errorf("finalizers %v", got)
	}
}
