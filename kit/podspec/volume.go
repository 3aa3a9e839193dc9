package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// validateVolumes checks the volumes and notes those that containers can mount.
func (s *scope) validateVolumes(meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range s.spec.Volumes {
		v, at := &s.spec.Volumes[i], path.Index(i)
		bad := validateSource(&v.VolumeSource, at)
		bad = append(bad, validateISCSIVolumeName(v, at)...)
		if v.Ephemeral != nil && meta != nil && meta.Name != "" && v.Name != "" {
			// The claim is named after both.
			claim := meta.Name + "-" + v.Name
			for _, m := range apivalidation.NameIsDNSSubdomain(claim, false) {
				bad = append(bad, field.Invalid(at.Child("name"), v.Name, fmt.Sprintf("PVC name %q: %v", claim, m)))
			}
		}
		switch {
		case v.Name == "":
			bad = append(bad, field.Required(at.Child("name"), ""))
		case s.volumes[v.Name] != nil:
			bad = append(bad, field.Duplicate(at.Child("name"), v.Name))
		default:
			bad = append(bad, check.Label(v.Name, at.Child("name"))...)
		}
		if len(bad) == 0 {
			s.volumes[v.Name] = v
		}
		errs = append(errs, bad...)
	}
	return errs
}

// alternatives collects the errors of a union: fields of which one is to be set.
type alternatives struct {
	path *field.Path
	n    int
	errs field.ErrorList
	// moreThanOne is the text about a second one.
	moreThanOne string
}

// when checks one field of the union if it is set.
func (a *alternatives) when(set bool, name string, validate func(*field.Path) field.ErrorList) {
	a.whenNamed(set, name, name, validate)
}

// whenNamed is when for a field that has another name where it is one too many.
func (a *alternatives) whenNamed(set bool, name, surplus string, validate func(*field.Path) field.ErrorList) {
	if !set {
		return
	}
	if a.n++; a.n > 1 {
		a.errs = append(a.errs, field.Forbidden(a.path.Child(surplus), a.moreThanOne))
		return
	}
	a.errs = append(a.errs, validate(a.path.Child(name))...)
}

// Source checks what a volume is made from: one type of volume, which is set.
func Source(v *corev1.VolumeSource, path *field.Path) field.ErrorList { return validateSource(v, path) }

func validateSource(v *corev1.VolumeSource, path *field.Path) field.ErrorList {
	a := &alternatives{path: path, moreThanOne: "may not specify more than 1 volume type"}
	// In the order in which Kubernetes looks at them, which decides what is one too many.
	validateNodeSources(v, a)
	validateGitRepo(v.GitRepo, a)
	a.when(v.GCEPersistentDisk != nil, "gcePersistentDisk", func(*field.Path) field.ErrorList {
		return validateGCE(v.GCEPersistentDisk, path.Child("persistentDisk"))
	})
	a.when(v.AWSElasticBlockStore != nil, "awsElasticBlockStore", func(at *field.Path) field.ErrorList {
		return append(need(at, "volumeID", v.AWSElasticBlockStore.VolumeID), validatePartition(v.AWSElasticBlockStore.Partition, at)...)
	})
	a.when(v.Secret != nil, "secret", func(at *field.Path) field.ErrorList {
		errs := need(at, "secretName", v.Secret.SecretName)
		errs = append(errs, validateMode(v.Secret.DefaultMode, at.Child("defaultMode"))...)
		return append(errs, validateItems(v.Secret.Items, at.Child("items"))...)
	})
	validateNetworkSources(v, a)
	a.when(v.Quobyte != nil, "quobyte", func(at *field.Path) field.ErrorList { return validateQuobyte(v.Quobyte, at) })
	// Kubernetes misspells the name where it is one too many.
	a.whenNamed(v.DownwardAPI != nil, "downwardAPI", "downwarAPI", func(at *field.Path) field.ErrorList {
		errs := validateMode(v.DownwardAPI.DefaultMode, at.Child("defaultMode"))
		return append(errs, validateDownward(v.DownwardAPI.Items, at)...)
	})
	a.when(v.FC != nil, "fc", func(at *field.Path) field.ErrorList { return validateFC(v.FC, at) })
	a.when(v.FlexVolume != nil, "flexVolume", func(at *field.Path) field.ErrorList { return validateFlex(v.FlexVolume, at) })
	a.when(v.ConfigMap != nil, "configMap", func(at *field.Path) field.ErrorList {
		errs := need(at, "name", v.ConfigMap.Name)
		errs = append(errs, validateMode(v.ConfigMap.DefaultMode, at.Child("defaultMode"))...)
		return append(errs, validateItems(v.ConfigMap.Items, at.Child("items"))...)
	})
	validateVendorSources(v, a)
	a.when(v.Projected != nil, "projected", func(at *field.Path) field.ErrorList { return validateProjected(v.Projected, at) })
	a.when(v.ScaleIO != nil, "scaleIO", func(at *field.Path) field.ErrorList {
		return need(at, "gateway", v.ScaleIO.Gateway, "system", v.ScaleIO.System, "volumeName", v.ScaleIO.VolumeName)
	})
	a.when(v.CSI != nil, "csi", func(at *field.Path) field.ErrorList { return validateCSI(v.CSI, at) })
	a.when(v.Ephemeral != nil, "ephemeral", func(at *field.Path) field.ErrorList { return validateEphemeral(v.Ephemeral, at) })
	a.when(v.Image != nil, "image", func(at *field.Path) field.ErrorList {
		return check.Choice(v.Image.PullPolicy, at.Child("pullPolicy"), corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	})
	if a.n == 0 {
		a.errs = append(a.errs, field.Required(path, "must specify a volume type"))
	}
	return a.errs
}

// validateNodeSources checks what a node has by itself.
func validateNodeSources(v *corev1.VolumeSource, a *alternatives) {
	a.when(v.EmptyDir != nil, "emptyDir", func(at *field.Path) field.ErrorList { return validateEmptyDir(v.EmptyDir, at) })
	a.when(v.HostPath != nil, "hostPath", func(at *field.Path) field.ErrorList { return validateHostPath(v.HostPath, at) })
}

// need wants texts that are not empty, given as name, value, name, value.
func need(path *field.Path, pairs ...string) field.ErrorList {
	var errs field.ErrorList
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			errs = append(errs, field.Required(path.Child(pairs[i]), ""))
		}
	}
	return errs
}

func validateEmptyDir(e *corev1.EmptyDirVolumeSource, path *field.Path) field.ErrorList {
	if e.SizeLimit != nil && e.SizeLimit.Sign() < 0 {
		return field.ErrorList{field.Forbidden(path.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity")}
	}
	return nil
}

func validateHostPath(h *corev1.HostPathVolumeSource, path *field.Path) field.ErrorList {
	if h.Path == "" {
		return field.ErrorList{field.Required(path.Child("path"), "")}
	}
	errs := check.NoBacksteps(h.Path, path.Child("path"))
	if h.Type == nil {
		return errs
	}
	return append(errs, check.OneOf(*h.Type, path.Child("type"), corev1.HostPathUnset, corev1.HostPathDirectoryOrCreate,
		corev1.HostPathDirectory, corev1.HostPathFileOrCreate, corev1.HostPathFile, corev1.HostPathSocket,
		corev1.HostPathCharDev, corev1.HostPathBlockDev)...)
}

func validateEphemeral(e *corev1.EphemeralVolumeSource, path *field.Path) field.ErrorList {
	at := path.Child("volumeClaimTemplate")
	if e.VolumeClaimTemplate == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	errs := validateClaimMeta(&e.VolumeClaimTemplate.ObjectMeta, at.Child("metadata"))
	return append(errs, ClaimSpec(&e.VolumeClaimTemplate.Spec, at.Child("spec"))...)
}

// validateClaimMeta lets a claim's template have labels and annotations, and nothing else.
func validateClaimMeta(m *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateAnnotations(m.Annotations, path.Child("annotations"))
	errs = append(errs, metavalidation.ValidateLabels(m.Labels, path.Child("labels"))...)
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"name", m.Name != ""}, {"generateName", m.GenerateName != ""}, {"namespace", m.Namespace != ""}, {"selfLink", m.SelfLink != ""},
		{"uID", m.UID != ""}, {"resourceVersion", m.ResourceVersion != ""}, {"generation", m.Generation != 0},
		{"creationTimestamp", !m.CreationTimestamp.IsZero()}, {"deletionTimestamp", m.DeletionTimestamp != nil},
		{"deletionGracePeriodSeconds", m.DeletionGracePeriodSeconds != nil}, {"ownerReferences", m.OwnerReferences != nil},
		{"finalizers", m.Finalizers != nil}, {"managedFields", m.ManagedFields != nil},
	} {
		if f.set {
			errs = append(errs, field.Forbidden(path.Child(f.name), "cannot be set"))
		}
	}
	return errs
}

const longestDriver = 63

func validateCSI(c *corev1.CSIVolumeSource, path *field.Path) field.ErrorList {
	at := path.Child("driver")
	var errs field.ErrorList
	if c.Driver == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		if len(c.Driver) > longestDriver {
			errs = append(errs, field.TooLong(at, c.Driver, longestDriver))
		}
		errs = append(errs, check.Each(apivalidation.NameIsDNSSubdomain(strings.ToLower(c.Driver), false), c.Driver, at)...)
	}
	switch r := c.NodePublishSecretRef; {
	case r == nil:
	case r.Name == "":
		errs = append(errs, field.Required(path.Child("nodePublishSecretRef", "name"), ""))
	default:
		errs = append(errs, check.Subdomain(r.Name, path.Child("name"))...)
	}
	return errs
}
