package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Why a node is refused, in Kubernetes' words.
const (
	unavailable = "resourceclaim not available on the node"
	tooFew      = "cannot allocate all claims"
)

// Patience bounds the search for devices on one node where nothing else is said, as filterTimeout does in Kubernetes: it tries all of them against all
// requests.
const Patience = 10 * time.Second

// Wants is what a pod wants of devices. It remembers what it found, and is not for concurrent use.
type Wants struct {
	pod         *corev1.Pod
	claims      []*Claim
	unallocated []*resourcev1.ResourceClaim
	orders      orders
	special     *Claim // which was made for the pod's extended resources before; nil where none was
	allocator   structured.Allocator
	patience    time.Duration // 0 is without bound

	found map[string]found // by node
	// fault says what is wrong with a claim or a class: no node is asked any more.
	fault string
	// slow says on which node the search took too long; no other node is searched then.
	slow string
	away map[*Claim]bool // those that a node did not reach, or whose devices have failed
}

type found struct {
	refused string
	results []resourcev1.AllocationResult // of the unallocated claims, in their order, and of the special one where it is to get devices here
	// order is what the extended resources are here, and special the claim for it; nil where they are none.
	order   order
	special *resourcev1.ResourceClaim
}

// WantsOf returns what a pod wants that Refusal does not refuse. The search on a node takes no longer than patience; 0 is no bound.
func WantsOf(pod *corev1.Pod, v View, patience time.Duration) *Wants {
	w := &Wants{pod: pod, patience: patience, found: map[string]found{}, away: map[*Claim]bool{}}
	claims, err := v.claimsOf(pod)
	if err != nil {
		w.fault = err.Error()
		return w
	}
	w.claims, w.orders, w.special = claims, ordersOf(pod, v), v.Special(pod)
	for _, c := range claims {
		if c.Status.Allocation == nil && !slices.Contains(w.unallocated, c.ResourceClaim) {
			w.unallocated = append(w.unallocated, c.ResourceClaim)
		}
	}
	if len(w.unallocated) == 0 && len(w.orders.backed) == 0 {
		return w
	}
	w.allocator, err = structured.NewAllocator(context.Background(), features, v.taken(), classLister{v}, v.offered(), v.compiled)
	if err != nil {
		w.fault = err.Error()
	}
	return w
}

// Fault says what is wrong with a claim or a class, as far as the nodes that were asked have shown it; "" where nothing is. A selector that cannot be computed for the devices of
// one node is such a fault.
func (w *Wants) Fault() string { return w.fault }

// Nothing reports whether the pod wants no device: its templates made no claims, and nothing is to be written of it.
func (w *Wants) Nothing() bool {
	return len(w.claims) == 0 && len(w.orders.backed) == 0 && w.special == nil && w.pod.Status.ExtendedResourceClaimStatus == nil && w.fault == ""
}

// On says why a node is refused, "" where it is not.
func (w *Wants) On(n *corev1.Node) string {
	f, ok := w.found[n.Name]
	if !ok {
		f = w.find(n)
		w.found[n.Name] = f
	}
	return f.refused
}

func (w *Wants) find(n *corev1.Node) found {
	if why := cmp.Or(w.fault, w.slow); why != "" {
		return found{refused: why}
	}
	var away bool
	for _, c := range w.claims {
		if c.Status.Allocation != nil && (!c.Reachable(n) || failed(c.ResourceClaim)) {
			w.away[c], away = true, true
		}
	}
	order := w.orders.on(n)
	special, serves := w.specialFor(n, order)
	if away || !serves {
		return found{refused: unavailable}
	}
	wanting := w.unallocated
	if special != nil && special.Status.Allocation == nil {
		if why := order.tooMuch(); why != "" {
			return found{refused: why}
		}
		wanting = append(slices.Clip(wanting), special)
	}
	if len(wanting) == 0 {
		return found{order: order, special: special}
	}
	ctx := context.Background()
	if w.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.patience)
		defer cancel()
	}
	results, err := w.allocator.Allocate(ctx, n, wanting)
	switch {
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return found{refused: err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		w.slow = fmt.Sprintf("node %s: timed out trying to allocate devices", n.Name)
		return found{refused: w.slow}
	case err != nil:
		w.fault = err.Error()
		return found{refused: w.fault}
	case len(results) != len(wanting):
		return found{refused: tooFew}
	}
	return found{results: results, order: order, special: special}
}

// specialFor returns the claim that is what an order wants on a node, nil where it wants none. serves is false where the one that was made before does
// not: it is for other devices, or for those of other nodes.
func (w *Wants) specialFor(n *corev1.Node, o order) (claim *resourcev1.ResourceClaim, serves bool) {
	switch {
	case w.special == nil && len(o.requests) == 0:
		return nil, true
	case w.special == nil:
		return o.draft(w.pod), true
	case !o.of(w.special.ResourceClaim) || w.special.Status.Allocation != nil && (!w.special.Reachable(n) || failed(w.special.ResourceClaim)):
		w.away[w.special] = true
		return nil, false
	}
	return w.special.ResourceClaim, true
}

// Preference is how much the devices of a node that passed are those that the claims name first among alternatives; 0 where they name none.
func (w *Wants) Preference(n *corev1.Node) int64 {
	if w.On(n) != "" {
		return 0
	}
	var sum int64
	for i, c := range w.unallocated {
		sum += preference(c, &w.found[n.Name].results[i])
	}
	for _, c := range w.claims {
		if c.Status.Allocation != nil {
			sum += preference(c.ResourceClaim, c.Status.Allocation)
		}
	}
	return sum
}

func preference(c *resourcev1.ResourceClaim, a *resourcev1.AllocationResult) int64 {
	var sum int64
	for _, r := range c.Spec.Devices.Requests {
		for i, sub := range r.FirstAvailable {
			if slices.ContainsFunc(a.Devices.Results, func(d resourcev1.DeviceRequestAllocationResult) bool { return d.Request == r.Name+"/"+sub.Name }) {
				sum += int64(resourcev1.FirstAvailableDeviceRequestMaxSize - i)
			}
		}
	}
	return sum
}

// Alternatives reports whether claims name alternatives, so that a node may have better devices than another.
func (w *Wants) Alternatives() bool {
	return slices.ContainsFunc(w.claims, func(c *Claim) bool {
		return slices.ContainsFunc(c.Spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool { return len(r.FirstAvailable) > 0 })
	})
}

// Choose returns what is to be written of the claims for the pod to go to a node that passed.
func (w *Wants) Choose(n *corev1.Node) (*Choice, error) {
	if why := w.On(n); why != "" {
		return nil, errors.New(why)
	}
	user := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: w.pod.Name, UID: w.pod.UID}
	choice, found := &Choice{Pod: w.pod.UID}, w.found[n.Name]
	for i, c := range w.unallocated {
		choice.Changes = append(choice.Changes, Change{Claim: c, Allocation: &found.results[i], User: user})
	}
	if c := found.special; c != nil {
		choice.Extended = found.order.status(c.Name)
		switch {
		case c.Status.Allocation == nil:
			choice.Changes = append(choice.Changes, Change{Claim: c, Allocation: &found.results[len(w.unallocated)], User: user})
		case !ReservedFor(c, w.pod.UID):
			choice.Changes = append(choice.Changes, Change{Claim: c, User: user})
		}
	}
	for i, c := range w.claims {
		if c.Status.Allocation != nil && !slices.Contains(w.claims[:i], c) && !ReservedFor(c.ResourceClaim, w.pod.UID) {
			choice.Changes = append(choice.Changes, Change{Claim: c.ResourceClaim, User: user})
		}
	}
	return choice, nil
}

// Release returns a claim that might do on another node with other devices: its own are away from a node, and nobody else uses them. nil where
// there is none.
func (w *Wants) Release() *resourcev1.ResourceClaim {
	if w.special != nil && w.away[w.special] { // it is nobody else's, and in the way of all nodes that do without
		return w.special.ResourceClaim
	}
	for _, c := range w.claims {
		if w.away[c] && onlyFor(c.ResourceClaim, w.pod) {
			return c.ResourceClaim
		}
	}
	return nil
}
