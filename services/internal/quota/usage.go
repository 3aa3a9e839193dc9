package quota

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	resourcehelper "k8s.io/component-helpers/resource"
)

type resourceQuantity = resource.Quantity

// one is a count of one.
func one() resource.Quantity { return *resource.NewQuantity(1, resource.DecimalSI) }

// plain are the resources that a quota may also name as they are, without "count/".
var plain = map[string]corev1.ResourceName{
	"pods": corev1.ResourcePods, "services": corev1.ResourceServices, "replicationcontrollers": corev1.ResourceReplicationControllers,
	"resourcequotas": corev1.ResourceQuotas, "secrets": corev1.ResourceSecrets, "configmaps": corev1.ResourceConfigMaps,
	"persistentvolumeclaims": corev1.ResourcePersistentVolumeClaims,
}

// CountName is the name under which quotas count the objects of a resource, as "count/deployments.apps".
func CountName(gr schema.GroupResource) corev1.ResourceName {
	return corev1.ResourceName("count/" + gr.String())
}

// Counted returns the resource that a name counts the objects of, without looking into them; false where it is none, or where the
// objects have to be looked at.
func Counted(name corev1.ResourceName) (schema.GroupResource, bool) {
	if rest, ok := strings.CutPrefix(string(name), "count/"); ok {
		return schema.ParseGroupResource(rest), true
	}
	if _, ok := plain[string(name)]; ok && name != corev1.ResourcePods {
		return schema.GroupResource{Resource: string(name)}, true
	}
	return schema.GroupResource{}, false
}

// Usage returns what an object consumes, by every name under which a quota may limit it. Known is of the object's namespace.
func Usage(gr schema.GroupResource, obj any, now time.Time, known Known) List {
	used := List{CountName(gr): one()}
	if name, ok := plain[gr.Resource]; ok && gr.Group == "" && name != corev1.ResourcePods {
		used[name] = one()
	}
	switch o := obj.(type) {
	case *corev1.Pod:
		if !Ended(o, now) {
			podUsage(o, used)
		}
	case *corev1.Service:
		serviceUsage(o, used)
	case *corev1.PersistentVolumeClaim:
		claimUsage(o, used)
	case *resourcev1.ResourceClaim:
		deviceUsage(o, used, now, known)
	}
	return used
}

// Ended reports whether a pod uses nothing any more: it has run to its end, or should have been gone by now.
func Ended(pod *corev1.Pod, now time.Time) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return false
	}
	// The deletion's time is that at which the grace period ends; a node that is lost cannot confirm it.
	return now.After(pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second))
}

func podUsage(pod *corev1.Pod, used List) {
	used[corev1.ResourcePods] = one()
	options := resourcehelper.PodResourcesOptions{UseStatusResources: true}
	compute(resourcehelper.PodRequests(pod, options), resourcehelper.PodLimits(pod, options), used)
}

// compute files requests and limits under the names that quotas know them by.
func compute(requests, limits, used List) {
	for name, q := range requests {
		switch {
		case name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage:
			used[name] = q
			used[corev1.DefaultResourceRequestsPrefix+name] = q
		case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			used[name] = q
			used[corev1.DefaultResourceRequestsPrefix+name] = q
		case extended(name):
			used[corev1.DefaultResourceRequestsPrefix+name] = q
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := limits[name]; ok {
			used["limits."+name] = q
		}
	}
}

// extended reports whether a resource is neither Kubernetes' own nor a quota's, or the devices of a class, which pods ask for by its name.
func extended(name corev1.ResourceName) bool {
	s := string(name)
	if strings.HasPrefix(s, resourcev1.ResourceDeviceClassPrefix) {
		return true
	}
	if !strings.Contains(s, "/") || strings.Contains(s, corev1.ResourceDefaultNamespacePrefix) || strings.HasPrefix(s, corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+s)) == 0
}

func serviceUsage(s *corev1.Service, used List) {
	ports := int64(len(s.Spec.Ports))
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
	case corev1.ServiceTypeLoadBalancer:
		used[corev1.ResourceServicesLoadBalancers] = one()
		if allocate := s.Spec.AllocateLoadBalancerNodePorts; allocate != nil && !*allocate {
			ports = 0
			for _, p := range s.Spec.Ports {
				if p.NodePort != 0 {
					ports++
				}
			}
		}
	default:
		return
	}
	used[corev1.ResourceServicesNodePorts] = *resource.NewQuantity(ports, resource.DecimalSI)
}

const classSuffix = ".storageclass.storage.k8s.io/"

func claimUsage(c *corev1.PersistentVolumeClaim, used List) {
	class := ""
	if name, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		class = name
	} else if c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	if class != "" {
		used[corev1.ResourceName(class+classSuffix+"persistentvolumeclaims")] = one()
	}
	size, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return
	}
	size = *resource.NewQuantity(size.Value(), size.Format) // whole bytes
	// What is set aside for it already counts, too, where a growth was taken back.
	if given, ok := c.Status.AllocatedResources[corev1.ResourceStorage]; ok && given.Cmp(size) > 0 {
		size = given.DeepCopy()
	}
	used[corev1.ResourceRequestsStorage] = size
	if class != "" {
		used[corev1.ResourceName(class+classSuffix+string(corev1.ResourceRequestsStorage))] = size
	}
}
