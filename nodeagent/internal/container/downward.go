package container

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	podspec "howdah.dev/nodeagent/internal/pod"
)

// Field returns what a downward API field path says of the pod. status holds
// the addresses, which the API may not have yet.
func Field(pod *corev1.Pod, path string, status *corev1.PodStatus) (string, error) {
	if key, ok := subscript(path, "metadata.annotations"); ok {
		return pod.Annotations[key], nil
	}
	if key, ok := subscript(path, "metadata.labels"); ok {
		return pod.Labels[key], nil
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return status.HostIP, nil
	case "status.hostIPs":
		var ips []string
		for _, ip := range status.HostIPs {
			ips = append(ips, ip.IP)
		}
		return strings.Join(ips, ","), nil
	case "status.podIP":
		return status.PodIP, nil
	case "status.podIPs":
		var ips []string
		for _, ip := range status.PodIPs {
			ips = append(ips, ip.IP)
		}
		return strings.Join(ips, ","), nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

// subscript returns the key of path = field['key'].
func subscript(path, field string) (string, bool) {
	rest, ok := strings.CutPrefix(path, field+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "']")
}

func lines(m map[string]string) string {
	out := make([]string, 0, len(m))
	for k, v := range m {
		out = append(out, k+"="+strconv.Quote(v))
	}
	sort.Strings(out)
	return strings.Join(out, "\n")
}

// Resource returns what a resourceFieldRef says; a limit that is not set is
// that of the pod as a whole, or what the node can give.
func Resource(pod *corev1.Pod, own *corev1.Container, ref *corev1.ResourceFieldSelector, allocatable corev1.ResourceList) (string, error) {
	c := own
	if ref.ContainerName != "" {
		if c = podspec.Find(pod, ref.ContainerName); c == nil {
			return "", fmt.Errorf("container %s not found", ref.ContainerName)
		}
	}
	if c == nil {
		return "", fmt.Errorf("resourceFieldRef %s names no container", ref.Resource)
	}
	kind, name, ok := strings.Cut(ref.Resource, ".")
	if !ok || (kind != "limits" && kind != "requests") {
		return "", fmt.Errorf("unsupported container resource: %v", ref.Resource)
	}
	list := podspec.Within(podspec.Whole(pod), c.Resources).Limits
	if kind == "requests" {
		list = c.Resources.Requests
	}
	quantity, ok := list[corev1.ResourceName(name)]
	if !ok && kind == "limits" {
		quantity = allocatable[corev1.ResourceName(name)]
	}
	return divide(corev1.ResourceName(name), quantity, ref.Divisor), nil
}

func divide(name corev1.ResourceName, quantity, divisor resource.Quantity) string {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == corev1.ResourceCPU {
		return strconv.FormatInt(int64(math.Ceil(float64(quantity.MilliValue())/float64(divisor.MilliValue()))), 10)
	}
	return strconv.FormatInt(int64(math.Ceil(float64(quantity.Value())/float64(divisor.Value()))), 10)
}
