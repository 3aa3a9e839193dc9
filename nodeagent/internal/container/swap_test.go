package container

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/nodeagent/internal/pod"
)

// TestSwap gives Burstable pods a share of the node's swap space where that is wished, and nobody any otherwise.
func TestSwap(t *testing.T) {
	t.Parallel()
	bytes := func(text string) corev1.ResourceList {
		if text == "" {
			return nil
		}
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(text)}
	}
	critical := int32(pod.SystemCritical)
	limited := Swap{Bounded: true, Limited: true, Capacity: 1 << 30}
	for name, c := range map[string]struct {
		swap           Swap
		request, limit string
		priority       *int32
		want           string // memory.swap.max, "" where it is not said
		both           int64
	}{
		"a share":                    {limited, "1Gi", "2Gi", nil, "268435456", 0},
		"without a limit":            {limited, "1Gi", "", nil, "268435456", 0},
		"all its memory is its own":  {limited, "1Gi", "1Gi", nil, "0", 0},
		"it asks for none":           {limited, "", "", nil, "0", 0},
		"it has no more than that":   {limited, "", "1Gi", nil, "0", 0},
		"more than the node has":     {limited, "8Gi", "", nil, "0", 0},
		"the system needs it":        {limited, "1Gi", "2Gi", &critical, "0", 0},
		"nobody has any":             {Swap{Bounded: true, Capacity: 1 << 30}, "1Gi", "2Gi", nil, "0", 0},
		"nobody, and no limit":       {Swap{Bounded: true, Capacity: 1 << 30}, "", "", nil, "0", 0},
		"control groups version 1":   {Swap{Limited: true, Capacity: 1 << 30}, "1Gi", "2Gi", nil, "", 2 << 30},
		"version 1, and no limit":    {Swap{Limited: true, Capacity: 1 << 30}, "1Gi", "", nil, "", 0},
		"the node has no swap space": {Swap{Bounded: true, Limited: true}, "1Gi", "2Gi", nil, "0", 0},
	} {
		b := builder(t)
		b.Node.Capacity, b.Node.Swap = bytes("4Gi"), c.swap
		one := corev1.Container{Resources: corev1.ResourceRequirements{Requests: bytes(c.request), Limits: bytes(c.limit)}}
		if c.request == "" { // as defaults have it
			one.Resources.Requests = bytes(c.limit)
		}
		other := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}
		b.Pod.Spec.Containers, b.Pod.Spec.Priority = []corev1.Container{one, other}, c.priority
		r := Resources(b.Pod, &one, b.Node)
		if r.GetUnified()["memory.swap.max"] != c.want || r.GetMemorySwapLimitInBytes() != c.both {
			t.Errorf("%s: %v, both together %d", name, r.GetUnified(), r.GetMemorySwapLimitInBytes())
		}
	}
}
