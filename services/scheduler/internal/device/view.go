// Package device is the scheduler's picture of claims of devices and of the devices that drivers offer: what the API shows of them, what the
// scheduler has decided and not written yet, and which devices a pod would take on a node. Deciding is pure, over a View.
package device

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"howdah.dev/services/internal/devicetaint"
	"howdah.dev/services/scheduler/internal/table"
)

// features are those of Kubernetes 1.36 that are on by default.
var features = structured.Features{
	AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true, PartitionableDevices: true, PrioritizedList: true,
}

// expressions is how many compiled selectors are kept. Kubernetes keeps 10; a cluster has about as many as it has classes.
const expressions = 100

// View is the devices of the cluster at one moment. It never changes; the zero View is a cluster without any.
type View struct {
	claims  table.Table[*Claim]                  // by namespace/name
	classes table.Table[*resourcev1.DeviceClass] // by name
	slices  table.Table[*resourcev1.ResourceSlice]
	rules   table.Table[*devicetaint.Rule] // by name

	// What choosing needs of all claims and slices is worked out when the first pod asks.
	taken func() structured.AllocatedState
	// named is which classes are meant by extended resources.
	named   func() map[corev1.ResourceName]string
	offered func() []*resourcev1.ResourceSlice
	// compiled has the selectors that were compiled; all views share it.
	compiled *cel.Cache
}

// Claim is a claim as it counts: what is decided counts already.
type Claim struct {
	*resourcev1.ResourceClaim
	// Pending says that devices are chosen for it, and not written yet.
	Pending bool
	// reach is which nodes reach its devices, nil for all; reachErr is why that is not to be known.
	reach    *nodeaffinity.NodeSelector
	reachErr error
}

func newClaim(c *resourcev1.ResourceClaim, pending bool) *Claim {
	claim := &Claim{ResourceClaim: c, Pending: pending}
	if a := c.Status.Allocation; a != nil && a.NodeSelector != nil {
		claim.reach, claim.reachErr = nodeaffinity.NewNodeSelector(a.NodeSelector)
	}
	return claim
}

// Reachable reports whether a node reaches the devices of an allocated claim.
func (c *Claim) Reachable(from *corev1.Node) bool {
	return c.reachErr == nil && (c.reach == nil || c.reach.Match(from))
}

// Claim returns a claim, nil where there is none.
func (v View) Claim(namespace, name string) *Claim { return v.claims.Get(table.Key(namespace, name)) }

// Class returns a device class, nil where there is none.
func (v View) Class(name string) *resourcev1.DeviceClass { return v.classes.Get(name) }

// With returns the view as it is once a choice counts.
func (v View) With(c *Choice) View {
	v = v.clone()
	for _, change := range c.Changes {
		v.claims.Set(table.Key(change.Claim.Namespace, change.Claim.Name), newClaim(change.after(), change.Allocation != nil))
	}
	v.taken = sync.OnceValue(v.take)
	return v
}

func (v View) clone() View {
	v.claims, v.classes, v.slices, v.rules = v.claims.Clone(), v.classes.Clone(), v.slices.Clone(), v.rules.Clone()
	return v
}

// take collects the devices that claims have.
func (v View) take() structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for c := range v.claims.All() {
		if c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			if r.AdminAccess != nil && *r.AdminAccess { // takes nothing from others
				continue
			}
			id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
			if r.ShareID == nil {
				state.AllocatedDevices.Insert(id)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
			if r.ConsumedCapacity != nil {
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
			}
		}
	}
	return state
}

// offer lists the slices, with the taints that rules add to their devices.
func (v View) offer() []*resourcev1.ResourceSlice {
	offered, rules := slices.Collect(v.slices.All()), slices.Collect(v.rules.All())
	if len(rules) > 0 {
		for i, s := range offered {
			offered[i] = devicetaint.Apply(s, rules)
		}
	}
	return offered
}

// classLister is the classes of a view, as the allocator asks for them.
type classLister struct{ view View }

// List implements structured.DeviceClassLister.
func (l classLister) List() ([]*resourcev1.DeviceClass, error) {
	return slices.Collect(l.view.classes.All()), nil
}

// Get implements structured.DeviceClassLister.
func (l classLister) Get(name string) (*resourcev1.DeviceClass, error) {
	if c := l.view.Class(name); c != nil {
		return c, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclasses"), name)
}

// Choice is what is decided for the claims of a pod with its placement.
type Choice struct {
	Pod     types.UID
	Changes []Change
	// Extended is what the pod's status is to say of its special claim; nil where it has none.
	Extended *corev1.PodExtendedResourceClaimStatus
}

// Change is what is to be written of a claim: who uses it, and, where it had no devices, which it gets. A draft is to be made first.
type Change struct {
	Claim      *resourcev1.ResourceClaim // as it was when it was decided
	Allocation *resourcev1.AllocationResult
	User       resourcev1.ResourceClaimConsumerReference
}

// after returns the claim as it is to be.
func (c Change) after() *resourcev1.ResourceClaim { return Apply(c.Claim, c.Allocation, c.User) }

// Apply returns a claim that has devices and is reserved for users. Devices that it has it keeps.
func Apply(claim *resourcev1.ResourceClaim, allocation *resourcev1.AllocationResult, users ...resourcev1.ResourceClaimConsumerReference) *resourcev1.ResourceClaim {
	claim = claim.DeepCopy()
	if allocation != nil && claim.Status.Allocation == nil {
		if !slices.Contains(claim.Finalizers, resourcev1.Finalizer) {
			claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
		}
		claim.Status.Allocation = allocation
	}
	for _, user := range users {
		if !ReservedFor(claim, user.UID) {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, user)
		}
	}
	return claim
}

// ReservedFor reports whether a claim is reserved for a pod.
func ReservedFor(claim *resourcev1.ResourceClaim, pod types.UID) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == pod })
}
