package deployment

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// cluster plays the ReplicaSet controller and the nodes: sets reach their
// sizes, pods become available and fall ill, and statuses lag behind.
type cluster struct {
	t    *testing.T
	rng  *rand.Rand
	d    *appsv1.Deployment
	sets []*simSet
	now  time.Time
	log  []string
}

// simSet is a ReplicaSet with its true pods.
type simSet struct {
	rs                     *appsv1.ReplicaSet
	available, unavailable int32
	broken                 bool // its pods never become available
}

func newCluster(t *testing.T, seed uint64, replicas int32, surge, unavailable intstr.IntOrString) *cluster {
	labels := map[string]string{"app": "x"}
	return &cluster{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_700_000_000, 0),
		d: &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default", UID: "d", Generation: 1},
			Spec: appsv1.DeploymentSpec{
				Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
				},
				Strategy: appsv1.DeploymentStrategy{
					Type:          appsv1.RollingUpdateDeploymentStrategyType,
					RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable},
				},
				RevisionHistoryLimit: ptr.To[int32](2), ProgressDeadlineSeconds: ptr.To[int32](600),
			},
		},
	}
}

// plan runs the controller once over the sets as their statuses show them.
func (c *cluster) plan() {
	var seen Observed
	seen.Running = map[string]bool{}
	for _, s := range c.sets {
		seen.Sets = append(seen.Sets, s.rs)
		seen.Running[s.rs.Name] = s.available+s.unavailable > 0
	}
	p := Decide(c.d, seen, c.now)
	if p.Create != nil {
		rs := p.Create
		rs.UID, rs.CreationTimestamp, rs.Generation = types.UID(rs.Name), metav1.NewTime(c.now), 1
		c.sets = append(c.sets, &simSet{rs: rs})
	}
	for _, changed := range p.Update {
		for _, s := range c.sets {
			if s.rs.Name == changed.Name {
				changed.Generation = s.rs.Generation + 1
				s.rs = changed
			}
		}
	}
	for _, gone := range p.Delete {
		for i, s := range c.sets {
			if s.rs.Name == gone.Name {
				if s.available+s.unavailable > 0 {
					c.fail("set %s is deleted while it has pods", gone.Name)
				}
				c.sets = append(c.sets[:i:i], c.sets[i+1:]...)
				break
			}
		}
	}
	if p.Revision != "" {
		c.d.Annotations = map[string]string{revisionAnnotation: p.Revision}
	}
	c.d.Status = p.Status
	for _, e := range p.Events {
		c.log = append(c.log, e.Message)
	}
	c.now = c.now.Add(time.Second)
}

// step lets one random thing happen.
func (c *cluster) step() {
	c.plan()
	if len(c.sets) == 0 {
		return
	}
	s := c.sets[c.rng.IntN(len(c.sets))]
	switch c.rng.IntN(4) {
	case 0: // the set makes or deletes pods, those that are not available first
		for s.available+s.unavailable < *s.rs.Spec.Replicas {
			s.unavailable++
		}
		for s.available+s.unavailable > *s.rs.Spec.Replicas {
			if s.unavailable > 0 {
				s.unavailable--
			} else {
				s.available--
			}
		}
	case 1, 2: // some pods become available
		if s.unavailable > 0 && !s.broken {
			n := 1 + c.rng.Int32N(s.unavailable)
			s.unavailable, s.available = s.unavailable-n, s.available+n
		}
	case 3: // the status catches up
		s.rs = s.rs.DeepCopy()
		s.rs.Status = appsv1.ReplicaSetStatus{
			Replicas: s.available + s.unavailable, ReadyReplicas: s.available, AvailableReplicas: s.available,
			ObservedGeneration: s.rs.Generation,
		}
	}
}

func (c *cluster) fail(format string, args ...any) {
	c.t.Helper()
	for _, l := range c.log {
		c.t.Log(l)
	}
	c.t.Fatalf(format, args...)
}

func (c *cluster) available() (n int32) {
	for _, s := range c.sets {
		n += s.available
	}
	return n
}

func (c *cluster) asked() (n int32) {
	for _, s := range c.sets {
		n += *s.rs.Spec.Replicas
	}
	return n
}

// settle steps until the roll-out is complete.
func (c *cluster) settle(what string) {
	c.t.Helper()
	for range 20000 {
		if complete(c.d, &c.d.Status) && c.available() == want(c.d) {
			return
		}
		c.step()
	}
	c.fail("%s never completed: %+v", what, c.d.Status)
}

// TestRollingUpdateKeepsItsBounds: whatever the order of events, an update
// never has fewer available pods than replicas - maxUnavailable, never asks
// for more than replicas + maxSurge, and always comes to its end.
func TestRollingUpdateKeepsItsBounds(t *testing.T) {
	t.Parallel()
	values := []intstr.IntOrString{
		intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(3), intstr.FromString("25%"), intstr.FromString("50%"), intstr.FromString("100%"),
	}
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 2))
		surge, unavailable := values[rng.IntN(len(values))], values[rng.IntN(len(values))]
		replicas := 1 + rng.Int32N(20)
		name := fmt.Sprintf("seed %d: %d replicas, surge %s, unavailable %s", seed, replicas, surge.String(), unavailable.String())
		c := newCluster(t, seed, replicas, surge, unavailable)
		c.settle(name)
		up, down := bounds(c.d)
		for update := range 3 {
			c.d.Spec.Template.Spec.Containers[0].Image = fmt.Sprintf("v%d", update+2)
			c.d.Generation++
			for range rng.IntN(60) + 1 {
				c.step()
				if c.asked() > replicas+up {
					c.fail("%s: asks for %d pods", name, c.asked())
				}
				if c.available() < replicas-down {
					c.fail("%s: only %d pods are available", name, c.available())
				}
			}
		}
		for range 20000 {
			if complete(c.d, &c.d.Status) && c.available() == replicas {
				break
			}
			c.step()
			if c.asked() > replicas+up || c.available() < replicas-down {
				c.fail("%s: %d asked for, %d available", name, c.asked(), c.available())
			}
		}
		if !complete(c.d, &c.d.Status) {
			c.fail("%s: never completes: %+v", name, c.d.Status)
		}
		if n := len(c.sets); n > 4 {
			c.fail("%s: %d sets are left, the limit is 2 old ones", name, n)
		}
	}
}

// TestBrokenTemplateKeepsOldPods: an update whose pods never become available
// leaves the promised number of old ones, and says that it is stuck.
func TestBrokenTemplateKeepsOldPods(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		c := newCluster(t, seed, 10, intstr.FromString("25%"), intstr.FromString("25%"))
		c.settle("first roll-out")
		c.d.Spec.Template.Spec.Containers[0].Image = "broken"
		c.d.Generation++
		for range 400 {
			c.step()
			for _, s := range c.sets {
				s.broken = s.broken || s.rs.Spec.Template.Spec.Containers[0].Image == "broken"
			}
			if c.available() < 8 {
				c.fail("only %d of 10 pods are available", c.available())
			}
		}
		c.now = c.now.Add(time.Hour)
		c.plan()
		p := c.d.Status.Conditions
		found := false
		for _, condition := range p {
			found = found || condition.Type == appsv1.DeploymentProgressing && condition.Status == corev1.ConditionFalse &&
				condition.Reason == "ProgressDeadlineExceeded"
		}
		if !found {
			c.fail("seed %d: it does not say that it timed out: %+v", seed, p)
		}
	}
}

// TestRecreateNeverMixes: with Recreate, pods of two templates never run at once.
func TestRecreateNeverMixes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		c := newCluster(t, seed, 5, intstr.FromInt32(0), intstr.FromInt32(0))
		c.d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		c.settle("first roll-out")
		c.d.Spec.Template.Spec.Containers[0].Image = "v2"
		c.d.Generation++
		for range 3000 {
			c.step()
			with := 0
			for _, s := range c.sets {
				if s.available+s.unavailable > 0 {
					with++
				}
			}
			if with > 1 {
				c.fail("seed %d: pods of %d templates at once", seed, with)
			}
		}
		c.settle("second roll-out")
	}
}

// TestRollbackReusesTheSet: going back to an earlier template takes its set
// again, under a new revision, and remembers the old one.
func TestRollbackReusesTheSet(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 3, intstr.FromInt32(1), intstr.FromInt32(0))
	c.settle("first roll-out")
	first := c.sets[0].rs.Name
	for i, image := range []string{"v2", "v1"} {
		c.d.Spec.Template.Spec.Containers[0].Image = image
		c.d.Generation++
		c.step()
		c.settle(image)
		if got := c.d.Annotations[revisionAnnotation]; got != fmt.Sprint(i+2) {
			t.Errorf("revision after %s is %s, want %d", image, got, i+2)
		}
	}
	if len(c.sets) != 2 {
		t.Fatalf("%d sets, want the same two", len(c.sets))
	}
	rs := c.sets[0].rs
	if rs.Name != first || *rs.Spec.Replicas != 3 || rs.Annotations[revisionAnnotation] != "3" || rs.Annotations[historyAnnotation] != "1" {
		t.Errorf("set %s has %d replicas, revision %s, history %q", rs.Name, *rs.Spec.Replicas, rs.Annotations[revisionAnnotation], rs.Annotations[historyAnnotation])
	}
}

// TestRecreateWaitsForWhatOldSetsSay: the pods of the old set are gone, but its status does not say so yet; the Deployment's would count them
// beside the new ones.
func TestRecreateWaitsForWhatOldSetsSay(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 3, intstr.FromInt32(0), intstr.FromInt32(0))
	c.d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	old := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32)}}
	for replicas, want := range map[int32]bool{2: true, 0: false} {
		old.Status.Replicas = replicas
		r := &rollout{d: c.d, old: []*set{{rs: old}}}
		if got := r.oldRunning(); got != want {
			t.Errorf("the old set has %d replicas: running is %t", replicas, got)
		}
	}
}
