package csi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

// claimed is the size that the claim's status says, "" without one.
func (w *Want) claimed() string {
	if w.Claim == nil {
		return ""
	}
	has, ok := w.Claim.Status.Capacity[corev1.ResourceStorage]
	if !ok {
		return ""
	}
	return has.String()
}

// growth is what there is to do on a node about a volume that has become larger.
type growth struct {
	size resource.Quantity // that it is to have
	told bool              // the claim says so already, since another node that has the volume was first
}

// growth returns nil where a persistent volume has its size, by its claim's status and by what this node knows of it, or where that is not the node's to see to.
func (w *Want) growth(here Data) *growth {
	if w.Claim == nil || w.ReadOnly || !nodesTurn(w.Claim) {
		return nil
	}
	size, has := w.PV.Spec.Capacity[corev1.ResourceStorage], w.Claim.Status.Capacity[corev1.ResourceStorage]
	if size.Cmp(has) > 0 {
		return &growth{size: size}
	}
	if known, err := resource.ParseQuantity(here.Size); err == nil && size.Cmp(known) > 0 && everyNodes(w.Claim) {
		return &growth{size: size, told: true}
	}
	return nil
}

// notForNodes is the annotation by which whoever has made a volume larger says that no node has anything to do about it.
const notForNodes = "volume.kubernetes.io/node-expansion-not-required"

// everyNodes reports whether each node that has a volume sees to its size: several may have it at once. Of others the one node that has it did, or nobody has to.
func everyNodes(claim *corev1.PersistentVolumeClaim) bool {
	return slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany) && !metav1.HasAnnotation(claim.ObjectMeta, notForNodes)
}

// growth is what there is to do about a volume while a pod has it, nil for nothing.
func (v *Volumes) growth(w *Want) *growth {
	if w.PV == nil {
		return nil
	}
	here, _ := read(v.paths.staged(w).record) // of what cannot be read nothing is known
	g := w.growth(here)
	if g == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if refused, ok := v.inUse[object.AttachableName(w.Driver(), w.handle())]; ok && refused.Cmp(g.size) == 0 {
		return nil
	}
	return g
}

// nodesTurn reports whether the claim's status leaves it to the node to make the volume larger. Where it says nothing the controller is of a
// release that knows no such status. One that the node has found infeasible waits until the claim asks for another size.
func nodesTurn(claim *corev1.PersistentVolumeClaim) bool {
	switch claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] {
	case "", corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress:
		return true
	}
	return false
}

// grow has the driver make the file system, or the device, as large as the volume has become, and tells in the claim's status how that goes.
func (c *calls) grow(ctx context.Context) error {
	if c.w.PV == nil { // a pod's own volume has the size that it was made with
		return nil
	}
	at := c.v.paths.staged(c.w).record
	here, err := read(at)
	if err != nil {
		return err
	}
	g := c.w.growth(here)
	if g == nil {
		return nil
	}
	expands, err := c.driver.capable(ctx, csipb.NodeServiceCapability_RPC_EXPAND_VOLUME)
	switch {
	case err != nil:
		return err
	case expands:
		if done, err := c.expand(ctx, g); !done || err != nil {
			return err
		}
	case g.told || !resizing(c.w.Claim): // nobody waits for the node
		return nil
	}
	here.Size = g.size.String()
	if err := here.write(at); err != nil {
		return err
	}
	if err := c.tellGrown(ctx, g); err != nil {
		return err
	}
	message := fmt.Sprintf("MountVolume.NodeExpandVolume succeeded for volume %q %s", c.w.PV.Name, c.v.cfg.NodeName)
	c.v.cfg.Event(c.w.Pod, corev1.EventTypeNormal, "FileSystemResizeSuccessful", message)
	c.v.cfg.ClaimGrown(c.w.Claim, message)
	return nil
}

// tellGrown says in the claim's status that the volume is larger; what it says already needs no more than the trouble taken away that this node had.
func (c *calls) tellGrown(ctx context.Context, g *growth) error {
	if !g.told {
		return c.tellClaim(ctx, func(claim *corev1.PersistentVolumeClaim) { markGrown(claim, g.size) })
	}
	if !slices.ContainsFunc(c.w.Claim.Status.Conditions, refusal) {
		return nil
	}
	return c.tellClaim(ctx, func(claim *corev1.PersistentVolumeClaim) {
		claim.Status.Conditions = slices.DeleteFunc(claim.Status.Conditions, refusal)
	})
}

func refusal(c corev1.PersistentVolumeClaimCondition) bool {
	return c.Type == corev1.PersistentVolumeClaimNodeResizeError
}

// expand calls the driver. It reports false, and no error, where the driver does not do it while the volume is in use: then it stays as it is until a pod
// mounts it anew. So it does where it can never be what the claim says it is.
func (c *calls) expand(ctx context.Context, g *growth) (done bool, _ error) {
	namespace, name := named(c.w.PV.Spec.CSI.NodeExpandSecretRef)
	secrets, err := c.v.secret(ctx, namespace, name)
	if err != nil {
		return false, err
	}
	if c.w.Claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] == corev1.PersistentVolumeClaimNodeResizePending {
		if err := c.tellClaim(ctx, markGrowing); err != nil {
			return false, err
		}
	}
	_, err = c.driver.node.NodeExpandVolume(ctx, &csipb.NodeExpandVolumeRequest{
		VolumeId: c.w.handle(), VolumePath: c.at.target, StagingTargetPath: c.staging, VolumeCapability: c.capability,
		CapacityRange: &csipb.CapacityRange{RequiredBytes: g.size.Value()}, Secrets: secrets,
	})
	if err == nil {
		return true, nil
	}
	if final(err) {
		now := c.v.cfg.Clock.Now()
		if untold := c.tellClaim(ctx, func(claim *corev1.PersistentVolumeClaim) { markRefused(claim, g.size, err, now) }); untold != nil {
			return false, errors.Join(err, untold)
		}
	}
	if status.Code(err) == codes.FailedPrecondition || g.told && infeasible(err) {
		c.v.mu.Lock()
		defer c.v.mu.Unlock()
		c.v.inUse[object.AttachableName(c.w.Driver(), c.w.handle())] = g.size
		return false, nil
	}
	return false, err
}

// tellClaim changes the claim's status, and what is known of it here.
func (c *calls) tellClaim(ctx context.Context, change func(*corev1.PersistentVolumeClaim)) error {
	claim, err := c.v.cfg.Objects.ChangeClaim(ctx, c.w.Claim, change)
	if err != nil {
		return fmt.Errorf("write the status of claim %q: %w", c.w.Claim.Name, err)
	}
	c.w.Claim = claim
	return nil
}

// final reports whether a driver has said that it did not do something, and not only failed to say that it did.
func final(err error) bool {
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false
	}
	return true
}

// infeasible reports whether a driver says that it never can.
func infeasible(err error) bool {
	return slices.Contains([]codes.Code{codes.InvalidArgument, codes.OutOfRange, codes.NotFound}, status.Code(err))
}

// resizing reports whether a claim waits for its node.
func resizing(claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimFileSystemResizePending && c.Status == corev1.ConditionTrue
	})
}

func markGrowing(claim *corev1.PersistentVolumeClaim) {
	if claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] == corev1.PersistentVolumeClaimNodeResizePending {
		claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] = corev1.PersistentVolumeClaimNodeResizeInProgress
	}
}

// markRefused says that a volume could not be made as large as size. It is infeasible where the driver says so, and where it has failed before and the claim
// asks for another size meanwhile: then the controller may go on with that.
func markRefused(claim *corev1.PersistentVolumeClaim, size resource.Quantity, why error, now time.Time) {
	i := slices.IndexFunc(claim.Status.Conditions, refusal)
	again := i >= 0 && claim.Status.Conditions[i].Status == corev1.ConditionTrue
	asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] != "" && (infeasible(why) || again && asked.Cmp(size) != 0) {
		claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] = corev1.PersistentVolumeClaimNodeResizeInfeasible
	}
	told := corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimNodeResizeError, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
		Message: fmt.Sprintf("failed to expand pvc with %v", why),
	}
	if i < 0 {
		claim.Status.Conditions = append(claim.Status.Conditions, told)
		return
	}
	if again {
		told.LastTransitionTime = claim.Status.Conditions[i].LastTransitionTime
	}
	claim.Status.Conditions[i] = told
}

// markGrown says that a volume has a size at last, and that nobody waits any more.
func markGrown(claim *corev1.PersistentVolumeClaim, size resource.Quantity) {
	if claim.Status.Capacity == nil {
		claim.Status.Capacity = corev1.ResourceList{}
	}
	claim.Status.Capacity[corev1.ResourceStorage] = size
	claim.Status.Conditions = slices.DeleteFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		switch c.Type {
		case corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
			corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
			return true
		}
		return false
	})
	delete(claim.Status.AllocatedResourceStatuses, corev1.ResourceStorage)
}
