package objects

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/allocator"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/fieldmanager"
	"howdah.dev/services/apiserver/internal/itself"
	"howdah.dev/services/apiserver/internal/registry"
)

// AddressManager is the value of the label of an IPAddress that says who keeps it, of those that reserve a Service's address.
const AddressManager = "ipallocator.k8s.io"

// defaultRange is the name of the ServiceCIDR that the apiserver makes; it is used up first.
const defaultRange = "kubernetes"

// Addresses implements allocator.Addresses over the objects of the cluster.
type Addresses struct {
	Table  *registry.Table
	Cache  *cache.Cache
	Fields *fieldmanager.Managers
	Clock  clock.PassiveClock
}

// Prefix implements allocator.Addresses.
func (a *Addresses) Prefix() string { return a.resource("IPAddress").Kind.Key("", "") }

func (a *Addresses) resource(kind string) *registry.Resource {
	return a.Table.FindKind(networkingv1.SchemeGroupVersion.WithKind(kind))
}

// Encode implements allocator.Addresses.
func (a *Addresses) Encode(ctx context.Context, ip netip.Addr, owner allocator.Owner) ([]byte, error) {
	res := a.resource("IPAddress")
	obj := Address(ip, owner)
	obj.SetGroupVersionKind(res.GVK)
	obj.UID = uuid.NewUUID()
	obj.CreationTimestamp = metav1.Time{Time: a.Clock.Now().UTC().Truncate(time.Second)}
	manager, err := a.Fields.For(res, "")
	if err != nil {
		return nil, err
	}
	empty := res.Kind.New()
	empty.GetObjectKind().SetGroupVersionKind(res.GVK)
	manager.Create(empty, obj, itself.Name)
	return codec.Encode(ctx, res.Kind, obj)
}

// Address is the IPAddress that reserves an address for a Service.
func Address(ip netip.Addr, owner allocator.Owner) *networkingv1.IPAddress {
	family := "IPv4"
	if ip.Is6() {
		family = "IPv6"
	}
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip.String(), Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: family, networkingv1.LabelManagedBy: AddressManager,
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: owner.Namespace, Name: owner.Name}},
	}
}

// Ranges implements allocator.Addresses: those of the ServiceCIDRs that are ready and stay.
func (a *Addresses) Ranges() []netip.Prefix {
	var ready []*networkingv1.ServiceCIDR
	for _, item := range a.Cache.For(a.resource("ServiceCIDR").Kind).List(cache.Query{}).Items {
		obj, err := item.Object()
		if err != nil {
			continue
		}
		if c := obj.(*networkingv1.ServiceCIDR); gives(c) {
			ready = append(ready, c)
		}
	}
	slices.SortFunc(ready, func(x, y *networkingv1.ServiceCIDR) int {
		if d := cmp.Compare(isDefault(y), isDefault(x)); d != 0 {
			return d
		}
		return cmp.Compare(x.Name, y.Name)
	})
	var ranges []netip.Prefix
	for _, c := range ready {
		for _, text := range c.Spec.CIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				ranges = append(ranges, p.Masked())
			}
		}
	}
	return ranges
}

// gives reports whether addresses are taken from a range: it stays, and nobody says that it is not ready. One of which nothing is said yet is, so that a cluster
// without controllers has addresses.
func gives(c *networkingv1.ServiceCIDR) bool {
	ready := meta.FindStatusCondition(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	return c.DeletionTimestamp == nil && (ready == nil || ready.Status == metav1.ConditionTrue)
}

func isDefault(c *networkingv1.ServiceCIDR) int {
	if c.Name == defaultRange {
		return 1
	}
	return 0
}
