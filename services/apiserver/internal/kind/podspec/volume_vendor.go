package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/check"
)

// validateVendorSources checks the volumes of one vendor's cloud or product,
// which CSI drivers serve today.
func validateVendorSources(v *corev1.VolumeSource, a *alternatives) {
	a.when(v.GCEPersistentDisk != nil, "gcePersistentDisk", func(at *field.Path) field.ErrorList {
		return append(need(at, "pdName", v.GCEPersistentDisk.PDName), validatePartition(v.GCEPersistentDisk.Partition, at)...)
	})
	a.when(v.AWSElasticBlockStore != nil, "awsElasticBlockStore", func(at *field.Path) field.ErrorList {
		return append(need(at, "volumeID", v.AWSElasticBlockStore.VolumeID), validatePartition(v.AWSElasticBlockStore.Partition, at)...)
	})
	a.when(v.Cinder != nil, "cinder", func(at *field.Path) field.ErrorList {
		errs := need(at, "volumeID", v.Cinder.VolumeID)
		if r := v.Cinder.SecretRef; r != nil {
			errs = append(errs, need(at.Child("secretRef"), "name", r.Name)...)
		}
		return errs
	})
	a.when(v.Flocker != nil, "flocker", func(at *field.Path) field.ErrorList { return validateFlocker(v.Flocker, at) })
	a.when(v.AzureFile != nil, "azureFile", func(at *field.Path) field.ErrorList {
		return need(at, "secretName", v.AzureFile.SecretName, "shareName", v.AzureFile.ShareName)
	})
	a.when(v.AzureDisk != nil, "azureDisk", func(at *field.Path) field.ErrorList { return validateAzureDisk(v.AzureDisk, at) })
	a.when(v.VsphereVolume != nil, "vsphereVolume", func(at *field.Path) field.ErrorList {
		return need(at, "volumePath", v.VsphereVolume.VolumePath)
	})
	a.when(v.PhotonPersistentDisk != nil, "photonPersistentDisk", func(at *field.Path) field.ErrorList {
		return need(at, "pdID", v.PhotonPersistentDisk.PdID)
	})
	a.when(v.PortworxVolume != nil, "portworxVolume", func(at *field.Path) field.ErrorList {
		return need(at, "volumeID", v.PortworxVolume.VolumeID)
	})
	a.when(v.Quobyte != nil, "quobyte", func(at *field.Path) field.ErrorList {
		return need(at, "registry", v.Quobyte.Registry, "volume", v.Quobyte.Volume)
	})
	a.when(v.ScaleIO != nil, "scaleIO", func(at *field.Path) field.ErrorList {
		return need(at, "gateway", v.ScaleIO.Gateway, "system", v.ScaleIO.System, "volumeName", v.ScaleIO.VolumeName)
	})
	a.when(v.StorageOS != nil, "storageos", func(at *field.Path) field.ErrorList {
		if v.StorageOS.VolumeName == "" {
			return field.ErrorList{field.Required(at.Child("volumeName"), "")}
		}
		errs := check.Label(v.StorageOS.VolumeName, at.Child("volumeName"))
		if ns := v.StorageOS.VolumeNamespace; ns != "" {
			errs = append(errs, check.Label(ns, at.Child("volumeNamespace"))...)
		}
		return errs
	})
}

func validatePartition(n int32, path *field.Path) field.ErrorList {
	if n < 0 || n > 255 {
		return field.ErrorList{field.Invalid(path.Child("partition"), n, validation.InclusiveRangeError(0, 255))}
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
	return check.RelativePath(f.DatasetName, path.Child("datasetName"))
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
	return errs
}
