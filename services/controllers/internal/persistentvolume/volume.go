package persistentvolume

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	storage "k8s.io/component-helpers/storage/volume"
)

// VolumePlan is what comes next for a volume.
type VolumePlan struct {
	// Look says that it is to be decided again from what the API has now.
	Look bool
	// Phase is the volume's new one, "" where it stays as it is; Message goes with it.
	Phase   corev1.PersistentVolumePhase
	Message string
	// Delete says that whoever made the volume is to delete it, or that somebody should where the phase becomes Failed.
	Delete bool
	// Release says that the volume's claim has another one, so that it is free again.
	Release bool
	// Claim says that the claim is to be looked at: it can be bound.
	Claim bool
	// Event is told of the volume, ClaimEvent of the claim.
	Event, ClaimEvent *Event
}

// DecideVolume says what comes next for a volume. claim is the one of the name that it refers to, or nil; current says that it is as of now, and
// recycles that folders and NFS shares are wiped by somebody else.
func DecideVolume(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, current, recycles bool) VolumePlan {
	ref := v.Spec.ClaimRef
	if ref == nil || ref.UID == "" { // free, or reserved for a claim that has not come yet
		return phase(v, corev1.VolumeAvailable)
	}
	settled := v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed
	if claim == nil && !settled && !current || claim != nil && claim.UID != ref.UID && !current {
		return VolumePlan{Look: true}
	}
	switch {
	case claim == nil || claim.UID != ref.UID:
		return reclaim(v, recycles)
	case claim.Spec.VolumeName == v.Name:
		return phase(v, corev1.VolumeBound)
	case claim.Spec.VolumeName != "" && v.Annotations[storage.AnnDynamicallyProvisioned] != "" && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return reclaim(v, recycles) // it was made for this claim alone
	case claim.Spec.VolumeName != "":
		return VolumePlan{Release: true}
	case storage.CheckVolumeModeMismatches(&claim.Spec, &v.Spec):
		return VolumePlan{
			Event:      warning("VolumeMismatch", "Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.", claim.Name),
			ClaimEvent: warning("VolumeMismatch", "Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.", v.Name),
		}
	}
	return VolumePlan{Claim: true}
}

func phase(v *corev1.PersistentVolume, p corev1.PersistentVolumePhase) VolumePlan {
	if v.Status.Phase == p {
		return VolumePlan{}
	}
	return VolumePlan{Phase: p}
}

// reclaim is about a volume whose claim is gone. It is first released, for all to see; then its policy counts.
func reclaim(v *corev1.PersistentVolume, recycles bool) VolumePlan {
	if v.Status.Phase != corev1.VolumeReleased && v.Status.Phase != corev1.VolumeFailed {
		return VolumePlan{Phase: corev1.VolumeReleased}
	}
	if v.Status.Phase == corev1.VolumeFailed || v.Annotations[storage.AnnMigratedTo] != "" {
		return VolumePlan{}
	}
	failed := func(reason, message string) VolumePlan {
		return VolumePlan{Phase: corev1.VolumeFailed, Message: message, Event: warning(reason, "%s", message)}
	}
	switch v.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRetain:
		return VolumePlan{}
	case corev1.PersistentVolumeReclaimRecycle: // deprecated; here nothing wipes volumes
		if recycles && (v.Spec.HostPath != nil || v.Spec.NFS != nil) {
			return VolumePlan{}
		}
		return failed("VolumeFailedRecycle", "No recycler plugin found for the volume!")
	case corev1.PersistentVolumeReclaimDelete:
		if err := deletable(v); err != nil {
			plan := failed("VolumeFailedDelete", err.Error())
			plan.Delete = true
			return plan
		}
		return VolumePlan{Delete: true}
	}
	return failed("VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy")
}

// deletable says why nobody deletes a volume. Those of drivers and of provisioners are deleted by these.
func deletable(v *corev1.PersistentVolume) error {
	by := v.Annotations[storage.AnnDynamicallyProvisioned]
	switch {
	case by != "" && (!strings.HasPrefix(by, "kubernetes.io/") || migrated[by] != ""):
		return nil
	case by != "":
		return fmt.Errorf("no volume plugin matched name: %s", by)
	case v.Spec.CSI != nil:
		return nil
	case v.Spec.HostPath != nil && !strings.HasPrefix(v.Spec.HostPath.Path, "/tmp/"):
		return fmt.Errorf("host_path deleter only supports /tmp/.+ but received provided %s", v.Spec.HostPath.Path)
	case v.Spec.HostPath != nil:
		return errors.New("hostPath volumes that no provisioner made are not deleted: it is not known which node has them")
	case v.Spec.NFS != nil: // Kubernetes can wipe these, but not delete them
		return fmt.Errorf("error getting deleter volume plugin for volume %q: no deletable volume plugin matched", v.Name)
	}
	return fmt.Errorf("error getting deleter volume plugin for volume %q: no volume plugin matched", v.Name)
}

func quantity(text string) (resource.Quantity, error) {
	if text == "" {
		return resource.Quantity{}, errors.New("none")
	}
	return resource.ParseQuantity(text)
}
