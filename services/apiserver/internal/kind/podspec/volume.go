package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/check"
)

// validateVolumes checks the volumes and notes those that containers can mount.
func (s *scope) validateVolumes(meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range s.spec.Volumes {
		v, at := &s.spec.Volumes[i], path.Index(i)
		bad := validateSource(&v.VolumeSource, at)
		switch {
		case v.Name == "":
			bad = append(bad, field.Required(at.Child("name"), ""))
		case s.volumes[v.Name] != nil:
			bad = append(bad, field.Duplicate(at.Child("name"), v.Name))
		default:
			bad = append(bad, check.Label(v.Name, at.Child("name"))...)
		}
		if v.Ephemeral != nil && meta.Name != "" {
			// The claim is named after both.
			claim := meta.Name + "-" + v.Name
			for _, m := range apivalidation.NameIsDNSSubdomain(claim, false) {
				bad = append(bad, field.Invalid(at.Child("name"), v.Name, fmt.Sprintf("PVC name %q: %v", claim, m)))
			}
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
	if !set {
		return
	}
	at := a.path.Child(name)
	if a.n++; a.n > 1 {
		a.errs = append(a.errs, field.Forbidden(at, a.moreThanOne))
		return
	}
	a.errs = append(a.errs, validate(at)...)
}

// Source checks what a volume is made from: one type of volume, which is set.
func Source(v *corev1.VolumeSource, path *field.Path) field.ErrorList { return validateSource(v, path) }

func validateSource(v *corev1.VolumeSource, path *field.Path) field.ErrorList {
	a := &alternatives{path: path, moreThanOne: "may not specify more than 1 volume type"}
	a.when(v.EmptyDir != nil, "emptyDir", func(at *field.Path) field.ErrorList { return validateEmptyDir(v.EmptyDir, at) })
	a.when(v.HostPath != nil, "hostPath", func(at *field.Path) field.ErrorList { return validateHostPath(v.HostPath, at) })
	a.when(v.Secret != nil, "secret", func(at *field.Path) field.ErrorList {
		errs := need(at, "secretName", v.Secret.SecretName)
		errs = append(errs, validateMode(v.Secret.DefaultMode, at.Child("defaultMode"))...)
		return append(errs, validateItems(v.Secret.Items, at.Child("items"))...)
	})
	a.when(v.ConfigMap != nil, "configMap", func(at *field.Path) field.ErrorList {
		errs := need(at, "name", v.ConfigMap.Name)
		errs = append(errs, validateMode(v.ConfigMap.DefaultMode, at.Child("defaultMode"))...)
		return append(errs, validateItems(v.ConfigMap.Items, at.Child("items"))...)
	})
	a.when(v.DownwardAPI != nil, "downwardAPI", func(at *field.Path) field.ErrorList {
		errs := validateMode(v.DownwardAPI.DefaultMode, at.Child("defaultMode"))
		return append(errs, validateDownward(v.DownwardAPI.Items, at.Child("items"))...)
	})
	a.when(v.Projected != nil, "projected", func(at *field.Path) field.ErrorList { return validateProjected(v.Projected, at) })
	a.when(v.PersistentVolumeClaim != nil, "persistentVolumeClaim", func(at *field.Path) field.ErrorList {
		return need(at, "claimName", v.PersistentVolumeClaim.ClaimName)
	})
	a.when(v.Ephemeral != nil, "ephemeral", func(at *field.Path) field.ErrorList { return validateEphemeral(v.Ephemeral, at) })
	a.when(v.CSI != nil, "csi", func(at *field.Path) field.ErrorList { return validateCSI(v.CSI, at) })
	a.when(v.Image != nil, "image", func(at *field.Path) field.ErrorList {
		errs := need(at, "reference", v.Image.Reference)
		return append(errs, check.Choice(v.Image.PullPolicy, at.Child("pullPolicy"), corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	})
	validateNetworkSources(v, a)
	validateVendorSources(v, a)
	if a.n == 0 {
		a.errs = append(a.errs, field.Required(path, "must specify a volume type"))
	}
	return a.errs
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
	return ClaimSpec(&e.VolumeClaimTemplate.Spec, at.Child("spec"))
}

const longestDriver = 63

func validateCSI(c *corev1.CSIVolumeSource, path *field.Path) field.ErrorList {
	at := path.Child("driver")
	if c.Driver == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	if len(c.Driver) > longestDriver {
		errs = append(errs, field.TooLong(at, c.Driver, longestDriver))
	}
	errs = append(errs, check.Each(apivalidation.NameIsDNSSubdomain(strings.ToLower(c.Driver), false), c.Driver, at)...)
	if r := c.NodePublishSecretRef; r != nil && r.Name == "" {
		errs = append(errs, field.Required(path.Child("nodePublishSecretRef", "name"), ""))
	}
	return errs
}
