// Package node is the kind Node.
package node

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

// Kind returns the kind; now is the clock for ages.
func Kind(now func() time.Time) *registry.Kind {
	return &registry.Kind{
		GVK:      corev1.SchemeGroupVersion.WithKind("Node"),
		Resource: "nodes", Singular: "node", ShortNames: []string{"no"},
		New:     func() registry.Object { return &corev1.Node{} },
		NewList: func() runtime.Object { return &corev1.NodeList{} },

		Default: typed.Do(fill),
		// A node's agent registers it with its status: create keeps that.
		PrepareCreate:  typed.Do(dropDisabled),
		PrepareUpdate:  typed.Change(func(n, old *corev1.Node) { n.Status = old.Status; dropDisabled(n) }),
		Validate:       typed.Check(validate),
		ValidateUpdate: typed.CheckChange(validateUpdate),
		Warnings:       typed.Warn(func(n, _ *corev1.Node) []string { return warnings(n) }),

		Status: &registry.Status{
			Carry:          func(obj, whole registry.Object) { whole.(*corev1.Node).Spec.DeepCopyInto(&obj.(*corev1.Node).Spec) },
			PrepareUpdate:  typed.Change(func(n, old *corev1.Node) { n.Spec = old.Spec; dropDisabled(n) }),
			ValidateUpdate: typed.CheckChange(validateUpdate),
		},

		SelectableFields: typed.Get(func(n *corev1.Node) fields.Set {
			return fields.Set{"spec.unschedulable": strconv.FormatBool(n.Spec.Unschedulable)}
		}),
		Columns: columns,
		Cells:   typed.Get(func(n *corev1.Node) []any { return cells(n, now()) }),
	}
}

// dropDisabled forgets what belongs to the feature DynamicKubeletConfig, which is no more.
func dropDisabled(n *corev1.Node) { n.Spec.ConfigSource, n.Status.Config = nil, nil }

// fill keeps the two spellings of pod CIDRs the same and lets an agent leave
// out the allocatable resources when they are the whole capacity.
func fill(n *corev1.Node) {
	switch {
	case n.Spec.PodCIDR != "" && (len(n.Spec.PodCIDRs) == 0 || n.Spec.PodCIDRs[0] != n.Spec.PodCIDR):
		n.Spec.PodCIDRs = []string{n.Spec.PodCIDR}
	case len(n.Spec.PodCIDRs) > 0:
		n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
	}
	podspec.RoundUp(n.Status.Capacity)
	podspec.RoundUp(n.Status.Allocatable)
	if len(n.Status.Allocatable) == 0 && len(n.Status.Capacity) > 0 {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
}

var info = corev1.NodeSystemInfo{}.SwaggerDoc()

var columns = []metav1.TableColumnDefinition{
	column.Name(),
	column.String("Status", "The status of the node"),
	column.String("Roles", "The roles of the node"),
	column.Age(),
	column.String("Version", info["kubeletVersion"]),
	column.Wide(column.String("Internal-IP", corev1.NodeStatus{}.SwaggerDoc()["addresses"])),
	column.Wide(column.String("External-IP", corev1.NodeStatus{}.SwaggerDoc()["addresses"])),
	column.Wide(column.String("OS-Image", info["osImage"])),
	column.Wide(column.String("Kernel-Version", info["kernelVersion"])),
	column.Wide(column.String("Container-Runtime", info["containerRuntimeVersion"])),
}

// kernel is the version with what it was built for.
func kernel(i *corev1.NodeSystemInfo) string {
	if i.KernelVersion == "" || i.Architecture == "" {
		return column.Or(i.KernelVersion, column.Unknown)
	}
	return i.KernelVersion + " (" + i.Architecture + ")"
}

func cells(n *corev1.Node, now time.Time) []any {
	i := &n.Status.NodeInfo
	return []any{
		n.Name, status(n), roles(n), column.Since(now, n.CreationTimestamp.Time), i.KubeletVersion,
		address(n, corev1.NodeInternalIP), address(n, corev1.NodeExternalIP),
		column.Or(i.OSImage, column.Unknown), kernel(i),
		column.Or(i.ContainerRuntimeVersion, column.Unknown),
	}
}

func status(n *corev1.Node) string {
	text := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if text = "NotReady"; c.Status == corev1.ConditionTrue {
			text = "Ready"
		}
	}
	if n.Spec.Unschedulable {
		text += ",SchedulingDisabled"
	}
	return text
}

// The labels that say a node's roles: the role in the key, or as the value.
const (
	rolePrefix = "node-role.kubernetes.io/"
	roleLabel  = "kubernetes.io/role"
)

func roles(n *corev1.Node) string {
	found := map[string]bool{}
	for key, value := range n.Labels {
		if role, ok := strings.CutPrefix(key, rolePrefix); ok && role != "" {
			found[role] = true
		} else if key == roleLabel && value != "" {
			found[value] = true
		}
	}
	return column.Or(strings.Join(slices.Sorted(maps.Keys(found)), ","), column.None)
}

func address(n *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return column.None
}

func warnings(n *corev1.Node) []string {
	var out []string
	if n.Spec.DoNotUseExternalID != "" {
		out = append(out, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	return out
}
