package device

import (
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"howdah.dev/services/scheduler/internal/table"
)

// Possible returns an error where a change cannot be made any more of what a claim is now.
func (c Change) Possible(now *resourcev1.ResourceClaim) error {
	k := table.Key(now.Namespace, now.Name)
	switch {
	case now.UID != c.Claim.UID || now.DeletionTimestamp != nil:
		return fmt.Errorf("claim %s got deleted in the meantime", k)
	case c.Allocation != nil && now.Status.Allocation != nil:
		return fmt.Errorf("claim %s got allocated elsewhere in the meantime", k)
	case c.Allocation == nil && now.Status.Allocation == nil:
		return fmt.Errorf("claim %s got deallocated elsewhere in the meantime", k)
	case c.Allocation == nil && !equality.Semantic.DeepEqual(now.Status.Allocation, c.Claim.Status.Allocation):
		return fmt.Errorf("claim %s got allocated elsewhere in the meantime", k)
	case !ReservedFor(now, c.User.UID) && len(now.Status.ReservedFor) >= resourcev1.ResourceClaimReservedForMaxSize:
		return fmt.Errorf("claim %s is in use by as many pods as it can be", k)
	}
	return nil
}
