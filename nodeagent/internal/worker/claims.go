package worker

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/obs"
	"howdah.dev/nodeagent/internal/pod"
)

// prepareClaims has the devices ready that the pod claims, and reports whether they are.
func (w *worker) prepareClaims(ctx context.Context, p *corev1.Pod) bool {
	if len(p.Spec.ResourceClaims) == 0 && p.Status.ExtendedResourceClaimStatus == nil {
		return true
	}
	spanCtx, span := w.tracer.start("claims")
	err := w.cfg.Claims.Prepare(join(ctx, spanCtx), p)
	obs.End(span, err)
	if err == nil {
		w.memory.Claims = pod.Trouble{}
		return true
	}
	if ctx.Err() == nil {
		w.cfg.Events.Event(p, "", corev1.EventTypeWarning, "FailedPrepareDynamicResources", "Failed to prepare dynamic resources: "+err.Error())
		w.memory.Claims = w.later(w.memory.Claims, "FailedPrepareDynamicResources", err)
	}
	return false
}
