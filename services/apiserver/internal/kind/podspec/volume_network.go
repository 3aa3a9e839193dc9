package podspec

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/check"
)

// validateNetworkSources checks the volumes that any node can reach over a
// network protocol or fetch.
func validateNetworkSources(v *corev1.VolumeSource, a *alternatives) {
	a.when(v.GitRepo != nil, "gitRepo", func(at *field.Path) field.ErrorList {
		errs := need(at, "repository", v.GitRepo.Repository)
		return append(errs, check.FilePath(v.GitRepo.Directory, at.Child("directory"))...)
	})
	a.when(v.NFS != nil, "nfs", func(at *field.Path) field.ErrorList {
		errs := need(at, "server", v.NFS.Server, "path", v.NFS.Path)
		if !strings.HasPrefix(v.NFS.Path, "/") {
			errs = append(errs, field.Invalid(at.Child("path"), v.NFS.Path, "must be an absolute path"))
		}
		return errs
	})
	a.when(v.ISCSI != nil, "iscsi", func(at *field.Path) field.ErrorList { return validateISCSI(v.ISCSI, at) })
	a.when(v.FC != nil, "fc", func(at *field.Path) field.ErrorList { return validateFC(v.FC, at) })
	a.when(v.Glusterfs != nil, "glusterfs", func(at *field.Path) field.ErrorList {
		return need(at, "endpoints", v.Glusterfs.EndpointsName, "path", v.Glusterfs.Path)
	})
	a.when(v.RBD != nil, "rbd", func(at *field.Path) field.ErrorList {
		return append(needList(at, "monitors", v.RBD.CephMonitors), need(at, "image", v.RBD.RBDImage)...)
	})
	a.when(v.CephFS != nil, "cephfs", func(at *field.Path) field.ErrorList {
		return needList(at, "monitors", v.CephFS.Monitors)
	})
	a.when(v.FlexVolume != nil, "flexVolume", func(at *field.Path) field.ErrorList {
		errs := need(at, "driver", v.FlexVolume.Driver)
		for key := range v.FlexVolume.Options {
			domain, _, _ := strings.Cut(key, "/")
			if domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || domain == "k8s.io" || strings.HasSuffix(domain, ".k8s.io") {
				errs = append(errs, field.Invalid(at.Child("options").Key(key), v.FlexVolume.Options[key], "kubernetes.io and k8s.io namespaces are reserved"))
			}
		}
		return errs
	})
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

func validateISCSIName(name string, path *field.Path) field.ErrorList {
	if iscsiName.MatchString(name) || euiName.MatchString(name) || naaName.MatchString(name) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, "must be valid format")}
}

func validateFC(s *corev1.FCVolumeSource, path *field.Path) field.ErrorList {
	switch names, ids := len(s.TargetWWNs) > 0, len(s.WWIDs) > 0; {
	case !names && !ids:
		return field.ErrorList{field.Required(path.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both")}
	case names && ids:
		return field.ErrorList{field.Invalid(path.Child("targetWWNs"), s.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")}
	case names && s.Lun == nil:
		return field.ErrorList{field.Required(path.Child("lun"), "lun is required if targetWWNs is specified")}
	case names && (*s.Lun < 0 || *s.Lun > maxLUN):
		return field.ErrorList{field.Invalid(path.Child("lun"), s.Lun, validation.InclusiveRangeError(0, maxLUN))}
	}
	return nil
}
