// Package persistentvolume binds claims to volumes: it finds a volume for each claim, or asks a provisioner for one, and says what becomes of
// volumes whose claims are gone.
//
// A binding is two references, spec.claimRef of the volume and spec.volumeName of the claim. The volume's is written first, with the
// resourceVersion that was seen, so that of any number of claims one gets it; whatever ends between the writes, the next reconcile of either
// object finishes what the references say.
package persistentvolume

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storage "k8s.io/component-helpers/storage/volume"
)

// Event is what people are told of a claim or a volume.
type Event struct{ Type, Reason, Message string }

func normal(reason, format string, args ...any) *Event {
	return &Event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
}

func warning(reason, format string, args ...any) *Event {
	return &Event{corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...)}
}

// Situation is a claim and what it has to do with.
type Situation struct {
	Claim *corev1.PersistentVolumeClaim
	// Class is the claim's, nil where it names none or one that there is not. Default is the class of claims that name none, or nil.
	Class, Default *storagev1.StorageClass
	// Volume is the one that the claim names, or nil.
	Volume *corev1.PersistentVolume
	// Candidates are volumes that may suit: at least those of the claim's class, and those that are reserved for it.
	Candidates []*corev1.PersistentVolume
	// Waiting are the names of pods without a node that use the claim.
	Waiting []string
	// Current says that claim and volume are as of now, and not from a cache that may be behind.
	Current bool
}

// ClaimPlan is what comes next for a claim.
type ClaimPlan struct {
	// Look says that it is to be decided again from what the API has now: the decision would be hard to take back.
	Look bool
	// Bind is the volume that claim is to be bound to; all of it is written that is missing.
	Bind *corev1.PersistentVolume
	// Claim is the claim's new specification or metadata. By default a class, it is asked about again; otherwise a provisioner's turn comes.
	Claim *corev1.PersistentVolumeClaim
	// Provisioner is who is asked for a volume, "" where nobody is.
	Provisioner string
	// Phase is the claim's new one, "" where it stays as it is. It comes without a volume, so the claim's capacity and access modes go.
	Phase corev1.PersistentVolumeClaimPhase
	// Event is told after the writes.
	Event *Event
	// Again says that it is to be looked at again in a while, though nothing may have changed: what was told is told again.
	Again bool
}

// DecideClaim says what comes next for a claim.
func DecideClaim(s Situation) ClaimPlan {
	if metav1.HasAnnotation(s.Claim.ObjectMeta, storage.AnnBindCompleted) {
		return decideBound(s)
	}
	if s.Claim.Spec.VolumeName != "" {
		return decideNamed(s)
	}
	delayed := waitsForConsumer(s.Class)
	volume, err := Match(s.Claim, s.Candidates, delayed)
	switch {
	case err != nil: // a selector that says nothing; the API lets none in
		return ClaimPlan{Phase: corev1.ClaimPending, Event: warning("FailedBinding", "%v", err)}
	case volume != nil:
		return ClaimPlan{Bind: volume}
	case s.Default != nil && !storage.PersistentVolumeClaimHasClass(s.Claim):
		claim := s.Claim.DeepCopy()
		claim.Spec.StorageClassName = &s.Default.Name
		return ClaimPlan{Claim: claim}
	case delayed && !storage.IsDelayBindingProvisioning(s.Claim):
		return ClaimPlan{Phase: corev1.ClaimPending, Event: waiting(s.Waiting), Again: true}
	case storage.GetPersistentVolumeClaimClass(s.Claim) != "":
		return provision(s)
	}
	return ClaimPlan{
		Phase: corev1.ClaimPending, Again: true,
		Event: normal("FailedBinding", "no persistent volumes available for this claim and no storage class is set"),
	}
}

// waitsForConsumer says whether the scheduler chooses the volumes of a class, for a pod that uses the claim.
func waitsForConsumer(class *storagev1.StorageClass) bool {
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// waiting says what a claim waits for whose volume the scheduler chooses.
func waiting(pods []string) *Event {
	switch len(pods) {
	case 0:
		return normal("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
	case 1:
		return normal("WaitForPodScheduled", "waiting for pod %s to be scheduled", pods[0])
	}
	return normal("WaitForPodScheduled", "waiting for pods %s to be scheduled", strings.Join(pods, ","))
}

// migrated are the provisioners that Kubernetes once had built in, and the drivers that have taken over.
var migrated = map[string]string{
	"kubernetes.io/aws-ebs":         "ebs.csi.aws.com",
	"kubernetes.io/azure-disk":      "disk.csi.azure.com",
	"kubernetes.io/azure-file":      "file.csi.azure.com",
	"kubernetes.io/cinder":          "cinder.csi.openstack.org",
	"kubernetes.io/gce-pd":          "pd.csi.storage.gke.io",
	"kubernetes.io/portworx-volume": "pxd.portworx.com",
	"kubernetes.io/vsphere-volume":  "csi.vsphere.vmware.com",
}

// provision asks the provisioner of the claim's class for a volume: its name in the annotations is what it waits for.
func provision(s Situation) ClaimPlan {
	if s.Class == nil {
		return ClaimPlan{Again: true, Event: warning("ProvisioningFailed", "storageclass.storage.k8s.io %q not found", storage.GetPersistentVolumeClaimClass(s.Claim))}
	}
	name := s.Class.Provisioner
	if driver := migrated[name]; driver != "" {
		name = driver
	} else if strings.HasPrefix(name, "kubernetes.io/") {
		return ClaimPlan{Again: true, Event: warning("ProvisioningFailed", "no volume plugin matched name: %s", name)}
	}
	plan := ClaimPlan{Again: true, Provisioner: name, Event: normal("ExternalProvisioning", "Waiting for a volume to be created either by the external provisioner '%s' or manually "+
		"by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.", name)}
	if s.Claim.Annotations[storage.AnnStorageProvisioner] != name {
		plan.Claim = s.Claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&plan.Claim.ObjectMeta, storage.AnnBetaStorageProvisioner, name)
		metav1.SetMetaDataAnnotation(&plan.Claim.ObjectMeta, storage.AnnStorageProvisioner, name)
	}
	return plan
}

// decideNamed is about a claim that asks for one volume, and has never had it.
func decideNamed(s Situation) ClaimPlan {
	switch v := s.Volume; {
	case v == nil:
		return ClaimPlan{Phase: corev1.ClaimPending}
	case v.Spec.ClaimRef == nil:
		if why := mismatch(v, s.Claim); why != "" {
			return ClaimPlan{Phase: corev1.ClaimPending, Again: true, Event: warning("VolumeMismatch", "Cannot bind to requested volume %q: %s", v.Name, why)}
		}
		return ClaimPlan{Bind: v}
	case storage.IsVolumeBoundToClaim(v, s.Claim):
		return ClaimPlan{Bind: v}
	}
	plan := ClaimPlan{Again: true, Event: warning("FailedBinding", "volume %q already bound to a different claim.", s.Volume.Name)}
	if !metav1.HasAnnotation(s.Claim.ObjectMeta, storage.AnnBoundByController) {
		plan.Phase = corev1.ClaimPending
	}
	return plan
}

// decideBound is about a claim that has been bound before.
func decideBound(s Situation) ClaimPlan {
	lost := func(reason, message string) ClaimPlan {
		switch {
		case s.Claim.Status.Phase == corev1.ClaimLost:
			return ClaimPlan{}
		case !s.Current:
			return ClaimPlan{Look: true}
		}
		return ClaimPlan{Phase: corev1.ClaimLost, Event: warning(reason, "%s", message)}
	}
	switch v := s.Volume; {
	case s.Claim.Spec.VolumeName == "":
		return lost("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	case v == nil:
		return lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == s.Claim.UID:
		return ClaimPlan{Bind: v}
	}
	return lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
}

// mismatch says why a claim cannot have the volume that it asks for, "" where it can.
func mismatch(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) string {
	size, wanted := v.Spec.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case v.DeletionTimestamp != nil:
		return fmt.Sprintf("the volume is marked for deletion %q", v.Name)
	case size.Value() < wanted.Value():
		return "requested PV is too small"
	case storage.GetPersistentVolumeClass(v) != storage.GetPersistentVolumeClaimClass(claim):
		return "storageClassName does not match"
	case deref(v.Spec.VolumeAttributesClassName) != deref(claim.Spec.VolumeAttributesClassName):
		return "volumeAttributesClassName does not match"
	case storage.CheckVolumeModeMismatches(&claim.Spec, &v.Spec):
		return "incompatible volumeMode"
	case !storage.CheckAccessModes(claim, v):
		return "incompatible accessMode"
	}
	return ""
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Match returns the volume that suits the claim best, or nil: one that is reserved for it, or else, unless the scheduler is to choose, the smallest
// among those with the fewest access modes beyond what it asks for.
func Match(claim *corev1.PersistentVolumeClaim, volumes []*corev1.PersistentVolume, delayed bool) (*corev1.PersistentVolume, error) {
	suits := slices.DeleteFunc(slices.Clone(volumes), func(v *corev1.PersistentVolume) bool { return !storage.CheckAccessModes(claim, v) })
	slices.SortFunc(suits, func(a, b *corev1.PersistentVolume) int {
		if d := len(a.Spec.AccessModes) - len(b.Spec.AccessModes); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	for len(suits) > 0 {
		n := 1
		for n < len(suits) && len(suits[n].Spec.AccessModes) == len(suits[0].Spec.AccessModes) {
			n++
		}
		volume, err := storage.FindMatchingVolume(claim, suits[:n], nil, nil, delayed, true)
		if volume != nil || err != nil {
			return volume, err
		}
		suits = suits[n:]
	}
	return nil, nil
}

// DefaultClass returns the class of claims that name none: of several the one that was made last.
func DefaultClass(classes []*storagev1.StorageClass) *storagev1.StorageClass {
	var best *storagev1.StorageClass
	for _, c := range classes {
		if c.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" && c.Annotations["storageclass.beta.kubernetes.io/is-default-class"] != "true" {
			continue
		}
		if best == nil || best.CreationTimestamp.Before(&c.CreationTimestamp) ||
			best.CreationTimestamp.Equal(&c.CreationTimestamp) && c.Name < best.Name {
			best = c
		}
	}
	return best
}
