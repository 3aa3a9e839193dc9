package nodeauthz

import (
	"context"
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/rbacpolicy"
	"howdah.dev/services/apiserver/internal/registry"
)

// world is objects by resource, namespace and name.
type world map[[3]string]registry.Object

func (w world) Get(_ context.Context, group, resource, namespace, name string) (registry.Object, error) {
	if obj, ok := w[[3]string{resource, namespace, name}]; ok {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: group, Resource: resource}, name)
}

func (w world) List(_ context.Context, _, resource, namespace string) (all []registry.Object) {
	for key, obj := range w {
		if key[0] == resource && key[1] == namespace {
			all = append(all, obj)
		}
	}
	return all
}

func named(ns, name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }

func cluster() world {
	volume := func(name string, source corev1.VolumeSource) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: source}
	}
	pod := &corev1.Pod{ObjectMeta: named("ns", "mine"), Spec: corev1.PodSpec{
		NodeName: "n1", ServiceAccountName: "sa", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
		Volumes: []corev1.Volume{
			volume("s", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}}),
			volume("c", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}),
			volume("e", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}),
			volume("i", corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: &corev1.LocalObjectReference{Name: "chap"}}}),
			volume("d", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}}),
			volume("n", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "near"}}),
			volume("p", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "projected"}}}}}}),
		},
		Containers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "env"}}}}}},
		ResourceClaims: []corev1.PodResourceClaim{
			{Name: "gpu", ResourceClaimName: ptr.To("device")},
			{Name: "made", ResourceClaimTemplateName: ptr.To("template")},
		},
	}, Status: corev1.PodStatus{
		ResourceClaimStatuses:       []corev1.PodResourceClaimStatus{{Name: "made", ResourceClaimName: ptr.To("from-template")}},
		ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended"},
	}}
	claimRef := &corev1.ObjectReference{Namespace: "ns", Name: "claim"}
	disk := func(name, claim string, secret *corev1.SecretReference) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: named("", name), Spec: corev1.PersistentVolumeSpec{
			ClaimRef:               &corev1.ObjectReference{Namespace: "ns", Name: claim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{SecretRef: secret}}}}
	}
	return world{
		{"pods", "ns", "mine"}:                    pod,
		{"pods", "ns", "theirs"}:                  &corev1.Pod{ObjectMeta: named("ns", "theirs"), Spec: corev1.PodSpec{NodeName: "n2", ServiceAccountName: "other"}},
		{"persistentvolumeclaims", "ns", "claim"}: &corev1.PersistentVolumeClaim{ObjectMeta: named("ns", "claim"), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}},
		{"persistentvolumes", "", "pv"}: &corev1.PersistentVolume{ObjectMeta: named("", "pv"), Spec: corev1.PersistentVolumeSpec{ClaimRef: claimRef,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{NodePublishSecretRef: &corev1.SecretReference{Namespace: "ns", Name: "csi"}}}}},
		{"persistentvolumes", "", "disk"}:   disk("disk", "disk", &corev1.SecretReference{Namespace: "storage", Name: "chap"}),
		{"persistentvolumes", "", "near"}:   disk("near", "near", &corev1.SecretReference{Name: "chap-near"}),
		{"persistentvolumes", "", "other"}:  disk("other", "nobodys", &corev1.SecretReference{Namespace: "storage", Name: "chap-other"}),
		{"persistentvolumes", "", "folder"}: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "folder", Labels: map[string]string{"howdah.dev/local-path-node": "n1"}}},
		{"persistentvolumes", "", "free"}:   &corev1.PersistentVolume{ObjectMeta: named("", "free")},
		{"volumeattachments", "", "here"}:   &storagev1.VolumeAttachment{ObjectMeta: named("", "here"), Spec: storagev1.VolumeAttachmentSpec{NodeName: "n1"}},
		{"resourceslices", "", "here"}:      &resourcev1.ResourceSlice{ObjectMeta: named("", "here"), Spec: resourcev1.ResourceSliceSpec{NodeName: ptr.To("n1")}},
		{"resourceslices", "", "there"}:     &resourcev1.ResourceSlice{ObjectMeta: named("", "there"), Spec: resourcev1.ResourceSliceSpec{NodeName: ptr.To("n2")}},
		{"volumeattachments", "", "there"}:  &storagev1.VolumeAttachment{ObjectMeta: named("", "there"), Spec: storagev1.VolumeAttachmentSpec{NodeName: "n2"}},
	}
}

func TestNode(t *testing.T) {
	t.Parallel()
	n := Authorizer{Relations: Pods{Objects: cluster(), Fresh: func(context.Context) error { return nil }}, Rules: rbacpolicy.NodeRules(nil)}
	const unrelated = "no relationship found between node 'n1' and this object"
	of := func(verb, group, resource, sub, ns, name string) authz.Attributes {
		return authz.Attributes{Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: ns, Name: name}
	}
	selecting := func(a authz.Attributes, field string) authz.Attributes { a.FieldSelector = field; return a }
	for _, c := range []struct {
		a      authz.Attributes
		want   bool
		reason string
	}{
		{of("get", "", "secrets", "", "ns", "volume"), true, ""},
		{of("get", "", "secrets", "", "ns", "env"), true, ""},
		{of("watch", "", "secrets", "", "ns", "pull"), true, ""},
		{of("get", "", "secrets", "", "ns", "csi"), true, ""},
		{of("get", "", "secrets", "", "ns", "chap"), true, ""},
		{of("get", "", "secrets", "", "storage", "chap"), true, ""},
		{of("get", "", "secrets", "", "ns", "chap-near"), true, ""},
		{of("get", "", "secrets", "", "storage", "chap-near"), false, unrelated},
		{of("get", "", "secrets", "", "storage", "chap-other"), false, unrelated},
		{of("get", "", "secrets", "", "ns", "another"), false, unrelated},
		{of("get", "", "secrets", "", "other", "volume"), false, unrelated},
		{of("list", "", "secrets", "", "ns", ""), false, "No Object name found"},
		{of("list", "", "secrets", "", "", ""), false, "can only read namespaced object of this type"},
		{of("update", "", "secrets", "", "ns", "volume"), false, "can only read resources of this type"},
		{of("get", "", "configmaps", "", "ns", "projected"), true, ""},
		{of("get", "", "configmaps", "", "ns", "x"), false, unrelated},
		{of("get", "", "persistentvolumeclaims", "", "ns", "claim"), true, ""},
		{of("get", "", "persistentvolumeclaims", "", "ns", "mine-e"), true, ""},
		{of("list", "", "persistentvolumeclaims", "", "ns", ""), false, "can only get individual resources of this type"},
		{of("patch", "", "persistentvolumeclaims", "status", "ns", "claim"), true, ""},
		{of("get", "", "persistentvolumes", "", "", "pv"), true, ""},
		{of("get", "", "persistentvolumes", "", "", "free"), false, unrelated},
		{of("update", "", "persistentvolumes", "", "", "free"), false, unrelated},
		{of("update", "", "persistentvolumes", "", "", "folder"), true, ""},
		{of("update", "", "persistentvolumes", "status", "", "folder"), false, "can only get individual resources of this type"},
		{of("delete", "", "persistentvolumes", "", "", "folder"), false, "can only get individual resources of this type"},
		{of("watch", "", "persistentvolumes", "", "", ""), false, "can only get individual resources of this type"},
		{withLabels(of("watch", "", "persistentvolumes", "", "", ""), "howdah.dev/local-path-node=n1"), true, ""},
		{withLabels(of("list", "", "persistentvolumes", "", "", ""), "howdah.dev/local-path-node=n2"), false, "can only get individual resources of this type"},
		{withLabels(of("list", "", "persistentvolumes", "", "", ""), "howdah.dev/local-path-node in (n1,n2)"), false, "can only get individual resources of this type"},
		{of("get", "storage.k8s.io", "volumeattachments", "", "", "here"), true, ""},
		{of("get", "storage.k8s.io", "volumeattachments", "", "", "there"), false, unrelated},
		{of("get", "resource.k8s.io", "resourceclaims", "", "ns", "device"), true, ""},
		{of("get", "resource.k8s.io", "resourceclaims", "", "ns", "from-template"), true, ""},
		{of("get", "resource.k8s.io", "resourceclaims", "", "ns", "extended"), true, ""},
		{of("get", "resource.k8s.io", "resourceclaims", "", "ns", "another"), false, unrelated},
		{of("create", "", "serviceaccounts", "token", "ns", "sa"), true, ""},
		{of("create", "", "serviceaccounts", "token", "ns", "other"), false, unrelated},
		{of("get", "", "serviceaccounts", "", "ns", "sa"), true, ""},
		{of("list", "", "serviceaccounts", "", "ns", ""), false, "can only create tokens for individual service accounts"},
		{of("get", "", "pods", "", "ns", "mine"), true, ""},
		{of("get", "", "pods", "", "ns", "theirs"), false, unrelated},
		{of("get", "", "pods", "", "ns", "gone"), false, unrelated},
		{of("watch", "", "pods", "", "", ""), false, "can only list/watch pods with spec.nodeName field selector"},
		{selecting(of("watch", "", "pods", "", "", ""), "spec.nodeName=n1"), true, ""},
		{selecting(of("watch", "", "pods", "", "", ""), "spec.nodeName=n2"), false, "can only list/watch pods with spec.nodeName field selector"},
		{selecting(of("watch", "", "pods", "", "", ""), "spec.nodeName!=n1"), false, "can only list/watch pods with spec.nodeName field selector"},
		{selecting(of("watch", "", "pods", "", "", ""), "spec.hostNetwork=false,status.phase!=Failed"), true, ""},
		{selecting(of("watch", "", "pods", "", "", ""), "spec.hostNetwork=true"), false, "can only list/watch pods with spec.nodeName field selector"},
		{selecting(of("get", "", "pods", "", "ns", "theirs"), "spec.hostNetwork=false"), false, unrelated},
		{of("patch", "", "pods", "", "ns", "mine"), false, ""},
		{of("patch", "", "pods", "status", "ns", "mine"), true, ""},
		{of("create", "", "pods", "exec", "ns", "mine"), false, ""},
		{of("create", "", "pods", "eviction", "ns", "mine"), true, ""},
		{of("get", "", "nodes", "", "", "n1"), true, ""},
		{of("get", "", "nodes", "", "", "n2"), false, "node 'n1' cannot read 'n2', only its own Node object"},
		{of("list", "", "nodes", "", "", ""), false, "node 'n1' cannot read all nodes, only its own Node object"},
		{of("delete", "", "nodes", "", "", "n1"), false, ""},
		{of("patch", "", "nodes", "status", "", "n1"), true, ""},
		{of("update", "coordination.k8s.io", "leases", "", "kube-node-lease", "n1"), true, ""},
		{of("update", "coordination.k8s.io", "leases", "", "kube-node-lease", "n2"), false, "can only access node lease with the same name as the requesting node"},
		{of("update", "coordination.k8s.io", "leases", "", "kube-system", "n1"), false, `can only access leases in the "kube-node-lease" system namespace`},
		{of("list", "coordination.k8s.io", "leases", "", "kube-node-lease", ""), false, "can only get, create, update, patch, or delete a node lease"},
		{of("get", "storage.k8s.io", "csinodes", "", "", "n2"), false, "can only access CSINode with the same name as the requesting node"},
		{of("list", "resource.k8s.io", "resourceslices", "", "", ""), false, "can only list/watch/deletecollection resourceslices with nodeName field selector"},
		{of("get", "resource.k8s.io", "resourceslices", "", "", "here"), true, ""},
		{of("delete", "resource.k8s.io", "resourceslices", "", "", "there"), false, unrelated},
		{of("patch", "resource.k8s.io", "resourceslices", "", "", "none"), false, unrelated},
		{of("create", "resource.k8s.io", "resourceslices", "", "", ""), true, ""},
		{of("list", "", "pods", "", "ns", "theirs"), false, unrelated},
		{of("list", "", "pods", "", "ns", "mine"), true, ""},
		{of("create", "certificates.k8s.io", "podcertificaterequests", "", "ns", ""), false, ""},
		{of("list", "apps", "deployments", "", "ns", ""), false, ""},
		{of("create", "", "secrets", "", "ns", ""), false, "can only read resources of this type"},
		{of("list", "", "services", "", "", ""), true, ""},
		{of("get", "", "serviceaccounts", "", "", "sa"), false, "can only read namespaced object of this type"},
		{of("create", "", "serviceaccounts", "token", "ns", ""), false, "can only create tokens for individual service accounts"},
		{of("create", "", "serviceaccounts", "", "ns", "sa"), false, "can only create token subresource of serviceaccount"},
		{of("create", "", "events", "", "ns", ""), true, ""},
		{authz.Attributes{Verb: "get", Path: "/metrics"}, false, ""},
	} {
		c.a.User = &authn.User{Name: "system:node:n1", Groups: []string{authn.NodesGroup}}
		got, reason, err := n.Authorize(t.Context(), &c.a)
		if want := map[bool]authz.Decision{true: authz.Allow, false: authz.NoOpinion}[c.want]; got != want || reason != c.reason || err != nil {
			t.Errorf("%s %s/%s %s %q: %d %q %v", c.a.Verb, c.a.Resource, c.a.Subresource, c.a.Name, c.a.FieldSelector, got, reason, err)
		}
		c.a.User = &authn.User{Name: "system:node:n1"} // the name alone makes no node
		if got, _, _ := n.Authorize(t.Context(), &c.a); got != authz.NoOpinion {
			t.Errorf("the name alone: %d", got)
		}
	}
	for name, want := range map[string]string{"jane": "", "system:node:": `unknown node for user "system:node:"`} {
		stranger := &authz.Attributes{Verb: "get", Resource: "nodes", User: &authn.User{Name: name, Groups: []string{authn.NodesGroup}}}
		if got, reason, _ := n.Authorize(t.Context(), stranger); got != authz.NoOpinion || reason != want {
			t.Errorf("a member of the group with the name %s: %d %q", name, got, reason)
		}
	}
}

// TestAPodBoundAMomentAgo asks where only the newest state knows of the binding.
func TestAPodBoundAMomentAgo(t *testing.T) {
	t.Parallel()
	w := world{}
	p := Pods{Objects: w, Fresh: func(context.Context) error {
		w[[3]string{"pods", "ns", "mine"}] = cluster()[[3]string{"pods", "ns", "mine"}]
		return nil
	}}
	if !p.Related(t.Context(), "n1", "", "secrets", "ns", "volume") {
		t.Error("the newest state was not asked")
	}
}

// What a node may do with requests for certificates, where that kind is served.
func TestNodeCertificates(t *testing.T) {
	t.Parallel()
	objects := world{{"podcertificaterequests", "ns", "mine"}: &certificatesv1beta1.PodCertificateRequest{
		ObjectMeta: named("ns", "mine"), Spec: certificatesv1beta1.PodCertificateRequestSpec{NodeName: "n1"},
	}}
	n := Authorizer{
		Relations: Pods{Objects: objects, Fresh: func(context.Context) error { return nil }},
		Rules:     rbacpolicy.NodeRules(map[string]bool{"PodCertificateRequest": true}),
	}
	const unselected = "can only list/watch podcertificaterequests with nodeName field selector"
	for _, test := range []struct {
		verb, subresource, name, selector string
		allowed                           bool
		reason                            string
	}{
		{"create", "", "", "", true, ""},
		{"get", "", "mine", "", true, ""},
		{"get", "", "other", "", false, "no relationship found between node 'n1' and this object"},
		{"list", "", "", "", false, unselected},
		{"watch", "", "", "spec.nodeName=n2", false, unselected},
		{"list", "", "", "spec.nodeName=n1", true, ""},
		{"update", "anything", "mine", "", false, "nodes may not access the status subresource of PodCertificateRequests"},
		{"update", "status", "mine", "", false, "nodes may not access the status subresource of PodCertificateRequests"},
		{"delete", "", "mine", "", false, "nodes may not delete podcertificaterequests"},
	} {
		decision, reason, err := n.Authorize(t.Context(), &authz.Attributes{
			User: &authn.User{Name: "system:node:n1", Groups: []string{"system:nodes"}}, Verb: test.verb, Group: "certificates.k8s.io", Version: "v1beta1",
			Resource: "podcertificaterequests", Subresource: test.subresource, Namespace: "ns", Name: test.name, FieldSelector: test.selector,
		})
		if err != nil || (decision == authz.Allow) != test.allowed || reason != test.reason {
			t.Errorf("%+v: %v %q %v", test, decision, reason, err)
		}
	}
}

func withLabels(a authz.Attributes, selector string) authz.Attributes {
	a.LabelSelector = selector
	return a
}
