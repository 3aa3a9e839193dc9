package rootca

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// TestBundle: the authority's bundle is there, right, and the signer's only one.
func TestBundle(t *testing.T) {
	t.Parallel()
	metrics, ca := NewBundleMetrics(prometheus.NewRegistry()), controllertest.NewAuthorities("CA")
	of := func(name, signer, text string) *trustBundle {
		return &trustBundle{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: text}}
	}
	const name = "kubernetes.io:kube-apiserver-serving:4b650e5c4785025dee7bd65e"
	c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
		controllertest.Create(c, object.ClusterTrustBundle, of("kubernetes.io:kube-apiserver-serving:old", servingSigner, "old CA"))
		controllertest.Create(c, object.ClusterTrustBundle, of("x.io:s:1", "x.io/s", "another's"))
	}, func(env *controller.Env) (controller.Unit, error) { return NewBundle(env, ca, metrics), nil })
	right := func(all []*trustBundle) bool {
		names := map[string]string{}
		for _, b := range all {
			names[b.Name] = b.Spec.TrustBundle
		}
		return len(names) == 2 && names[name] == "CA" && names["x.io:s:1"] == "another's"
	}
	controllertest.Await(c, object.ClusterTrustBundle, "the bundle alone", right)
	controllertest.Delete(c, object.ClusterTrustBundle, "", name, metav1.DeleteOptions{})
	controllertest.Await(c, object.ClusterTrustBundle, "another one", right)
	if n := testutil.ToFloat64(metrics.syncs.WithLabelValues("200")); n < 1 {
		t.Errorf("%v looks are counted", n)
	}
	ca.Replace("new CA")
	controllertest.Await(c, object.ClusterTrustBundle, "the new authority's", func(all []*trustBundle) bool {
		return len(all) == 2 && slices.ContainsFunc(all, func(b *trustBundle) bool { return b.Name == bundleName("new CA") && b.Spec.TrustBundle == "new CA" })
	})
}

func TestPlanBundles(t *testing.T) {
	t.Parallel()
	write, exists, remove := planBundles("CA", nil)
	if write == nil || exists || remove != nil || write.Name != bundleName("CA") || write.Spec.SignerName != servingSigner || write.Spec.TrustBundle != "CA" {
		t.Fatalf("of nothing %+v", write)
	}
	if again, _, remove := planBundles("CA", []*trustBundle{write}); again != nil || remove != nil {
		t.Errorf("the right one is written again: %+v", again)
	}
	tampered := write.DeepCopy()
	tampered.Spec.TrustBundle, tampered.ResourceVersion = "other", "7"
	if again, exists, _ := planBundles("CA", []*trustBundle{tampered}); !exists || again.Spec.TrustBundle != "CA" || again.ResourceVersion != "7" || tampered.Spec.TrustBundle != "other" {
		t.Errorf("of a tampered one %+v", again)
	}
	if _, _, remove := planBundles("new CA", []*trustBundle{write}); len(remove) != 1 || remove[0] != write.Name {
		t.Errorf("of a new authority's, there go %v", remove)
	}
}
