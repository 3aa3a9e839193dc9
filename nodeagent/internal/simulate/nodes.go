package simulate

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/nodestatus"
)

const (
	// slots is in how many parts the leases are renewed, spread over the
	// interval: each part is one call.
	slots      = 4
	chunk      = 500
	retryPause = time.Second
)

// Label is "true" on all nodes of fleets.
const Label = "howdah.dev/simulated"

// nodeIP is the made-up address of a node.
func (f *Fleet) nodeIP(i int) string {
	return fmt.Sprintf("198.18.%d.%d", i/250, i%250+1)
}

func (f *Fleet) node(i int) *corev1.Node {
	info := corev1.NodeSystemInfo{
		MachineID: f.name(i), SystemUUID: f.name(i), BootID: f.name(i), KernelVersion: "simulated", OSImage: "howdah hollow node",
		ContainerRuntimeVersion: "simulated://1", KubeletVersion: f.cfg.Version, OperatingSystem: "linux", Architecture: "amd64",
	}
	labels := nodestatus.Labels(f.name(i), info, map[string]string{Label: "true"})
	if f.cfg.Labels != nil {
		maps.Copy(labels, f.cfg.Labels(i))
	}
	list := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(f.cfg.CPU, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(f.cfg.Memory, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(f.cfg.MaxPods, resource.DecimalSI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(1<<40, resource.BinarySI),
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.name(i), Labels: labels}}
	n.Status = corev1.NodeStatus{
		Capacity: list, Allocatable: list, NodeInfo: info,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: f.nodeIP(i)}, {Type: corev1.NodeHostName, Address: f.name(i)}},
	}
	n.Status.Conditions = f.conditions(nil)
	return n
}

// tell puts what a fleet says of a node into its status. What others have said stays: conditions, resources that somebody advertises, what is attached.
func tell(status *corev1.NodeStatus, said corev1.NodeStatus) {
	status.Capacity, status.Allocatable = with(status.Capacity, said.Capacity), with(status.Allocatable, said.Allocatable)
	status.NodeInfo, status.Addresses = said.NodeInfo, said.Addresses
}

// with returns a list with what is in more, too, which counts.
func with(list, more corev1.ResourceList) corev1.ResourceList {
	all := maps.Clone(more)
	for name, quantity := range list {
		if _, said := more[name]; !said {
			all[name] = quantity
		}
	}
	return all
}

// register makes all nodes, and says that they are ready; it repeats until
// it has, or ctx ends.
func (f *Fleet) register(ctx context.Context) ([]*corev1.Node, error) {
	nodes := make([]*corev1.Node, f.cfg.Nodes)
	for {
		err := f.tryRegister(ctx, nodes)
		if err == nil {
			return nodes, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		slog.Warn("register hollow nodes", "err", err)
		if !f.pause(ctx, retryPause) {
			return nil, ctx.Err()
		}
	}
}

// tryRegister fills in the nodes that are missing yet.
func (f *Fleet) tryRegister(ctx context.Context, nodes []*corev1.Node) error {
	all := object.For(f.cfg.Client, object.Node)
	for start := 0; start < len(nodes); start += chunk {
		var missing []int
		var items []object.Item
		for i := start; i < min(start+chunk, len(nodes)); i++ {
			if nodes[i] == nil {
				missing = append(missing, i)
				items = append(items, all.CreateItem(f.node(i)))
			}
		}
		results, err := f.cfg.Client.Batch(ctx, items, false)
		if err != nil {
			return err
		}
		made := make([]*corev1.Node, len(missing))
		items = items[:0]
		for at, i := range missing {
			switch err := results[at].Err; {
			case apierrors.IsAlreadyExists(err):
				made[at], err = all.Get(ctx, "", f.name(i))
				if err != nil {
					return err
				}
			case err != nil:
				return err
			default:
				if made[at], err = object.Decode(object.Node, results[at].Object); err != nil {
					return err
				}
			}
			tell(&made[at].Status, f.node(i).Status)
			made[at].Status.Conditions = f.conditions(made[at].Status.Conditions)
			items = append(items, all.UpdateItem(made[at], "status"))
		}
		if results, err = f.cfg.Client.Batch(ctx, items, false); err != nil {
			return err
		}
		for at, i := range missing {
			if results[at].Err != nil {
				return results[at].Err
			}
			nodes[i] = made[at]
		}
	}
	return nil
}

// renew keeps the leases, a part of them at a time.
func (f *Fleet) renew(ctx context.Context, nodes []*corev1.Node) error {
	leases := make([]*coordinationv1.Lease, len(nodes))
	for slot := 0; ; slot = (slot + 1) % slots {
		began := f.cfg.Clock.Now()
		// The first round takes them all: a node without a lease counts as dead.
		part := make([]int, 0, len(nodes)/slots+1)
		for i := range nodes {
			if i%slots == slot || leases[i] == nil {
				part = append(part, i)
			}
		}
		err := f.renewPart(ctx, nodes, leases, part)
		if err == nil {
			err = f.answer(ctx, part)
		}
		if err != nil && ctx.Err() == nil {
			slog.Warn("renew the leases of hollow nodes", "err", err)
			slot-- // the same part again
			if !f.pause(ctx, retryPause) {
				return ctx.Err()
			}
			continue
		}
		if !f.pause(ctx, nodestatus.DefaultPace.Renew()/slots-f.cfg.Clock.Since(began)) {
			return ctx.Err()
		}
	}
}

func (f *Fleet) renewPart(ctx context.Context, nodes []*corev1.Node, leases []*coordinationv1.Lease, part []int) error {
	all := object.For(f.cfg.Client, object.Lease)
	now := f.cfg.Clock.Now()
	items := make([]object.Item, 0, len(part))
	for _, i := range part {
		next := nodestatus.Lease(nodes[i], leases[i], now, nodestatus.DefaultPace.Lease)
		if leases[i] == nil {
			items = append(items, all.CreateItem(next))
		} else {
			items = append(items, all.UpdateItem(next, ""))
		}
	}
	results, err := f.cfg.Client.Batch(ctx, items, false)
	if err != nil {
		return err
	}
	var first error
	for at, i := range part {
		lease, err := object.Decode(object.Lease, results[at].Object)
		if results[at].Err == nil && err == nil {
			leases[i] = lease
			continue
		}
		// Somebody else has written it, or it is there from an earlier life.
		if leases[i], err = all.Get(ctx, corev1.NamespaceNodeLease, nodes[i].Name); err != nil {
			leases[i] = nil
		}
		if e := results[at].Err; e != nil && !apierrors.IsAlreadyExists(e) && !apierrors.IsConflict(e) && !apierrors.IsNotFound(e) && first == nil {
			first = e
		}
	}
	return first
}

func (f *Fleet) pause(ctx context.Context, d time.Duration) bool {
	timer := f.cfg.Clock.NewTimer(max(d, 10*time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}
