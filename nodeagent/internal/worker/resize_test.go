package worker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/pod"
)

func sized(name, cpu, memory string) *corev1.Pod {
	p := newPod(name, name)
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
	p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	return p
}

func (w *world) called(call string) bool { return slices.Contains(w.runtime.Calls(), call) }

// condition is the reason of a condition that holds, "none" otherwise.
func (w *world) condition(uid types.UID, kind corev1.PodConditionType) string {
	for _, c := range w.status(uid).Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return c.Reason
		}
	}
	return "none"
}

func TestResourcesChangeInPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	two := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	w.room = pod.Room{Allocatable: two, Others: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	registry := prometheus.NewRegistry()
	w.metrics = NewMetrics(registry, clock.RealClock{})
	m, stop := w.start()
	generation := int64(1)
	resized := func(name, cpu, memory string) *corev1.Pod {
		p := sized(name, cpu, memory)
		generation++
		p.Generation = generation
		return p
	}
	m.Update(sized("p", "500m", "64Mi"))
	w.eventually("ready", w.ready("uid-p"))
	limit := func(cpu string) func() bool {
		return func() bool {
			s := w.status("uid-p").ContainerStatuses
			return len(s) == 1 && s[0].Resources != nil && s[0].Resources.Limits.Cpu().String() == cpu
		}
	}
	m.Update(resized("p", "750m", "64Mi"))
	w.eventually("more CPU", func() bool {
		return limit("750m")() && w.called("UpdateContainerResources p cpu=75000 memory=67108864") && w.condition("uid-p", corev1.PodResizeInProgress) == "none"
	})
	m.Update(resized("p", "3", "64Mi"))
	w.eventually("infeasible", func() bool {
		return w.condition("uid-p", corev1.PodResizePending) == corev1.PodReasonInfeasible && limit("750m")()
	})
	m.Update(resized("p", "1500m", "64Mi"))
	w.eventually("deferred", func() bool {
		return w.condition("uid-p", corev1.PodResizePending) == corev1.PodReasonDeferred && limit("750m")()
	})
	expect(t, registry, []string{"kubelet_pod_pending_resizes", "kubelet_pod_in_progress_resizes"}, `kubelet_pod_in_progress_resizes 0
kubelet_pod_pending_resizes{reason="deferred"} 1
`)
	w.mu.Lock()
	w.room.Others = nil
	w.mu.Unlock()
	m.Remove(newPod("other", "o")) // another pod has left
	w.eventually("room", func() bool { return limit("1500m")() && w.condition("uid-p", corev1.PodResizePending) == "none" })
	if s := w.status("uid-p").ContainerStatuses[0]; s.RestartCount != 0 {
		t.Errorf("it was restarted: %s", s.String())
	}
	m.Update(resized("p", "1500m", "128Mi"))
	w.eventually("more memory by a restart", func() bool {
		s := w.status("uid-p")
		return w.ready("uid-p")() && s.ContainerStatuses[0].RestartCount == 1 && s.ContainerStatuses[0].Resources.Limits.Memory().String() == "128Mi"
	})

	expect(t, registry, []string{
		"kubelet_container_requested_resizes_total", "kubelet_pod_deferred_accepted_resizes_total", "kubelet_pod_infeasible_resizes_total", "kubelet_pod_pending_resizes",
	}, `kubelet_container_requested_resizes_total{operation="decrease",requirement="limits",resource="cpu"} 1
kubelet_container_requested_resizes_total{operation="decrease",requirement="requests",resource="cpu"} 1
kubelet_container_requested_resizes_total{operation="increase",requirement="limits",resource="cpu"} 2
kubelet_container_requested_resizes_total{operation="increase",requirement="limits",resource="memory"} 1
kubelet_container_requested_resizes_total{operation="increase",requirement="requests",resource="cpu"} 2
kubelet_container_requested_resizes_total{operation="increase",requirement="requests",resource="memory"} 1
kubelet_pod_deferred_accepted_resizes_total{retry_trigger="pods_removed"} 1
kubelet_pod_infeasible_resizes_total{reason_detail="insufficient_node_allocatable"} 1
`)
	if n := series(t, registry, `kubelet_pod_resize_duration_milliseconds{success="true"}`); n < 3 {
		t.Errorf("%v changes were measured, not 3", n)
	}

	// Another life of the agent knows it from the API.
	before := len(w.runtime.Calls())
	told := sized("p", "1500m", "128Mi")
	told.Status = w.status("uid-p")
	stop()
	m, _ = w.start()
	m.Update(told)
	next := sized("p", "1", "128Mi")
	next.Status = told.Status
	m.Update(next)
	w.eventually("less CPU", limit("1"))
	for _, call := range w.runtime.Calls()[before:] {
		if !strings.HasPrefix(call, "UpdateContainerResources p cpu=100000") {
			t.Errorf("call %s", call)
		}
	}
}

func TestMemoryThatIsInUseIsNotTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.start()
	p := sized("p", "1", "64Mi")
	p.Spec.Containers[0].ResizePolicy = nil
	m.Update(p)
	w.eventually("ready", w.ready("uid-p"))
	p = sized("p", "1", "1Mi")
	p.Spec.Containers[0].ResizePolicy = nil
	m.Update(p)
	w.eventually("refused", func() bool { return w.condition("uid-p", corev1.PodResizeInProgress) == corev1.PodReasonError })
	for _, call := range w.runtime.Calls() {
		if strings.HasPrefix(call, "UpdateContainerResources") {
			t.Errorf("call %s", call)
		}
	}
	w.mu.Lock()
	before := len(w.reports)
	w.mu.Unlock()
	time.Sleep(100 * time.Millisecond) // of the pause before the next try
	w.mu.Lock()
	defer w.mu.Unlock()
	if more := len(w.reports) - before; more > 3 {
		t.Errorf("%d rounds while there is nothing to do", more)
	}
}

// whole is a pod with limits of its own, and a container without any.
func whole(cpu, memory string) *corev1.Pod {
	p := newPod("w", "w")
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
	return p
}

func TestResourcesOfThePodAsAWholeChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	two := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	w.room = pod.Room{Allocatable: two, Others: corev1.ResourceList{}}
	m, stop := w.start()
	m.Update(whole("500m", "64Mi"))
	w.eventually("ready", w.ready("uid-w"))
	has := func(cpu, memory string) func() bool {
		return func() bool {
			s := w.status("uid-w")
			return s.Resources != nil && s.Resources.Limits.Cpu().String() == cpu && s.Resources.Limits.Memory().String() == memory && w.condition("uid-w", corev1.PodResizeInProgress) == "none"
		}
	}
	m.Update(whole("750m", "32Mi"))
	w.eventually("resized", has("750m", "32Mi"))
	w.mu.Lock()
	groups := slices.Compact(slices.Clone(w.groups))
	w.mu.Unlock()
	if want := []string{"cpu=500m memory=64Mi", "cpu=750m memory=64Mi", "cpu=750m memory=32Mi"}; !slices.Equal(groups, want) {
		t.Errorf("groups %v, want %v", groups, want)
	}
	if !w.called("UpdateContainerResources w cpu=75000 memory=33554432") {
		t.Errorf("its container has not the pod's limits: %v", w.runtime.Calls())
	}
	if s := w.status("uid-w"); s.AllocatedResources.Cpu().String() != "750m" || !w.told(" ResizeCompleted: Pod resize completed: {") {
		t.Errorf("allocated %v, events %v", s.AllocatedResources, w.events)
	}
	m.Update(whole("750m", "16Mi")) // less than the 20 MB that are used
	w.eventually("refused", func() bool { return w.condition("uid-w", corev1.PodResizeInProgress) == corev1.PodReasonError })
	if s := w.status("uid-w"); s.Resources.Limits.Memory().String() != "32Mi" || !w.told(" ResizeError: Pod resize error: {") {
		t.Errorf("resources %v, events %v", s.Resources, w.events)
	}
	m.Update(whole("3", "32Mi"))
	w.eventually("infeasible", func() bool { return w.condition("uid-w", corev1.PodResizePending) == corev1.PodReasonInfeasible })
	if s := w.status("uid-w"); s.AllocatedResources.Cpu().String() != "750m" {
		t.Errorf("allocated %v", s.AllocatedResources)
	}

	// The agent's next life knows what the pod has.
	stop()
	told := whole("1", "32Mi")
	told.Status = w.status("uid-w")
	w.mu.Lock()
	w.groups = nil
	w.mu.Unlock()
	m, _ = w.start()
	m.Update(told)
	w.eventually("resized", has("1", "32Mi"))
	if !w.called("UpdateContainerResources w cpu=100000 memory=33554432") {
		t.Errorf("its container has not the pod's limits: %v", w.runtime.Calls())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if want := []string{"cpu=1 memory=32Mi", "cpu=1 memory=32Mi"}; !slices.Equal(w.groups, want) {
		t.Errorf("groups %v, want %v", w.groups, want)
	}
}

func TestResourcesOfAnInitContainerChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.room = pod.Room{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}}
	m, _ := w.start()
	initial := func(cpu string) *corev1.Pod {
		p := newPod("p", "a")
		c := sized("init", cpu, "64Mi").Spec.Containers[0]
		c.ResizePolicy = nil
		p.Spec.InitContainers = []corev1.Container{c}
		return p
	}
	m.Update(initial("500m"))
	w.eventually("running", func() bool { return w.called("StartContainer init") })
	m.Update(initial("750m"))
	w.eventually("resized", func() bool {
		s := w.status("uid-p")
		return w.called("UpdateContainerResources init cpu=75000 memory=67108864") && len(s.InitContainerStatuses) == 1 &&
			s.InitContainerStatuses[0].AllocatedResources.Cpu().String() == "750m" && s.InitContainerStatuses[0].Resources.Limits.Cpu().String() == "750m"
	})
	w.runtime.Exit("init", 0)
	m.Wake("uid-p")
	w.eventually("ready", w.ready("uid-p"))
}
