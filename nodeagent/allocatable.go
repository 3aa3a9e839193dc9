package nodeagent

import (
	"context"
	"errors"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/cgroup"
	"howdah.dev/nodeagent/internal/nodestatus"
	"howdah.dev/nodeagent/internal/reserve"
	"howdah.dev/nodeagent/internal/usage"
)

// enforceEvery is how often it is tried to hold pods to what is for them, while they have more.
const enforceEvery = time.Minute

// reserved is what of the machine pods may not ask for, beside what the thresholds keep back: the CPUs that are named go before their number.
func (c Config) reserved() corev1.ResourceList {
	out := c.Reserve.Total()
	if named := c.Managers.reserved(); named != nil {
		out[corev1.ResourceCPU] = named[corev1.ResourceCPU]
	}
	delete(out, reserve.PIDs)
	return out
}

// enforcer holds all pods together to what is for them, as the kubelet's enforceNodeAllocatable=pods does: what the machine has and the node does not keep
// for itself. What the thresholds keep back is the pods' until it is short.
type enforcer struct {
	cgroups *cgroup.Tree
	machine nodestatus.Machine
	options reserve.Options
	named   corev1.ResourceList // CPUs
	tell    func(kind, reason, message string)
	clock   clock.WithTicker
}

// Run makes the bounds, again until they are, and ends with ctx.
func (e *enforcer) Run(ctx context.Context) error {
	ticker := e.clock.NewTicker(enforceEvery)
	defer ticker.Stop()
	for said := ""; ; {
		err := e.enforce()
		if err == nil {
			break
		}
		if said != err.Error() {
			said = err.Error()
			slog.Warn("hold pods to what is for them", "err", err)
			e.tell(corev1.EventTypeWarning, "FailedNodeAllocatableEnforcement", "Failed to update Node Allocatable Limits "+said)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (e *enforcer) enforce() error {
	if !e.options.Enforced() {
		return e.cgroups.Unbound()
	}
	whole, err := e.whole()
	if err != nil {
		return err
	}
	if err := e.cgroups.Bound(whole); err != nil {
		return err
	}
	e.tell(corev1.EventTypeNormal, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
	return nil
}

// whole is what all pods together may have.
func (e *enforcer) whole() (cgroup.Whole, error) {
	capacity, _, err := e.machine.Capacity(1)
	if err != nil {
		return cgroup.Whole{}, err
	}
	pids := usage.MaxPIDs(e.machine.Proc)
	reserved := e.options.Total()
	if e.named != nil {
		reserved[corev1.ResourceCPU] = e.named[corev1.ResourceCPU]
	}
	cpu := reserve.Left(capacity[corev1.ResourceCPU], reserved[corev1.ResourceCPU])
	memory := reserve.Left(capacity[corev1.ResourceMemory], reserved[corev1.ResourceMemory])
	if memory.IsZero() {
		return cgroup.Whole{}, errors.New("all of the machine's memory is reserved: nothing is left for pods")
	}
	w := cgroup.Whole{CPU: max(cpu.MilliValue(), 1), Memory: memory.Value()}
	if pids > 0 {
		kept := reserved[reserve.PIDs]
		w.PIDs = max(pids-kept.Value(), 1)
	}
	return w, nil
}
