package podspec

import (
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// validateVendorSources checks the volumes of one vendor's cloud or product,
// which CSI drivers serve today.
func validateVendorSources(v *corev1.VolumeSource, a *alternatives) {
	a.when(v.AzureFile != nil, "azureFile", func(at *field.Path) field.ErrorList {
		return need(at, "secretName", v.AzureFile.SecretName, "shareName", v.AzureFile.ShareName)
	})
	a.when(v.VsphereVolume != nil, "vsphereVolume", func(at *field.Path) field.ErrorList {
		return need(at, "volumePath", v.VsphereVolume.VolumePath)
	})
	a.when(v.PhotonPersistentDisk != nil, "photonPersistentDisk", func(at *field.Path) field.ErrorList {
		return need(at, "pdID", v.PhotonPersistentDisk.PdID)
	})
	a.when(v.PortworxVolume != nil, "portworxVolume", func(at *field.Path) field.ErrorList {
		return need(at, "volumeID", v.PortworxVolume.VolumeID)
	})
	a.when(v.AzureDisk != nil, "azureDisk", func(at *field.Path) field.ErrorList { return validateAzureDisk(v.AzureDisk, at) })
	a.when(v.StorageOS != nil, "storageos", func(at *field.Path) field.ErrorList { return validateStorageOS(v.StorageOS, at) })
}

func validateGCE(d *corev1.GCEPersistentDiskVolumeSource, path *field.Path) field.ErrorList {
	return append(need(path, "pdName", d.PDName), validatePartition(d.Partition, path)...)
}

func validateQuobyte(q *corev1.QuobyteVolumeSource, path *field.Path) field.ErrorList {
	const form = "must be a host:port pair or multiple pairs separated by commas"
	var errs field.ErrorList
	switch { // the first of these hides the others
	case q.Registry == "":
		errs = append(errs, field.Required(path.Child("registry"), form))
	case len(q.Tenant) > longestTenant:
		errs = append(errs, field.Required(path.Child("tenant"), "must be a UUID and may not exceed a length of 64 characters"))
	default:
		for pair := range strings.SplitSeq(q.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				errs = append(errs, field.Invalid(path.Child("registry"), q.Registry, form))
			}
		}
	}
	return append(errs, need(path, "volume", q.Volume)...)
}

const longestTenant = 64

func validateStorageOS(s *corev1.StorageOSVolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.VolumeName == "" {
		errs = append(errs, field.Required(path.Child("volumeName"), ""))
	} else {
		errs = append(errs, check.Label(s.VolumeName, path.Child("volumeName"))...)
	}
	if s.VolumeNamespace != "" {
		errs = append(errs, check.Label(s.VolumeNamespace, path.Child("volumeNamespace"))...)
	}
	if s.SecretRef != nil && s.SecretRef.Name == "" {
		errs = append(errs, field.Required(path.Child("secretRef", "name"), ""))
	}
	return errs
}

func validatePartition(n int32, path *field.Path) field.ErrorList {
	if n < 0 || n > 255 {
		return field.ErrorList{field.Invalid(path.Child("partition"), n, validation.InclusiveRangeError(1, 255))}
	}
	return nil
}

func validateFlocker(f *corev1.FlockerVolumeSource, path *field.Path) field.ErrorList {
	switch {
	case f.DatasetName == "" && f.DatasetUUID == "":
		return field.ErrorList{field.Required(path, "one of datasetName and datasetUUID is required")}
	case f.DatasetName != "" && f.DatasetUUID != "":
		return field.ErrorList{field.Invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously")}
	}
	if strings.Contains(f.DatasetName, "/") {
		return field.ErrorList{field.Invalid(path.Child("datasetName"), f.DatasetName, "must not contain '/'")}
	}
	return nil
}

func validateAzureDisk(d *corev1.AzureDiskVolumeSource, path *field.Path) field.ErrorList {
	errs := need(path, "diskName", d.DiskName, "diskURI", d.DataDiskURI)
	if d.CachingMode != nil {
		errs = append(errs, check.OneOf(*d.CachingMode, path.Child("cachingMode"),
			corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)...)
	}
	if d.Kind != nil {
		errs = append(errs, check.OneOf(*d.Kind, path.Child("kind"),
			corev1.AzureSharedBlobDisk, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk)...)
	}
	start, form := "https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	if d.Kind != nil && *d.Kind == corev1.AzureManagedDisk {
		start, form = "/subscriptions", "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	}
	if !strings.HasPrefix(d.DataDiskURI, start) {
		errs = append(errs, field.NotSupported(path.Child("diskURI"), d.DataDiskURI, []string{form}))
	}
	return errs
}
