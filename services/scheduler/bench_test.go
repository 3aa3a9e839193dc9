package scheduler

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"howdah.dev/kit/leading/leadingtest"
	"howdah.dev/kit/object"
	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/config"
	"howdah.dev/services/scheduler/internal/kin"
	"howdah.dev/services/scheduler/internal/queue"
)

var seed = maphash.MakeSeed()

const (
	burstPods  = 5000
	burstNodes = 1000
)

// burst returns the pods of so many Deployments.
func burst(groups int) []*corev1.Pod {
	pods := make([]*corev1.Pod, burstPods)
	for i := range pods {
		p := pod(numbered("web", i), "100m")
		p.UID, p.Labels["app"] = types.UID(p.Name), fmt.Sprint("app-", i%groups)
		pods[i] = p
	}
	return pods
}

// BenchmarkDecide is the queue and the cycle: from 5,000 pods that come to
// 5,000 assumed placements on 1,000 nodes.
func BenchmarkDecide(b *testing.B) {
	for _, groups := range []int{1, 100, burstPods} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) { decide(b, burst(groups)) })
	}
	b.Run("daemons", func(b *testing.B) { decide(b, daemons()) })
	for zones := range 2 {
		b.Run(fmt.Sprintf("replicas/zones=%d", 3*zones), func(b *testing.B) { decide(b, replicas(), inZones(3*zones)) })
	}
	b.Run("apart", func(b *testing.B) { decide(b, apart()) })
}

// replicas returns the pods of five ReplicaSets, which are spread over nodes and zones.
func replicas() []*corev1.Pod {
	pods := burst(5)
	controller := true
	for _, p := range pods {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: p.Labels["app"], UID: types.UID(p.Labels["app"]), Controller: &controller}}
	}
	return pods
}

// apart returns pods that would rather not be together with their like.
func apart() []*corev1.Pod {
	pods := burst(5)
	for _, p := range pods {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}}},
		}}}}
	}
	return pods
}

// inZones labels nodes with so many zones; 0 is none.
func inZones(zones int) func(i int, n *corev1.Node) {
	return func(i int, n *corev1.Node) {
		if zones > 0 {
			n.Labels[corev1.LabelTopologyZone] = numbered("zone", i%zones)
		}
	}
}

// daemons returns the pods of five DaemonSets, each of which names its node.
func daemons() []*corev1.Pod {
	pods := burst(5)
	for i, p := range pods {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{numbered("node", i%burstNodes)}}},
			}}},
		}}
	}
	return pods
}

func decide(b *testing.B, pods []*corev1.Pod, change ...func(i int, n *corev1.Node)) {
	for b.Loop() {
		s := &Server{cfg: Config{Clock: clock.RealClock{}}, profiles: profilesOf(config.Default("default-scheduler")), cache: cluster.NewCache(), queue: queue.New(clock.RealClock{}, queue.DefaultBackoffs), seed: seed}
		s.profiles.count(newMetrics(prometheus.NewRegistry(), state{s.queue, s.cache}))
		for i := range burstNodes {
			n := node(numbered("node", i), "16")
			n.Labels = map[string]string{corev1.LabelHostname: n.Name}
			for _, c := range change {
				c(i, n)
			}
			s.nodeChanged("NodeAdd", nil, n)
		}
		for i := range 5 { // those of replicas
			app := fmt.Sprint("app-", i)
			s.cache.ChangeKin(func(v *kin.View) {
				v.SetController(types.UID(app), &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}})
			})
		}
		for _, p := range pods {
			s.podChanged(queue.PodAdd, nil, p)
		}
		for placed := 0; placed < burstPods; {
			items := s.queue.Pop(context.Background(), groupLimit)
			group := make([]*corev1.Pod, len(items))
			for i, item := range items {
				group[i] = item.Pod
			}
			profile := s.profiles.of(group[0])
			placements, timing := profile.Place(group, s.cache.Snapshot(), rand.IntN, time.Now)
			profile.metrics.cycle(timing)
			demand := cluster.DemandOf(group[0])
			for i, p := range placements {
				bound := *p.Pod
				bound.Spec.NodeName = p.Node
				s.cache.Assume(&bound, demand)
				s.podChanged(queue.AssignedPodAdd, p.Pod, &bound)
				s.queue.Delete(items[i].Pod.UID)
			}
			placed += len(items)
		}
	}
	b.ReportMetric(float64(burstPods*b.N)/b.Elapsed().Seconds(), "pods/s")
}

// BenchmarkGroup is what each event of a waiting pod costs.
func BenchmarkGroup(b *testing.B) {
	s, p := &Server{seed: seed}, burst(1)[0]
	for b.Loop() {
		s.group(p)
	}
}

// BenchmarkBurst is the whole service against an API in memory: from the
// creation of 5,000 pods until the last is bound.
func BenchmarkBurst(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		w := start(b, leadingtest.New(), func(w *world) {
			addMany(w, object.Node, burstNodes, func(i int) *corev1.Node { return node(numbered("node", i), "16") })
		})
		b.StartTimer()
		begin := time.Now()
		addMany(w, object.Pod, burstPods, func(i int) *corev1.Pod { return pod(numbered("web", i), "100m") })
		w.awaitPods("the burst to be bound", bound(burstPods))
		b.ReportMetric(burstPods/time.Since(begin).Seconds(), "pods/s")
	}
}
