package resourceclaim

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// TestClaimsAreMeasured: one that is made of a template, and those of others.
func TestClaimsAreMeasured(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
		for name, annotations := range map[string]map[string]string{"mine": nil, "extended": {resourcev1.ExtendedResourceClaimAnnotation: "true"}} {
			claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Annotations: annotations}}
			claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Exactly: &resourcev1.ExactDeviceRequest{AdminAccess: new(name == "mine")}}}
			controllertest.Create(c, claimKind, claim)
		}
	}, func(env *controller.Env) (controller.Unit, error) { return New(env, m), nil })
	controllertest.Create(c, templateKind, newTemplate())
	controllertest.Create(c, object.Pod, newPod("p", "", fromTemplate("c")))
	const want = `# HELP resourceclaim_controller_creates_total Claims that were to be made of templates, by success or failure.
# TYPE resourceclaim_controller_creates_total counter
resourceclaim_controller_creates_total{admin_access="false",status="success"} 1
# HELP resourceclaim_controller_resource_claims Claims, by whether they have devices, whether they are for administrators, and what they were made for: a template, an extended resource, or by somebody else.
# TYPE resourceclaim_controller_resource_claims gauge
resourceclaim_controller_resource_claims{admin_access="false",allocated="false",source="extended_resource"} 1
resourceclaim_controller_resource_claims{admin_access="false",allocated="false",source="resource_claim_template"} 1
resourceclaim_controller_resource_claims{admin_access="true",allocated="false",source=""} 1
`
	controllertest.Soon(t, "three claims that are counted", func() bool { return testutil.GatherAndCompare(registry, strings.NewReader(want)) == nil })
}

func TestFailuresAreMeasured(t *testing.T) {
	t.Parallel()
	m := NewMetrics(prometheus.NewRegistry())
	m.created(&resourcev1.ResourceClaim{}, errors.New("no"))
	if n := testutil.ToFloat64(m.creates.WithLabelValues("failure", "false")); n != 1 {
		t.Errorf("%v failures are counted", n)
	}
	if n := testutil.CollectAndCount(m); n != 0 {
		t.Errorf("%d series of a process that does not lead", n)
	}
	(*Metrics)(nil).created(nil, nil)
	(*Metrics)(nil).follow(nil)
}
