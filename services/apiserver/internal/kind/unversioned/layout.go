package unversioned

import (
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// layouts are the structs whose fields stand in another order in that form, or are others.
var layouts = map[reflect.Type]func(v reflect.Value) []entry{
	reflect.TypeFor[corev1.PodSpec]():            podSpec,
	reflect.TypeFor[corev1.PodSecurityContext](): podSecurity,
	reflect.TypeFor[corev1.SecurityContext](): named("Capabilities", "Privileged", "SELinuxOptions", "WindowsOptions", "RunAsUser", "RunAsGroup", "RunAsNonRoot",
		"ReadOnlyRootFilesystem", "AllowPrivilegeEscalation", "ProcMount", "SeccompProfile", "AppArmorProfile"),
	reflect.TypeFor[corev1.VolumeSource](): named("HostPath", "EmptyDir", "GCEPersistentDisk", "AWSElasticBlockStore", "GitRepo", "Secret", "NFS", "ISCSI",
		"Glusterfs", "PersistentVolumeClaim", "RBD", "Quobyte", "FlexVolume", "Cinder", "CephFS", "Flocker", "DownwardAPI", "FC", "AzureFile", "ConfigMap",
		"VsphereVolume", "AzureDisk", "PhotonPersistentDisk", "Projected", "PortworxVolume", "ScaleIO", "StorageOS", "CSI", "Ephemeral", "Image"),
	reflect.TypeFor[corev1.PersistentVolumeSource](): named("GCEPersistentDisk", "AWSElasticBlockStore", "HostPath", "Glusterfs", "NFS", "RBD", "Quobyte",
		"ISCSI", "FlexVolume", "Cinder", "CephFS", "FC", "Flocker", "AzureFile", "VsphereVolume", "AzureDisk", "PhotonPersistentDisk", "PortworxVolume",
		"ScaleIO", "Local", "StorageOS", "CSI"),
	reflect.TypeFor[appsv1.RollingUpdateDeployment]():          values("MaxUnavailable", "MaxSurge"),
	reflect.TypeFor[appsv1.RollingUpdateDaemonSet]():           values("MaxUnavailable", "MaxSurge"),
	reflect.TypeFor[appsv1.RollingUpdateStatefulSetStrategy](): partitioned,
}

// values is a layout of the fields with these names, which are no pointers there: what is not set is zero.
func values(names ...string) func(reflect.Value) []entry {
	return func(v reflect.Value) []entry {
		entries := make([]entry, 0, len(names))
		for _, name := range names {
			field := v.FieldByName(name)
			if field.IsNil() {
				field = reflect.New(field.Type().Elem())
			}
			entries = append(entries, entry{name, field})
		}
		return entries
	}
}

// partitioned has the partition as a value.
func partitioned(v reflect.Value) []entry {
	return append(values("Partition")(v), named("MaxUnavailable")(v)...)
}

// named is a layout of the fields with these names.
func named(names ...string) func(reflect.Value) []entry {
	return func(v reflect.Value) []entry {
		entries := make([]entry, 0, len(names))
		for _, name := range names {
			entries = append(entries, entry{name, v.FieldByName(name)})
		}
		return entries
	}
}

var (
	podSpecFields = named("Volumes", "InitContainers", "Containers", "EphemeralContainers", "RestartPolicy", "TerminationGracePeriodSeconds",
		"ActiveDeadlineSeconds", "DNSPolicy", "NodeSelector", "ServiceAccountName", "AutomountServiceAccountToken", "NodeName", "SecurityContext",
		"ImagePullSecrets", "Hostname", "Subdomain", "SetHostnameAsFQDN", "Affinity", "SchedulerName", "Tolerations", "HostAliases",
		"PriorityClassName", "Priority", "PreemptionPolicy", "DNSConfig", "ReadinessGates", "RuntimeClassName", "Overhead", "EnableServiceLinks",
		"TopologySpreadConstraints", "OS", "SchedulingGates", "ResourceClaims", "Resources", "HostnameOverride", "SchedulingGroup")
	podHostFields     = named("HostNetwork", "HostPID", "HostIPC", "ShareProcessNamespace", "HostUsers")
	podSecurityFields = named("SELinuxOptions", "WindowsOptions", "RunAsUser", "RunAsGroup", "RunAsNonRoot", "SupplementalGroups",
		"SupplementalGroupsPolicy", "FSGroup", "FSGroupChangePolicy", "Sysctls", "SeccompProfile", "AppArmorProfile", "SELinuxChangePolicy")
)

// podSpec has the use of the node's namespaces in the security context.
func podSpec(v reflect.Value) []entry {
	entries := podSpecFields(v)
	for i, e := range entries {
		if context, ok := e.value.Interface().(*corev1.PodSecurityContext); ok && context != nil {
			entries[i].value = reflect.ValueOf(merged(append(podHostFields(v), podSecurityFields(e.value.Elem())...)))
		}
	}
	return entries
}

// podSecurity is the context apart from its pod, which uses none of the node's namespaces as far as it knows.
func podSecurity(v reflect.Value) []entry {
	return append(podHostFields(reflect.ValueOf(corev1.PodSpec{})), podSecurityFields(v)...)
}

// entry is a field as it is printed.
type entry struct {
	name  string
	value reflect.Value
}

// merged is a struct whose fields come from several.
type merged []entry
