package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ContainerResourceName refuses what cannot be the name of a resource of a container.
func ContainerResourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	return containerResource(name, path)
}

// elsewhere are resources without a domain that quotas and volumes have, and containers have not.
var elsewhere = []corev1.ResourceName{
	corev1.ResourcePods, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceQuotas, corev1.ResourceSecrets,
	corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceStorage, corev1.ResourceServicesNodePorts,
	corev1.ResourceServicesLoadBalancers, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsStorage,
	corev1.ResourceRequestsEphemeralStorage, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
}

// known refuses a name without a domain that Kubernetes knows nowhere.
func known(name corev1.ResourceName, path *field.Path) field.ErrorList {
	if strings.Contains(string(name), "/") || native(name) || slices.Contains(elsewhere, name) ||
		strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, "must be a standard resource type or fully qualified")}
}
