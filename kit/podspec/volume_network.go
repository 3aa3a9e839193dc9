package podspec

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

func validateGitRepo(g *corev1.GitRepoVolumeSource, a *alternatives) {
	a.when(g != nil, "gitRepo", func(at *field.Path) field.ErrorList {
		errs := need(at, "repository", g.Repository)
		return append(errs, check.RelativePath(g.Directory, at.Child("directory"))...)
	})
}

// validateNetworkSources checks the volumes that any node can reach over a
// network protocol.
func validateNetworkSources(v *corev1.VolumeSource, a *alternatives) {
	a.when(v.NFS != nil, "nfs", func(at *field.Path) field.ErrorList {
		errs := need(at, "server", v.NFS.Server, "path", v.NFS.Path)
		if !strings.HasPrefix(v.NFS.Path, "/") {
			errs = append(errs, field.Invalid(at.Child("path"), v.NFS.Path, "must be an absolute path"))
		}
		return errs
	})
	a.when(v.ISCSI != nil, "iscsi", func(at *field.Path) field.ErrorList { return validateISCSI(v.ISCSI, at) })
	a.when(v.Glusterfs != nil, "glusterfs", func(at *field.Path) field.ErrorList {
		return need(at, "endpoints", v.Glusterfs.EndpointsName, "path", v.Glusterfs.Path)
	})
	a.when(v.Flocker != nil, "flocker", func(at *field.Path) field.ErrorList { return validateFlocker(v.Flocker, at) })
	a.when(v.PersistentVolumeClaim != nil, "persistentVolumeClaim", func(at *field.Path) field.ErrorList {
		return need(at, "claimName", v.PersistentVolumeClaim.ClaimName)
	})
	a.when(v.RBD != nil, "rbd", func(at *field.Path) field.ErrorList {
		return append(needList(at, "monitors", v.RBD.CephMonitors), need(at, "image", v.RBD.RBDImage)...)
	})
	a.when(v.Cinder != nil, "cinder", func(at *field.Path) field.ErrorList {
		errs := need(at, "volumeID", v.Cinder.VolumeID)
		if r := v.Cinder.SecretRef; r != nil {
			errs = append(errs, need(at.Child("secretRef"), "name", r.Name)...)
		}
		return errs
	})
	a.whenNamed(v.CephFS != nil, "cephfs", "cephFS", func(at *field.Path) field.ErrorList {
		return needList(at, "monitors", v.CephFS.Monitors)
	})
}

func validateFlex(f *corev1.FlexVolumeSource, path *field.Path) field.ErrorList {
	errs := need(path, "driver", f.Driver)
	for key := range f.Options {
		domain, _, _ := strings.Cut(key, "/")
		if domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || domain == "k8s.io" || strings.HasSuffix(domain, ".k8s.io") {
			errs = append(errs, field.Invalid(path.Child("options").Key(key), key, "kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
	return errs
}

func needList(path *field.Path, name string, list []string) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path.Child(name), "")}
	}
	return nil
}

var (
	iscsiName = regexp.MustCompile(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`)
	euiName   = regexp.MustCompile(`^eui.[[:alnum:]]{16}$`)
	naaName   = regexp.MustCompile(`^naa.[[:alnum:]]{32}$`)
)

// The logical units that a SCSI target has.
const maxLUN = 255

func validateISCSI(s *corev1.ISCSIVolumeSource, path *field.Path) field.ErrorList {
	errs := need(path, "targetPortal", s.TargetPortal)
	if s.IQN == "" {
		errs = append(errs, field.Required(path.Child("iqn"), ""))
	} else {
		errs = append(errs, validateISCSIName(s.IQN, path.Child("iqn"))...)
	}
	if s.Lun < 0 || s.Lun > maxLUN {
		errs = append(errs, field.Invalid(path.Child("lun"), s.Lun, validation.InclusiveRangeError(0, maxLUN)))
	}
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		errs = append(errs, field.Required(path.Child("secretRef"), ""))
	}
	if s.InitiatorName != nil {
		errs = append(errs, validateISCSIName(*s.InitiatorName, path.Child("initiatorname"))...)
	}
	return errs
}

// longestISCSI bounds what the volume's name and the portal are together where the initiator is named: they name an interface.
const longestISCSI = 64

func validateISCSIVolumeName(v *corev1.Volume, path *field.Path) field.ErrorList {
	if v.ISCSI == nil || v.ISCSI.InitiatorName == nil || len(v.Name+":"+v.ISCSI.TargetPortal) <= longestISCSI {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("name"), v.Name,
		"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.")}
}

func validateISCSIName(name string, path *field.Path) field.ErrorList {
	if iscsiName.MatchString(name) || euiName.MatchString(name) || naaName.MatchString(name) {
		return nil
	}
	for _, start := range []string{"iqn", "eui", "naa"} {
		if strings.HasPrefix(name, start) {
			return field.ErrorList{field.Invalid(path, name, "must be valid format")}
		}
	}
	return field.ErrorList{field.Invalid(path, name, "must be valid format starting with iqn, eui, or naa")}
}

func validateFC(s *corev1.FCVolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names, ids := len(s.TargetWWNs) > 0, len(s.WWIDs) > 0
	switch {
	case !names && !ids:
		errs = append(errs, field.Required(path.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both"))
	case names && ids:
		errs = append(errs, field.Invalid(path.Child("targetWWNs"), s.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously"))
	}
	switch {
	case names && s.Lun == nil:
		errs = append(errs, field.Required(path.Child("lun"), "lun is required if targetWWNs is specified"))
	case names && (*s.Lun < 0 || *s.Lun > maxLUN):
		errs = append(errs, field.Invalid(path.Child("lun"), s.Lun, validation.InclusiveRangeError(0, maxLUN)))
	}
	return errs
}
