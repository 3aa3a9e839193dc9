package devicetaint

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/utils/ptr"
)

func TestApply(t *testing.T) {
	t.Parallel()
	slice := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
		Driver: "d", Pool: resourcev1.ResourcePool{Name: "p"},
		Devices: []resourcev1.Device{{Name: "a", Taints: []resourcev1.DeviceTaint{{Key: "own"}}}, {Name: "b"}},
	}}
	for what, c := range map[string]struct {
		selector *resourcev1beta2.DeviceTaintSelector
		want     [2]int // taints of a and b
	}{
		"no selector":    {nil, [2]int{1, 0}},
		"an empty one":   {&resourcev1beta2.DeviceTaintSelector{}, [2]int{2, 1}},
		"the driver":     {&resourcev1beta2.DeviceTaintSelector{Driver: ptr.To("d")}, [2]int{2, 1}},
		"another driver": {&resourcev1beta2.DeviceTaintSelector{Driver: ptr.To("e")}, [2]int{1, 0}},
		"one device":     {&resourcev1beta2.DeviceTaintSelector{Driver: ptr.To("d"), Pool: ptr.To("p"), Device: ptr.To("b")}, [2]int{1, 1}},
		"another pool":   {&resourcev1beta2.DeviceTaintSelector{Pool: ptr.To("q"), Device: ptr.To("b")}, [2]int{1, 0}},
	} {
		rule := &Rule{Spec: resourcev1beta2.DeviceTaintRuleSpec{DeviceSelector: c.selector, Taint: resourcev1beta2.DeviceTaint{Key: "k", Value: "v", Effect: resourcev1beta2.DeviceTaintEffectNoExecute}}}
		got := Apply(slice, []*Rule{rule})
		if have := [2]int{len(got.Spec.Devices[0].Taints), len(got.Spec.Devices[1].Taints)}; have != c.want {
			t.Errorf("%s: %v taints, want %v", what, have, c.want)
		}
		if c.want == [2]int{1, 0} && got != slice {
			t.Errorf("%s: copied for nothing", what)
		}
		for _, taint := range got.Spec.Devices[1].Taints {
			if taint.Key != "k" || taint.Value != "v" || taint.Effect != resourcev1.DeviceTaintEffectNoExecute {
				t.Errorf("%s: %+v", what, taint)
			}
		}
	}
	if len(slice.Spec.Devices[0].Taints) != 1 || len(slice.Spec.Devices[1].Taints) != 0 {
		t.Error("the slice was changed")
	}
}
