package initialize

import (
	"os"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"howdah.dev/cmd/howdah/internal/daemon"
	"howdah.dev/kit/object"
)

func TestKubeconfigKnowsAllGateways(t *testing.T) {
	t.Parallel()
	m := setup(t)
	m.Cluster.ControlPlaneEndpoint = "kube.example"
	if err := m.phase(t, "kubeconfig"); err == nil {
		t.Error("without certificates there is one")
	}
	m.must(t, "certs", "kubeconfig")
	servers := func() map[string]string {
		t.Helper()
		config, err := clientcmd.LoadFromFile(m.Folder.Admin())
		if err != nil || config.CurrentContext != "howdah" {
			t.Fatal(config, err)
		}
		out := map[string]string{}
		for name, c := range config.Contexts {
			out[name] = config.Clusters[c.Cluster].Server
			if user := config.AuthInfos[c.AuthInfo]; user == nil || len(user.ClientKeyData) == 0 {
				t.Errorf("%s has no user", name)
			}
		}
		return out
	}
	if got := servers(); len(got) != 2 || got["howdah"] != "https://kube.example:6443" || got["howdah-a"] != "https://192.0.2.10:6443" {
		t.Errorf("%v", got)
	}
	if info, err := os.Stat(m.Folder.Admin()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for name, gateways := range map[string]string{"a": "192.0.2.10:6443", "b": "192.0.2.11:6443", "old": ""} {
		now := metav1.NewMicroTime(time.Now())
		if _, err := object.For(m.client, object.Lease).Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "apiserver-" + name, Annotations: map[string]string{"howdah.dev/gateways": gateways},
			Labels: map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": name},
		}, Spec: coordinationv1.LeaseSpec{RenewTime: &now}}); err != nil {
			t.Fatal(err)
		}
	}
	m.services.running[daemon.ControlPlane] = true
	m.must(t, "kubeconfig")
	if got := servers(); len(got) != 3 || got["howdah-b"] != "https://192.0.2.11:6443" {
		t.Errorf("%v", got)
	}
}
