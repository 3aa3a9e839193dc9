package deployment

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func TestBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		replicas           int32
		surge, unavailable string
		up, down           int32
	}{
		{10, "25%", "25%", 3, 2},
		{3, "25%", "25%", 1, 0},
		{1, "25%", "25%", 1, 0},
		{1, "0", "25%", 0, 1},
		{4, "0", "0%", 0, 1},
		{2, "100%", "5", 2, 2},
		{0, "25%", "25%", 0, 0},
	} {
		d := newCluster(t, 0, c.replicas, intstr.Parse(c.surge), intstr.Parse(c.unavailable)).d
		if up, down := bounds(d); up != c.up || down != c.down {
			t.Errorf("%d replicas, surge %s, unavailable %s: %d up, %d down, want %d and %d", c.replicas, c.surge, c.unavailable, up, down, c.up, c.down)
		}
	}
}

func TestFirstPlan(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0, 3, intstr.FromString("25%"), intstr.FromString("25%"))
	c.d.Annotations = map[string]string{"note": "kept", corev1.LastAppliedConfigAnnotation: "dropped"}
	p := Decide(c.d, Observed{}, c.now)
	rs := p.Create
	if rs == nil {
		t.Fatal("no set is created")
	}
	hash := rs.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	if rs.Name != "x-"+hash || rs.Spec.Selector.MatchLabels[appsv1.DefaultDeploymentUniqueLabelKey] != hash ||
		rs.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] != hash {
		t.Errorf("name %q and labels do not agree with hash %q", rs.Name, hash)
	}
	if *rs.Spec.Replicas != 3 || !metav1.IsControlledBy(rs, c.d) {
		t.Errorf("%d replicas, owners %v", *rs.Spec.Replicas, rs.OwnerReferences)
	}
	want := map[string]string{
		"deployment.kubernetes.io/revision": "1", "deployment.kubernetes.io/desired-replicas": "3",
		"deployment.kubernetes.io/max-replicas": "4", "note": "kept",
	}
	if len(rs.Annotations) != len(want) {
		t.Errorf("annotations %v, want %v", rs.Annotations, want)
	}
	for k, v := range want {
		if rs.Annotations[k] != v {
			t.Errorf("annotation %s is %q, want %q", k, rs.Annotations[k], v)
		}
	}
	if len(p.Events) != 1 || p.Events[0] != (Event{"Normal", "ScalingReplicaSet", "Scaled up replica set " + rs.Name + " from 0 to 3"}) {
		t.Errorf("events %v", p.Events)
	}
	if p.Revision != "1" || p.Status.ObservedGeneration != 1 || p.Status.UnavailableReplicas != 3 {
		t.Errorf("revision %q, status %+v", p.Revision, p.Status)
	}
	reasons := map[appsv1.DeploymentConditionType]string{}
	for _, condition := range p.Status.Conditions {
		reasons[condition.Type] = condition.Reason
	}
	if reasons[appsv1.DeploymentProgressing] != "NewReplicaSetCreated" || reasons[appsv1.DeploymentAvailable] != "MinimumReplicasUnavailable" {
		t.Errorf("conditions %v", reasons)
	}
	if p.After < 600*time.Second || p.After > 602*time.Second {
		t.Errorf("looks again after %v, want the progress deadline", p.After)
	}
}

func TestPausedScalesButDoesNotRoll(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 4, intstr.FromInt32(1), intstr.FromInt32(1))
	c.settle("first roll-out")
	c.d.Spec.Paused = true
	c.d.Spec.Template.Spec.Containers[0].Image = "v2"
	c.d.Spec.Replicas = ptr.To[int32](6)
	c.d.Generation++
	for range 100 {
		c.step()
	}
	if len(c.sets) != 1 || *c.sets[0].rs.Spec.Replicas != 6 {
		t.Fatalf("%d sets, the first asks for %d; want one with 6", len(c.sets), *c.sets[0].rs.Spec.Replicas)
	}
	paused := false
	for _, condition := range c.d.Status.Conditions {
		paused = paused || condition.Reason == "DeploymentPaused" && condition.Message == "Deployment is paused" && condition.Status == corev1.ConditionUnknown
	}
	if !paused {
		t.Errorf("it does not say that it is paused: %v", c.d.Status.Conditions)
	}
	c.d.Spec.Paused = false
	c.d.Generation++
	c.step()
	c.settle("resumed roll-out")
	if len(c.sets) != 2 {
		t.Errorf("%d sets after the pause, want 2", len(c.sets))
	}
}

// TestProportionalScaling is the example of Kubernetes' documentation: 10
// replicas in the middle of a roll-out (8 old, 5 new) become 15.
func TestProportionalScaling(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0, 10, intstr.FromInt32(3), intstr.FromInt32(2))
	c.settle("first roll-out")
	c.d.Spec.Template.Spec.Containers[0].Image = "broken"
	c.d.Generation++
	for range 300 {
		c.step()
		for _, s := range c.sets {
			s.broken = s.broken || s.rs.Spec.Template.Spec.Containers[0].Image == "broken"
		}
	}
	if *c.sets[0].rs.Spec.Replicas != 8 || *c.sets[1].rs.Spec.Replicas != 5 {
		t.Fatalf("sets ask for %d and %d, want 8 and 5", *c.sets[0].rs.Spec.Replicas, *c.sets[1].rs.Spec.Replicas)
	}
	c.d.Spec.Replicas = ptr.To[int32](15)
	c.d.Generation++
	c.plan()
	if *c.sets[0].rs.Spec.Replicas != 11 || *c.sets[1].rs.Spec.Replicas != 7 {
		t.Fatalf("sets ask for %d and %d, want 11 and 7", *c.sets[0].rs.Spec.Replicas, *c.sets[1].rs.Spec.Replicas)
	}
}

func TestScaleToZeroAndBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 5, 4, intstr.FromInt32(1), intstr.FromInt32(0))
	c.settle("first roll-out")
	for _, n := range []int32{0, 7} {
		c.d.Spec.Replicas = &n
		c.d.Generation++
		c.step()
		c.settle("scaling")
		if *c.sets[0].rs.Spec.Replicas != n {
			t.Errorf("the set asks for %d, want %d", *c.sets[0].rs.Spec.Replicas, n)
		}
	}
}

func TestHashIsStableAndTellsTemplatesApart(t *testing.T) {
	t.Parallel()
	a := newCluster(t, 0, 1, intstr.FromInt32(1), intstr.FromInt32(0)).d.Spec.Template
	b := *a.DeepCopy()
	if templateHash(&a, nil) != templateHash(&b, nil) {
		t.Error("equal templates have different hashes")
	}
	b.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "x"
	if templateHash(&a, nil) != templateHash(&b, nil) || !sameTemplate(&a, &b) {
		t.Error("the hash label changes the hash")
	}
	if templateHash(&a, nil) == templateHash(&a, ptr.To[int32](1)) {
		t.Error("a collision does not change the hash")
	}
	b.Spec.Containers[0].Image = "other"
	if templateHash(&a, nil) == templateHash(&b, nil) || sameTemplate(&a, &b) {
		t.Error("different templates have the same hash")
	}
}
