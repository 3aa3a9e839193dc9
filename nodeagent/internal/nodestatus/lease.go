package nodestatus

import (
	"context"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
)

// Lease returns the node's lease, by which the control plane sees that it lives, as renewed at now for a duration; old may be nil.
func Lease(node *corev1.Node, old *coordinationv1.Lease, now time.Time, duration time.Duration) *coordinationv1.Lease {
	var lease *coordinationv1.Lease
	if old != nil {
		lease = old.DeepCopy()
	} else {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, Namespace: corev1.NamespaceNodeLease,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		}}
	}
	holder, seconds := node.Name, int32(duration/time.Second)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &holder, &seconds
	lease.Spec.RenewTime = &metav1.MicroTime{Time: now}
	return lease
}

// RunLease renews the lease until ctx ends.
func (r *Reporter) RunLease(ctx context.Context) error {
	ctx = obs.Untraced(ctx)
	var lease *coordinationv1.Lease
	retry := retries()
	for {
		var err error
		pause := r.cfg.Pace.Renew()
		if lease, err = r.renew(ctx, lease); err == nil {
			retry = retries()
		} else if ctx.Err() == nil {
			slog.Warn("renew the node's lease", "node", r.cfg.NodeName, "err", err)
			pause = retry.Step()
		}
		timer := r.cfg.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
	}
}

// Heard says whether the control plane has heard of the node within the lease's duration, after which others may do what the node did.
func (r *Reporter) Heard() bool {
	return r.cfg.Clock.Now().UnixNano()-r.renewed.Load() < int64(r.cfg.Pace.Lease)
}

// renew writes the lease; nil comes back where it must be read anew.
func (r *Reporter) renew(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	leases, now := object.For(r.cfg.Client, object.Lease), r.cfg.Clock.Now()
	write := leases.Update
	if lease == nil {
		found, err := leases.Get(ctx, corev1.NamespaceNodeLease, r.cfg.NodeName)
		switch {
		case apierrors.IsNotFound(err):
			write = leases.Create
		case err != nil:
			return nil, err
		default:
			lease = found
		}
	}
	stored, err := write(ctx, Lease(r.Node(), lease, now, r.cfg.Pace.Lease))
	if err != nil {
		return nil, err
	}
	r.renewed.Store(now.UnixNano())
	return stored, nil
}
