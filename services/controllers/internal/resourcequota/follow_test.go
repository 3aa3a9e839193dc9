package resourcequota

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller/controllertest"
	"howdah.dev/services/controllers/internal/discovery"
)

// TestAnotherVersionCounts has a resource known in a version that is not served any more: its objects count, and their ends are heard of.
func TestAnotherVersionCounts(t *testing.T) {
	t.Parallel()
	cluster := &controllertest.Cluster{T: t, Client: objecttest.New().Serve(t)}
	for _, name := range []string{"a", "b"} {
		controllertest.Create(cluster, object.Deployment, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}})
	}
	gr, clock := schema.GroupResource{Group: "apps", Resource: "deployments"}, testclock.NewFakeClock(time.Unix(1000, 0))
	heard := make(chan string, 1)
	c := &quotas{client: cluster.Client, kinds: newFollower(cluster.Client, clock, func(_ schema.GroupResource, namespace string) {
		select {
		case heard <- namespace:
		default:
		}
	})}
	former := func() {
		c.kinds.mu.Lock()
		defer c.kinds.mu.Unlock()
		c.kinds.served = map[schema.GroupResource]discovery.Resource{gr: {
			GVK: schema.GroupVersionKind{Group: "apps", Version: "v0", Kind: "Deployment"}, Name: gr.Resource, Namespaced: true, Verbs: []string{"list", "watch"},
		}}
	}
	former()
	if n, err := c.count(t.Context(), gr, "n"); n != 2 || err != nil {
		t.Errorf("%d are counted, %v", n, err)
	}
	if n, err := c.count(t.Context(), schema.GroupResource{Group: "x", Resource: "things"}, "n"); n != 0 || err != nil {
		t.Errorf("of one that is not served %d are counted, %v", n, err)
	}

	former()
	c.kinds.want("n/q", &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/deployments.apps": resource.MustParse("9")}}})
	cluster.Go(c.kinds.run)
	controllertest.Soon(t, "an end is heard of", func() bool { // nothing tells from when on it is followed
		clock.Step(rediscover)
		made := controllertest.Create(cluster, object.Deployment, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", GenerateName: "d"}})
		controllertest.Delete(cluster, object.Deployment, "n", made.Name, metav1.DeleteOptions{})
		select {
		case namespace := <-heard:
			if namespace != "n" {
				t.Errorf("something has gone in %q", namespace)
			}
			return true
		case <-time.After(50 * time.Millisecond):
			return false
		}
	})
}
