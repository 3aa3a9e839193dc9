package podsecuritypolicy

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/registry"
)

// policy is a PodSecurityPolicy as policy/v1beta1 of Kubernetes 1.24 documents it.
type policy struct {
	name        string
	annotations map[string]string
	spec
}

type spec struct {
	Privileged                      bool                   `json:"privileged"`
	DefaultAddCapabilities          []corev1.Capability    `json:"defaultAddCapabilities"`
	RequiredDropCapabilities        []corev1.Capability    `json:"requiredDropCapabilities"`
	AllowedCapabilities             []corev1.Capability    `json:"allowedCapabilities"`
	Volumes                         []string               `json:"volumes"`
	HostNetwork                     bool                   `json:"hostNetwork"`
	HostPorts                       []idRange              `json:"hostPorts"`
	HostPID                         bool                   `json:"hostPID"`
	HostIPC                         bool                   `json:"hostIPC"`
	SELinux                         seLinux                `json:"seLinux"`
	RunAsUser                       identity               `json:"runAsUser"`
	RunAsGroup                      *identity              `json:"runAsGroup"`
	SupplementalGroups              identity               `json:"supplementalGroups"`
	FSGroup                         identity               `json:"fsGroup"`
	ReadOnlyRootFilesystem          bool                   `json:"readOnlyRootFilesystem"`
	DefaultAllowPrivilegeEscalation *bool                  `json:"defaultAllowPrivilegeEscalation"`
	AllowPrivilegeEscalation        *bool                  `json:"allowPrivilegeEscalation"`
	AllowedHostPaths                []hostPath             `json:"allowedHostPaths"`
	AllowedFlexVolumes              []driver               `json:"allowedFlexVolumes"`
	AllowedCSIDrivers               []driver               `json:"allowedCSIDrivers"`
	AllowedUnsafeSysctls            []string               `json:"allowedUnsafeSysctls"`
	ForbiddenSysctls                []string               `json:"forbiddenSysctls"`
	AllowedProcMountTypes           []corev1.ProcMountType `json:"allowedProcMountTypes"`
	RuntimeClass                    *runtimeClass          `json:"runtimeClass"`
}

// idRange is from Min to Max, both included.
type idRange struct {
	Min int64 `json:"min"`
	Max int64 `json:"max"`
}

type seLinux struct {
	Rule    string                 `json:"rule"`
	Options *corev1.SELinuxOptions `json:"seLinuxOptions"`
}

// identity says which users or groups a pod may run as.
type identity struct {
	Rule   string    `json:"rule"`
	Ranges []idRange `json:"ranges"`
}

// The rules of users, groups and SELinux.
const (
	mustRunAs        = "MustRunAs"
	mustRunAsNonRoot = "MustRunAsNonRoot"
	mayRunAs         = "MayRunAs"
)

type hostPath struct {
	PathPrefix string `json:"pathPrefix"`
	ReadOnly   bool   `json:"readOnly"`
}

type driver struct {
	Driver string `json:"driver"` // of a FlexVolume
	Name   string `json:"name"`   // of a CSI driver
}

type runtimeClass struct {
	Allowed []string `json:"allowedRuntimeClassNames"`
	Default *string  `json:"defaultRuntimeClassName"`
}

// read returns the policy of a stored object.
func read(obj registry.Object) (*policy, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	var parsed struct {
		Spec spec `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &parsed); err != nil {
		return nil, err
	}
	return &policy{name: obj.GetName(), annotations: obj.GetAnnotations(), spec: parsed.Spec}, nil
}

// contains reports whether one of the ranges has the number.
func contains(ranges []idRange, n int64) bool {
	return slices.ContainsFunc(ranges, func(r idRange) bool { return r.Min <= n && n <= r.Max })
}

// first is what a pod that names no id gets; nil where the rule leaves it open.
func (i *identity) first() *int64 {
	if i == nil || i.Rule != mustRunAs || len(i.Ranges) == 0 {
		return nil
	}
	id := i.Ranges[0].Min
	return &id
}

// under reports whether the path is the prefix or below it.
func (h hostPath) under(path string) bool {
	prefix := strings.TrimSuffix(h.PathPrefix, "/")
	path = strings.TrimSuffix(path, "/")
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// has reports whether the list has the name, or * for all.
func has[T ~string](list []T, name T) bool {
	return slices.Contains(list, name) || slices.Contains(list, T("*"))
}

// matches reports whether a sysctl is one of the patterns, which may end with a *.
func matches(patterns []string, sysctl string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, wild := strings.CutSuffix(pattern, "*")
		return wild && strings.HasPrefix(sysctl, prefix) || pattern == sysctl
	})
}
