package storage

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/recast"
	"howdah.dev/services/apiserver/internal/kind/row"
)

// part is a source that a volume has, by the name that problems give it where it is one too many, and alone.
type part struct {
	name string
	set  bool
	only corev1.PersistentVolumeSource
	// free sources do not mind others before them.
	free bool
}

// parts lists the sources in Kubernetes' order, which decides what is one too many.
func parts(s *corev1.PersistentVolumeSource) []part {
	type source = corev1.PersistentVolumeSource
	return []part{
		{name: "hostPath", set: s.HostPath != nil, only: source{HostPath: s.HostPath}},
		{name: "gcePersistentDisk", set: s.GCEPersistentDisk != nil, only: source{GCEPersistentDisk: s.GCEPersistentDisk}},
		{name: "awsElasticBlockStore", set: s.AWSElasticBlockStore != nil, only: source{AWSElasticBlockStore: s.AWSElasticBlockStore}},
		{name: "glusterfs", set: s.Glusterfs != nil, only: source{Glusterfs: s.Glusterfs}},
		{name: "flocker", set: s.Flocker != nil, only: source{Flocker: s.Flocker}},
		{name: "nfs", set: s.NFS != nil, only: source{NFS: s.NFS}},
		{name: "rbd", set: s.RBD != nil, only: source{RBD: s.RBD}},
		{name: "quobyte", set: s.Quobyte != nil, only: source{Quobyte: s.Quobyte}},
		{name: "cephFS", set: s.CephFS != nil, only: source{CephFS: s.CephFS}},
		{name: "iscsi", set: s.ISCSI != nil, only: source{ISCSI: s.ISCSI}},
		{name: "cinder", set: s.Cinder != nil, only: source{Cinder: s.Cinder}},
		{name: "fc", set: s.FC != nil, only: source{FC: s.FC}},
		{name: "flexVolume", set: s.FlexVolume != nil, only: source{FlexVolume: s.FlexVolume}, free: true},
		{name: "azureFile", set: s.AzureFile != nil, only: source{AzureFile: s.AzureFile}},
		{name: "vsphereVolume", set: s.VsphereVolume != nil, only: source{VsphereVolume: s.VsphereVolume}},
		{name: "photonPersistentDisk", set: s.PhotonPersistentDisk != nil, only: source{PhotonPersistentDisk: s.PhotonPersistentDisk}},
		{name: "portworxVolume", set: s.PortworxVolume != nil, only: source{PortworxVolume: s.PortworxVolume}},
		{name: "azureDisk", set: s.AzureDisk != nil, only: source{AzureDisk: s.AzureDisk}},
		{name: "scaleIO", set: s.ScaleIO != nil, only: source{ScaleIO: s.ScaleIO}},
		{name: "local", set: s.Local != nil, only: source{Local: s.Local}},
		{name: "storageos", set: s.StorageOS != nil, only: source{StorageOS: s.StorageOS}},
		{name: "csi", set: s.CSI != nil, only: source{CSI: s.CSI}},
	}
}

// volumeSource checks what a volume is made from: one source.
func volumeSource(s *corev1.PersistentVolumeSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	n := 0
	for _, p := range parts(&s.PersistentVolumeSource) {
		if !p.set {
			continue
		}
		if n++; n > 1 && !p.free {
			errs = append(errs, field.Forbidden(path.Child(p.name), "may not specify more than 1 volume type"))
			continue
		}
		errs = append(errs, oneSource(&p.only, path)...)
		if p.only.Local != nil && s.NodeAffinity == nil {
			errs = append(errs, field.Required(path.Child("nodeAffinity"), "Local volume requires node affinity"))
		}
	}
	if n == 0 {
		errs = append(errs, field.Required(path, "must specify a volume type"))
	}
	return errs
}

func oneSource(s *corev1.PersistentVolumeSource, path *field.Path) field.ErrorList {
	switch {
	case s.Local != nil:
		at := path.Child("local", "path")
		if s.Local.Path == "" {
			return field.ErrorList{field.Required(at, "")}
		}
		return check.NoBacksteps(s.Local.Path, at)
	case s.CSI != nil:
		return csiSource(s.CSI, path.Child("csi"))
	}
	// The others are those that a pod can name itself, but for the namespaces of what they refer to.
	var source corev1.VolumeSource
	recast.Into(s, &source)
	errs := podspec.Source(&source, path)
	if s.ISCSI != nil { // volumes are told less of names than pods
		for _, err := range errs {
			err.Detail = strings.TrimSuffix(err.Detail, " starting with iqn, eui, or naa")
		}
	}
	switch {
	case s.Glusterfs != nil && s.Glusterfs.EndpointsNamespace != nil:
		if ns := *s.Glusterfs.EndpointsNamespace; ns == "" {
			errs = append(errs, field.Invalid(path.Child("glusterfs", "endpointsNamespace"), ns, "if the endpointnamespace is set, it must be a valid namespace name"))
		}
	case s.AzureFile != nil && s.AzureFile.SecretNamespace != nil && *s.AzureFile.SecretNamespace == "":
		errs = append(errs, field.Required(path.Child("azureFile", "secretNamespace"), ""))
	case s.ISCSI != nil && s.ISCSI.SecretRef != nil && s.ISCSI.SecretRef.Name == "":
		errs = append(errs, field.Required(path.Child("iscsi", "secretRef", "name"), ""))
	case s.Cinder != nil && s.Cinder.SecretRef != nil && s.Cinder.SecretRef.Namespace == "":
		errs = append(errs, field.Required(path.Child("cinder", "secretRef", "namespace"), ""))
	case s.StorageOS != nil && s.StorageOS.SecretRef != nil && s.StorageOS.SecretRef.Namespace == "":
		errs = append(errs, field.Required(path.Child("storageos", "secretRef", "namespace"), ""))
	}
	return errs
}

func csiSource(c *corev1.CSIPersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := driverName(c.Driver, path.Child("driver"))
	if c.VolumeHandle == "" {
		errs = append(errs, field.Required(path.Child("volumeHandle"), ""))
	}
	// Kubernetes does not look at the one for staging.
	for _, r := range []struct {
		name string
		ref  *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", c.ControllerPublishSecretRef}, {"controllerExpandSecretRef", c.ControllerExpandSecretRef},
		{"nodePublishSecretRef", c.NodePublishSecretRef}, {"nodeExpandSecretRef", c.NodeExpandSecretRef},
	} {
		if r.ref != nil {
			errs = append(errs, secretReference(r.ref, path.Child(r.name))...)
		}
	}
	return errs
}

func secretReference(r *corev1.SecretReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else {
		errs = append(errs, check.Subdomain(r.Name, path.Child("name"))...)
	}
	if r.Namespace == "" {
		return append(errs, field.Required(path.Child("namespace"), ""))
	}
	return append(errs, check.Each(apivalidation.NameIsDNSLabel(r.Namespace, false), r.Namespace, path.Child("namespace"))...)
}

// defaultSource fills in what a volume's source leaves out.
func defaultSource(s *corev1.PersistentVolumeSource) {
	if s.HostPath != nil {
		row.Set(&s.HostPath.Type, corev1.HostPathUnset)
	}
	if s.ISCSI != nil {
		orElse(&s.ISCSI.ISCSIInterface, "default")
	}
	if s.RBD != nil {
		orElse(&s.RBD.RBDPool, "rbd")
		orElse(&s.RBD.RadosUser, "admin")
		orElse(&s.RBD.Keyring, "/etc/ceph/keyring")
	}
	if s.AzureDisk != nil {
		row.Set(&s.AzureDisk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		row.Set(&s.AzureDisk.Kind, corev1.AzureSharedBlobDisk)
		row.Set(&s.AzureDisk.FSType, "ext4")
		row.Set(&s.AzureDisk.ReadOnly, false)
	}
	if s.ScaleIO != nil {
		orElse(&s.ScaleIO.StorageMode, "ThinProvisioned")
		orElse(&s.ScaleIO.FSType, "xfs")
	}
}

func orElse(text *string, otherwise string) {
	if *text == "" {
		*text = otherwise
	}
}
