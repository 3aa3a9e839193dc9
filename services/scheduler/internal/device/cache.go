package device

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/cel"

	"howdah.dev/services/internal/devicetaint"
	"howdah.dev/services/scheduler/internal/table"
)

// Cache follows the claims and the devices of the cluster. What the scheduler has chosen counts from the moment of the choice.
type Cache struct {
	compiled *cel.Cache

	mu      sync.Mutex
	now     View
	shared  *View // what View returned last, while it is the newest
	pending map[string]*pending
}

// pending is what is decided of a claim and not written yet.
type pending struct {
	shown      *resourcev1.ResourceClaim // as the API has it
	allocation *resourcev1.AllocationResult
	by         types.UID // the pod for which it was chosen
	users      map[types.UID]resourcev1.ResourceClaimConsumerReference
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	c := &Cache{
		compiled: cel.NewCache(expressions, cel.Features{EnableConsumableCapacity: features.ConsumableCapacity}), pending: map[string]*pending{},
	}
	c.slicesChanged()
	c.classesChanged()
	return c
}

// View returns the devices of now.
func (c *Cache) View() View {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shared == nil {
		v := c.now.clone()
		v.taken, v.compiled = sync.OnceValue(v.take), c.compiled
		c.shared = &v
	}
	return *c.shared
}

// change changes the devices of now.
func (c *Cache) change(do func(v *View)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared = nil
	do(&c.now)
}

// SetClass adds or replaces a device class.
func (c *Cache) SetClass(class *resourcev1.DeviceClass) {
	c.change(func(v *View) {
		v.classes.Set(class.Name, class)
		c.classesChanged()
	})
}

// DeleteClass removes a device class.
func (c *Cache) DeleteClass(name string) {
	c.change(func(v *View) {
		v.classes.Delete(name)
		c.classesChanged()
	})
}

// classesChanged has what classes are meant by extended resources worked out anew when it is asked for.
func (c *Cache) classesChanged() {
	v := c.now.clone()
	c.now.named = sync.OnceValue(v.meanings)
}

// SetSlice adds or replaces a slice of devices.
func (c *Cache) SetSlice(s *resourcev1.ResourceSlice) {
	c.change(func(v *View) {
		v.slices.Set(s.Name, s)
		c.slicesChanged()
	})
}

// DeleteSlice removes a slice of devices.
func (c *Cache) DeleteSlice(name string) {
	c.change(func(v *View) {
		v.slices.Delete(name)
		c.slicesChanged()
	})
}

// SetRule adds or replaces a rule that taints devices.
func (c *Cache) SetRule(r *devicetaint.Rule) {
	c.change(func(v *View) {
		v.rules.Set(r.Name, r)
		c.slicesChanged()
	})
}

// DeleteRule removes a rule that taints devices.
func (c *Cache) DeleteRule(name string) {
	c.change(func(v *View) {
		v.rules.Delete(name)
		c.slicesChanged()
	})
}

// slicesChanged has the list of slices made anew when it is asked for.
func (c *Cache) slicesChanged() {
	v := c.now.clone()
	c.now.offered = sync.OnceValue(v.offer)
}

// SetClaim adds or replaces a claim. One that is older than what is known of it changes nothing.
func (c *Cache) SetClaim(claim *resourcev1.ResourceClaim) {
	k := table.Key(claim.Namespace, claim.Name)
	c.change(func(v *View) { c.show(v, k, claim) })
}

func (c *Cache) show(v *View, k string, claim *resourcev1.ResourceClaim) {
	known := v.claims.Get(k)
	if known != nil && known.UID == claim.UID && revision(known) > revision(claim) {
		return
	}
	p := c.pending[k]
	if p != nil && p.shown.UID != claim.UID && !(Draft(p.shown) && Adopt(p.shown, claim) == nil) {
		delete(c.pending, k)
		p = nil
	}
	if p != nil {
		p.shown = claim
	}
	c.put(v, k, claim)
}

// put has a claim count as the API shows it and with what is pending.
func (c *Cache) put(v *View, k string, claim *resourcev1.ResourceClaim) {
	p := c.pending[k]
	switch {
	case p == nil && Draft(claim): // it was not made
		v.claims.Delete(k)
		return
	case p == nil:
		v.claims.Set(k, newClaim(claim, false))
		return
	}
	users := slices.SortedFunc(maps.Values(p.users), func(a, b resourcev1.ResourceClaimConsumerReference) int {
		if a.UID < b.UID {
			return -1
		}
		return 1
	})
	v.claims.Set(k, newClaim(Apply(claim, p.allocation, users...), p.allocation != nil && claim.Status.Allocation == nil))
}

// DeleteClaim removes a claim. One that was decided on or made meanwhile under its name stays.
func (c *Cache) DeleteClaim(claim *resourcev1.ResourceClaim) {
	k := table.Key(claim.Namespace, claim.Name)
	c.change(func(v *View) {
		if known := c.shown(k); known != nil && known.UID != claim.UID {
			return
		}
		delete(c.pending, k)
		v.claims.Delete(k)
	})
}

// Assume has a choice count. It reports false, and nothing counts, where a claim has changed so that it cannot.
func (c *Cache) Assume(choice *Choice) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, change := range choice.Changes {
		now := c.now.Claim(change.Claim.Namespace, change.Claim.Name)
		if Draft(change.Claim) && now != nil || !Draft(change.Claim) && !fits(now, change) {
			return false
		}
	}
	c.shared = nil
	for _, change := range choice.Changes {
		k := table.Key(change.Claim.Namespace, change.Claim.Name)
		p := c.pending[k]
		if p == nil {
			p = &pending{shown: c.shown(k), users: map[types.UID]resourcev1.ResourceClaimConsumerReference{}}
			if p.shown == nil {
				p.shown = change.Claim // the draft
			}
			c.pending[k] = p
		}
		if change.Allocation != nil {
			p.allocation, p.by = change.Allocation, choice.Pod
		}
		p.users[choice.Pod] = change.User
		c.put(&c.now, k, p.shown)
	}
	return true
}

// fits reports whether a change can still be made of a claim.
func fits(now *Claim, change Change) bool {
	if now == nil || now.Pending {
		return false
	}
	return change.Possible(now.ResourceClaim) == nil
}

// Wrote has what was written of a claim for pods count, until the API shows something newer.
func (c *Cache) Wrote(written *resourcev1.ResourceClaim, pods ...types.UID) {
	k := table.Key(written.Namespace, written.Name)
	c.change(func(v *View) {
		known := c.shown(k)
		if known == nil || known.UID != written.UID && !Draft(known) { // gone meanwhile
			return
		}
		if revision(known) > revision(written) { // a draft has none
			written = known
		}
		for _, pod := range pods {
			c.drop(k, pod)
		}
		if p := c.pending[k]; p != nil {
			p.shown = written
		}
		c.put(v, k, written)
	})
}

// Shown returns a claim as the API has it, nil where there is none.
func (c *Cache) Shown(namespace, name string) *resourcev1.ResourceClaim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown(table.Key(namespace, name))
}

func (c *Cache) shown(k string) *resourcev1.ResourceClaim {
	if p := c.pending[k]; p != nil {
		return p.shown
	}
	if known := c.now.claims.Get(k); known != nil {
		return known.ResourceClaim
	}
	return nil
}

// drop ends what is pending of a claim for a pod.
func (c *Cache) drop(k string, pod types.UID) {
	p := c.pending[k]
	if p == nil {
		return
	}
	delete(p.users, pod)
	if p.by == pod {
		p.allocation, p.by = nil, ""
	}
	if len(p.users) == 0 {
		delete(c.pending, k)
	}
}

// Forget takes back what of a choice is not written.
func (c *Cache) Forget(choice *Choice) {
	if choice == nil {
		return
	}
	c.change(func(v *View) {
		for _, change := range choice.Changes {
			k := table.Key(change.Claim.Namespace, change.Claim.Name)
			p := c.pending[k]
			if p == nil {
				continue
			}
			if _, ok := p.users[choice.Pod]; !ok {
				continue
			}
			c.drop(k, choice.Pod)
			c.put(v, k, p.shown)
		}
	})
}

// revision is an object's version as a number, which howdah's are.
func revision(object metav1.Object) int64 {
	n, err := strconv.ParseInt(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
