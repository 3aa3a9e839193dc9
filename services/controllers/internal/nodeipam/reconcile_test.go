package nodeipam

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// TestNamesakeKeepsItsRange has the end of a node told after another of its name has been given a range: nobody else may have it.
func TestNamesakeKeepsItsRange(t *testing.T) {
	t.Parallel()
	cluster := &controllertest.Cluster{T: t, Client: objecttest.New().Serve(t)}
	node := func() *corev1.Node {
		return controllertest.Create(cluster, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	}
	former := node()
	controllertest.Delete(cluster, object.Node, "", "n", metav1.DeleteOptions{})
	node()
	informers := object.NewInformers(cluster.Client)
	c, err := build(&controller.Env{
		Client: cluster.Client, Informers: informers, Recorder: func(string) record.EventRecorder { return &record.FakeRecorder{} },
	}, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, []int{25}, nil)
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Freeze(t, informers)
	if _, err := c.reconcile(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	had := controllertest.List(cluster, object.Node)[0].Spec.PodCIDR
	c.nodeChanged(former, nil)
	for _, other := range []string{"first", "second"} {
		if got, err := c.allocate(other); err == nil && got[0] == had {
			t.Errorf("two nodes have %s", had)
		}
	}
}
