package cgroup

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/pod"
)

// totals are what a pod as a whole asks for and may use. A limit is 0 where
// one of its containers has none.
type totals struct {
	request, cpuLimit int64 // thousandths of a core
	memoryLimit       int64 // bytes
}

// sum adds up the containers that run together; an init container runs
// beside the sidecars before it only, so the larger of both counts.
func sum(p *corev1.Pod) totals {
	var together totals
	unlimited := struct{ cpu, memory bool }{}
	var peak totals
	one := func(c *corev1.Container) totals {
		cpu, memory := c.Resources.Limits[corev1.ResourceCPU], c.Resources.Limits[corev1.ResourceMemory]
		request, asked := c.Resources.Requests[corev1.ResourceCPU]
		if !asked {
			request = cpu
		}
		unlimited.cpu = unlimited.cpu || cpu.IsZero()
		unlimited.memory = unlimited.memory || memory.IsZero()
		return totals{request.MilliValue(), cpu.MilliValue(), memory.Value()}
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		t := one(c)
		if pod.Sidecar(c) {
			together = together.plus(t)
			peak = peak.larger(together)
			continue
		}
		peak = peak.larger(together.plus(t))
	}
	for i := range p.Spec.Containers {
		together = together.plus(one(&p.Spec.Containers[i]))
	}
	all := peak.larger(together)
	if unlimited.cpu {
		all.cpuLimit = 0
	}
	if unlimited.memory {
		all.memoryLimit = 0
	}
	return all.override(p.Spec.Resources).over(p.Spec.Overhead)
}

// over adds what the pod's class takes for itself; what is not limited stays so.
func (t totals) over(overhead corev1.ResourceList) totals {
	t.request += overhead.Cpu().MilliValue()
	if t.cpuLimit > 0 {
		t.cpuLimit += overhead.Cpu().MilliValue()
	}
	if t.memoryLimit > 0 {
		t.memoryLimit += overhead.Memory().Value()
	}
	return t
}

// override lets what the pod itself asks for count before its containers' sum.
func (t totals) override(own *corev1.ResourceRequirements) totals {
	if own == nil {
		return t
	}
	if cpu, ok := own.Requests[corev1.ResourceCPU]; ok {
		t.request = cpu.MilliValue()
	}
	if cpu, ok := own.Limits[corev1.ResourceCPU]; ok {
		t.cpuLimit = cpu.MilliValue()
	}
	if memory, ok := own.Limits[corev1.ResourceMemory]; ok {
		t.memoryLimit = memory.Value()
	}
	return t
}

func (t totals) plus(o totals) totals {
	return totals{t.request + o.request, t.cpuLimit + o.cpuLimit, t.memoryLimit + o.memoryLimit}
}

func (t totals) larger(o totals) totals {
	return totals{max(t.request, o.request), max(t.cpuLimit, o.cpuLimit), max(t.memoryLimit, o.memoryLimit)}
}
