package apiserver

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/rpc"
)

// TestNodeKeepsMirrors does what a node agent does for a static pod: it makes a mirror, tells its status, and ends what somebody deletes.
func TestNodeKeepsMirrors(t *testing.T) {
	t.Parallel()
	f := startMemory(t, func(c *Config) { c.AuthorizationModes = []string{"Node", "RBAC"} })
	agent := object.NewClient(f.dial(rpc.User{Name: "system:node:n1", Groups: []string{"system:nodes"}}), "kubelet")
	node, err := object.For(agent, object.Node).Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`); err != nil {
		t.Fatal(err)
	}
	if err := f.server.cache.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	pods := object.For(agent, object.Pod)
	yes := true
	mirror := func(name string, change func(p *corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name,
				Annotations:     map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "h", corev1.MirrorPodAnnotationKey: "h"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: node.UID, Controller: &yes}},
			},
			Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i"}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}},
		}
		change(p)
		return p
	}
	for want, change := range map[string]func(p *corev1.Pod){
		"can only create mirror pods":                     func(p *corev1.Pod) { delete(p.Annotations, corev1.MirrorPodAnnotationKey) },
		"can only create pods with spec.nodeName":         func(p *corev1.Pod) { p.Spec.NodeName = "n2" },
		"can only create pods with an owner reference":    func(p *corev1.Pod) { p.OwnerReferences = nil },
		"a mirror pod may not reference secrets":          func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} },
		"a mirror pod may not reference service accounts": func(p *corev1.Pod) { p.Spec.ServiceAccountName = "a" },
		"can not create pods that reference resourceclaims": func(p *corev1.Pod) {
			name := "d"
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "d", ResourceClaimName: &name}}
		},
	} {
		if _, err := pods.Create(t.Context(), mirror("bad", change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	made, err := pods.Create(t.Context(), mirror("m-n1", func(*corev1.Pod) {}))
	if err != nil {
		t.Fatal(err)
	}
	if made.Spec.ServiceAccountName != "" || len(made.Spec.Volumes) != 0 || made.Annotations[corev1.MirrorPodAnnotationKey] != "h" {
		t.Errorf("admission has changed it: %v", made)
	}
	made.Status.Phase = corev1.PodRunning
	if _, err := pods.UpdateStatus(t.Context(), made); err != nil {
		t.Error(err)
	}
	admin := object.For(object.NewClient(f.dial(rpc.User{Name: "admin", Groups: []string{"system:masters"}}), "test"), object.Pod)
	if err := admin.Delete(t.Context(), "default", "m-n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if p, err := admin.Get(t.Context(), "default", "m-n1"); err != nil || p.DeletionTimestamp == nil {
		t.Errorf("it waits for its node: %v, %v", p, err)
	}
	now := int64(0)
	if err := pods.Delete(t.Context(), "default", "m-n1", metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &made.UID}}); err != nil {
		t.Fatal(err)
	}
	if again, err := pods.Create(t.Context(), mirror("m-n1", func(*corev1.Pod) {})); err != nil || again.UID == made.UID {
		t.Errorf("made again: %v, %v", again, err)
	}
}
