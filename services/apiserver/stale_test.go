package apiserver

import (
	"fmt"
	"testing"

	"howdah.dev/kit/object"
	"howdah.dev/kit/rpc"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestARefusalIsNeverStale binds pods at one apiserver and lets their node write status and ask for tokens at another, whose
// cache may not have heard of the binding yet: it must not refuse what the newest state allows.
func TestARefusalIsNeverStale(t *testing.T) {
	f := startPostgres(t, withTokens(t))
	other := serve(t, mustBuild(t, f.server.cfg))
	if _, err := f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`); err != nil {
		t.Fatal(err)
	}
	node := object.For(object.NewClient(other.dial(rpc.User{Name: "system:node:n1", Groups: []string{"system:nodes"}}), "kubelet"), object.Pod)
	accounts := object.For(object.NewClient(other.dial(rpc.User{Name: "system:node:n1", Groups: []string{"system:nodes"}}), "kubelet"), object.ServiceAccount)
	admin := object.For(object.NewClient(f.dial(rpc.User{Name: "admin", Groups: []string{"system:masters"}}), "test"), object.Pod)
	for i := range 100 {
		name := fmt.Sprint("p", i)
		pod, err := admin.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := admin.Post(t.Context(), "default", name, "binding", &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"},
		}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := node.Patch(t.Context(), "default", name, types.MergePatchType, []byte(`{"status":{"message":"seen"}}`), "status"); err != nil {
			t.Fatalf("status of %s: %v", name, err)
		}
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: name, UID: pod.UID},
		}}
		if err := accounts.Post(t.Context(), "default", "default", "token", request, request); err != nil {
			t.Fatalf("token for %s: %v", name, err)
		}
	}
}
