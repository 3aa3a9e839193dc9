package codec

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestEmbedded(t *testing.T) {
	t.Parallel()
	claim := func(raw string) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Config: []resourcev1.DeviceClaimConfiguration{{
			DeviceConfiguration: resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{Parameters: runtime.RawExtension{Raw: []byte(raw)}}},
		}}}}}
	}
	for name, tt := range map[string]struct {
		obj  any
		want string
	}{
		"no extension":     {&corev1.Pod{}, ""},
		"a recursive type": {&apiextensionsv1.CustomResourceDefinition{}, ""},
		"nothing":          {&appsv1.ControllerRevision{}, ""},
		"an object":        {&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(`{"a":1}`)}}, ""},
		"empty":            {&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte{}}}, "data: invalid JSON"},
		"half of one":      {&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(`{"a"`)}}, "data: invalid JSON"},
		"deep and right":   {claim(`{}`), ""},
		"deep and wrong":   {claim(`z`), "spec.devices.config[0].opaque.parameters: invalid JSON"},
	} {
		got := ""
		if err := checkEmbedded(tt.obj); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
