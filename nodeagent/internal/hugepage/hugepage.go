// Package hugepage knows the machine's huge pages and their names: those of resources (hugepages-2Mi), of the CRI and control groups (2MB), and
// of media of empty folders (HugePages-2Mi).
package hugepage

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resource is that of pages of a size in bytes.
func Resource(size int64) corev1.ResourceName {
	return corev1.ResourceName(corev1.ResourceHugePagesPrefix + resource.NewQuantity(size, resource.BinarySI).String())
}

// Size is that of a resource's pages in bytes; false for other resources.
func Size(name corev1.ResourceName) (int64, bool) {
	text, ok := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
	if !ok {
		return 0, false
	}
	q, err := resource.ParseQuantity(text)
	return q.Value(), err == nil && q.Value() > 0
}

// Unit is a size as the kernel's control groups, and so the CRI, write it.
func Unit(size int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	at := 0
	for ; size >= 1024 && at < len(units)-1; at++ {
		size /= 1024
	}
	return strconv.FormatInt(size, 10) + units[at]
}

// Read returns what the machine has of each size, in bytes; sys is /sys. A kernel without huge pages has none.
func Read(sys string) (corev1.ResourceList, error) {
	folders, err := filepath.Glob(filepath.Join(sys, "kernel/mm/hugepages/hugepages-*kB"))
	if err != nil {
		return nil, err
	}
	out := corev1.ResourceList{}
	for _, folder := range folders {
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(folder), "hugepages-"), "kB"), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", folder, err)
		}
		raw, err := os.ReadFile(filepath.Join(folder, "nr_hugepages"))
		if err != nil {
			return nil, err
		}
		count, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s/nr_hugepages: %w", folder, err)
		}
		out[Resource(kib<<10)] = *resource.NewQuantity(count*(kib<<10), resource.BinarySI)
	}
	return out, nil
}

// OfMedium is the size, in bytes, of the pages of an empty folder on a medium: that of its name, or else the one that the pod's containers ask for.
func OfMedium(medium corev1.StorageMedium, p *corev1.Pod) (int64, error) {
	asked := map[int64]bool{}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			collect(asked, list[i].Resources.Requests)
		}
	}
	if p.Spec.Resources != nil {
		collect(asked, p.Spec.Resources.Requests)
	}
	sizes := slices.Sorted(maps.Keys(asked))
	if text, named := strings.CutPrefix(string(medium), string(corev1.StorageMediumHugePagesPrefix)); named {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return 0, fmt.Errorf("medium %q: %w", medium, err)
		}
		if !asked[q.Value()] {
			return 0, fmt.Errorf("medium %q: no container of the pod requests %s", medium, Resource(q.Value()))
		}
		return q.Value(), nil
	}
	switch len(sizes) {
	case 0:
		return 0, fmt.Errorf("medium %q: no container of the pod requests huge pages", medium)
	case 1:
		return sizes[0], nil
	}
	return 0, fmt.Errorf("medium %q: the pod requests huge pages of several sizes, and the medium names none", medium)
}

func collect(sizes map[int64]bool, requests corev1.ResourceList) {
	for name, q := range requests {
		if size, ok := Size(name); ok && !q.IsZero() {
			sizes[size] = true
		}
	}
}
