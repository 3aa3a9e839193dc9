package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"howdah.dev/kit/pgtest"
	"howdah.dev/kit/pki"
)

// runStandalone runs a standalone until the test ends and returns an administrator's client and the folder of its keys.
func runStandalone(t *testing.T, args ...string) (client kubernetes.Interface, address, dir string) {
	t.Helper()
	address, dir = freePort(t), t.TempDir()
	ctx, stop := context.WithCancel(context.Background())
	root := command()
	root.SetArgs(append([]string{"standalone", "--database-url", pgtest.New(t), "--listen", address, "--dir", dir, "--log-level", "warn"}, args...))
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	died := make(chan error)
	return connect(t, filepath.Join(dir, "admin", "kubeconfig"), died), address, dir
}

// certified returns a client with a certificate of the standalone's own authority.
func certified(t *testing.T, dir, address, name string, options pki.Options) kubernetes.Interface {
	t.Helper()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	options.AdminServer, options.Hosts = "https://"+address, map[string][]string{"gateway": {host}}
	if err := pki.Init(dir, options); err != nil {
		t.Fatal(err)
	}
	var files [3][]byte
	for i, file := range []string{"ca.crt", "tls.crt", "tls.key"} {
		if files[i], err = os.ReadFile(filepath.Join(dir, name, file)); err != nil {
			t.Fatal(err)
		}
	}
	config, err := pki.Kubeconfig("https://"+address, files[0], name, pki.Pair{Certificate: files[1], Key: files[2]})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := clientcmd.RESTConfigFromKubeConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestNodeAgentRights does by a node's certificate, in the default modes, what a node agent does, and what it must not do.
func TestNodeAgentRights(t *testing.T) {
	admin, address, dir := runStandalone(t)
	node, ctx := certified(t, dir, address, "n1", pki.Options{Nodes: []string{"n1"}}), t.Context()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for _, name := range []string{"mine", "another"} {
		_, err := admin.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must("make a secret", err)
	}
	pod, err := admin.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i", EnvFrom: []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "mine"}}}}}},
	}}, metav1.CreateOptions{})
	must("make a pod", err)

	_, err = node.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	must("register", err)
	// A patch, since the controllers taint the node meanwhile: a node may not write that they had not.
	_, err = node.CoreV1().Nodes().Patch(ctx, "n1", types.StrategicMergePatchType, []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
	must("report", err)
	_, err = node.CoordinationV1().Leases("kube-node-lease").Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	must("lease", err)
	own := metav1.ListOptions{FieldSelector: "spec.nodeName=n1"}
	list, err := node.CoreV1().Pods("").List(ctx, own)
	must("list its pods", err)
	if len(list.Items) != 1 {
		t.Errorf("%d pods of the node", len(list.Items))
	}
	w, err := node.CoreV1().Pods("").Watch(ctx, own)
	must("watch its pods", err)
	w.Stop()
	_, err = node.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	must("list services", err)
	_, err = node.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	must("list nodes, for their routes", err)
	_, err = node.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{})
	must("list slices", err)
	peers := metav1.ListOptions{FieldSelector: "spec.hostNetwork=false,status.phase!=Failed,status.phase!=Succeeded"}
	_, err = node.CoreV1().Pods("").List(ctx, peers)
	must("list pods with addresses of their own, for network policies", err)
	w, err = node.CoreV1().Pods("").Watch(ctx, peers)
	must("watch them", err)
	w.Stop()
	_, err = node.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	must("list namespaces", err)
	_, err = node.NetworkingV1().NetworkPolicies("").List(ctx, metav1.ListOptions{})
	must("list network policies", err)
	_, err = node.CoreV1().Secrets("default").Get(ctx, "mine", metav1.GetOptions{})
	must("read the pod's secret", err)
	await(t, "the namespace's ConfigMap of root certificates", func() bool {
		_, err := admin.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil
	})
	_, err = node.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	must("read the pod's root certificates", err)
	token, err := node.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "p", UID: pod.UID},
	}}, metav1.CreateOptions{})
	must("get the pod's token", err)
	_, err = node.CoreV1().Pods("default").Patch(ctx, "p", types.StrategicMergePatchType, []byte(`{"status":{"message":"seen"}}`), metav1.PatchOptions{}, "status")
	must("write the pod's status", err)
	_, err = node.CoreV1().Events("default").Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"}, Reason: "R", Type: "Normal",
	}, metav1.CreateOptions{})
	must("tell an event", err)

	for what, err := range map[string]error{
		"no relationship found between node 'n1' and this object": second(node.CoreV1().Secrets("default").Get(ctx, "another", metav1.GetOptions{})),
		"No Object name found":                                       second(node.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})),
		"can only read namespaced object of this type":               second(node.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})),
		"can only list/watch pods with spec.nodeName field selector": second(node.CoreV1().Pods("").List(ctx, metav1.ListOptions{})),
		`cannot list resource "deployments"`:                         second(node.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})),
	} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want 403 with %q", err, what)
		}
	}

	// The pod's token is good until the pod is gone.
	review := func() bool {
		r, err := admin.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token}}, metav1.CreateOptions{})
		must("review", err)
		return r.Status.Authenticated
	}
	if !review() {
		t.Error("the pod's token is not good")
	}
	must("remove the pod", node.CoreV1().Pods("default").Delete(ctx, "p", *metav1.NewDeleteOptions(0)))
	// Tokens are judged by the API server's cache, which follows a write at once, but not before its answer. That it has followed is what a read tells.
	if err := second(admin.CoreV1().Pods("default").Get(ctx, "p", metav1.GetOptions{})); !apierrors.IsNotFound(err) {
		t.Errorf("a pod that was removed: %v", err)
	}
	if review() {
		t.Error("the token of a pod that is gone is good")
	}
	// Nothing relates a node to a pod that is not there: Kubernetes does not tell it so much as that.
	if _, err := node.CoreV1().Pods("default").Get(ctx, "p", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a pod that is gone: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }
