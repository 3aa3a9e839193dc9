package hugepage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64][2]string{64 << 10: {"hugepages-64Ki", "64KB"}, 2 << 20: {"hugepages-2Mi", "2MB"}, 1 << 30: {"hugepages-1Gi", "1GB"}} {
		if name, unit := string(Resource(size)), Unit(size); name != want[0] || unit != want[1] {
			t.Errorf("%d: %s and %s, want %v", size, name, unit, want)
		}
		if got, ok := Size(corev1.ResourceName(want[0])); !ok || got != size {
			t.Errorf("%s: %d, %v", want[0], got, ok)
		}
	}
	for _, name := range []corev1.ResourceName{"memory", "hugepages-x", "hugepages-0"} {
		if size, ok := Size(name); ok {
			t.Errorf("%s has the size %d", name, size)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	sys := t.TempDir()
	if got, err := Read(sys); err != nil || len(got) != 0 {
		t.Errorf("a kernel without: %v, %v", got, err)
	}
	write := func(folder, count string) {
		path := filepath.Join(sys, "kernel/mm/hugepages", folder)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "nr_hugepages"), []byte(count), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("hugepages-2048kB", "3\n")
	write("hugepages-1048576kB", "0\n")
	got, err := Read(sys)
	if err != nil || len(got) != 2 || got["hugepages-1Gi"] != resource.MustParse("0") && !got.Name("hugepages-1Gi", resource.BinarySI).IsZero() {
		t.Errorf("%v, %v", got, err)
	}
	if q := got["hugepages-2Mi"]; q.String() != "6Mi" {
		t.Errorf("2Mi pages: %s", q.String())
	}
	write("hugepages-2048kB", "many")
	if got, err := Read(sys); err == nil {
		t.Errorf("no number: %v", got)
	}
}

func TestOfMedium(t *testing.T) {
	t.Parallel()
	asking := func(names ...corev1.ResourceName) corev1.ResourceRequirements {
		r := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
		for _, name := range names {
			r.Requests[name] = resource.MustParse("1Gi")
		}
		return r
	}
	for name, test := range map[string]struct {
		medium      corev1.StorageMedium
		first, main corev1.ResourceRequirements
		whole       *corev1.ResourceRequirements
		want        int64
		says        string
	}{
		"the one":           {medium: "HugePages", main: asking("hugepages-2Mi"), want: 2 << 20},
		"of the first":      {medium: "HugePages", first: asking("hugepages-1Gi"), want: 1 << 30},
		"twice the same":    {medium: "HugePages", first: asking("hugepages-2Mi"), main: asking("hugepages-2Mi"), want: 2 << 20},
		"named":             {medium: "HugePages-1Gi", main: asking("hugepages-2Mi", "hugepages-1Gi"), want: 1 << 30},
		"of the pod":        {medium: "HugePages-2Mi", whole: &corev1.ResourceRequirements{Requests: asking("hugepages-2Mi").Requests}, want: 2 << 20},
		"several":           {medium: "HugePages", main: asking("hugepages-2Mi", "hugepages-1Gi"), says: "several sizes"},
		"none":              {medium: "HugePages", main: asking(), says: "requests huge pages"},
		"named, not wanted": {medium: "HugePages-1Gi", main: asking("hugepages-2Mi"), says: "requests hugepages-1Gi"},
		"no size":           {medium: "HugePages-x", main: asking("hugepages-2Mi"), says: "medium"},
	} {
		p := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Resources: test.first}}, Containers: []corev1.Container{{Resources: test.main}}, Resources: test.whole}}
		got, err := OfMedium(test.medium, p)
		if got != test.want || (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}
