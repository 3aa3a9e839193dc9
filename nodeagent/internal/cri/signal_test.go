package cri

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestSignals(t *testing.T) {
	t.Parallel()
	for n, name := range runtimeapi.Signal_name {
		api := signalName(runtimeapi.Signal(n))
		if n == 0 {
			if api != "" {
				t.Errorf("the runtime's own choice is %s", api)
			}
			continue
		}
		if back, ok := Signal(api); !ok || int32(back) != n {
			t.Errorf("%s is %s, which is %s", name, api, back)
		}
	}
	for name, want := range map[corev1.Signal]runtimeapi.Signal{
		corev1.SIGTERM: runtimeapi.Signal_SIGTERM, corev1.SIGRTMINPLUS3: runtimeapi.Signal_SIGRTMINPLUS3, corev1.SIGRTMAXMINUS14: runtimeapi.Signal_SIGRTMAXMINUS14,
	} {
		if got, ok := Signal(name); !ok || got != want {
			t.Errorf("%s is %s", name, got)
		}
	}
	if _, ok := Signal("SIGNOT"); ok {
		t.Error("SIGNOT is a signal")
	}
}
