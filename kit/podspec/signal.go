package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What containers may be told to end with, by the system of the pod's nodes.
var (
	linuxSignals   = linux()
	windowsSignals = []corev1.Signal{corev1.SIGKILL, corev1.SIGTERM}
)

func linux() []corev1.Signal {
	var all []corev1.Signal
	for name := range strings.FieldsSeq("ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT RTMAX RTMIN SEGV STKFLT STOP SYS TERM TRAP " +
		"TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ") {
		all = append(all, corev1.Signal("SIG"+name))
	}
	for n := 1; n <= 15; n++ { // the two count towards each other, and each signal has one name
		all = append(all, corev1.Signal(fmt.Sprintf("SIGRTMIN+%d", n)))
		if n < 15 {
			all = append(all, corev1.Signal(fmt.Sprintf("SIGRTMAX-%d", n)))
		}
	}
	slices.Sort(all)
	return all
}

// validateStopSignal wants one of those of the pod's system, which the pod has to name.
func (s *scope) validateStopSignal(signal *corev1.Signal, path *field.Path) field.ErrorList {
	if signal == nil {
		return nil
	}
	if s.spec.OS == nil {
		return field.ErrorList{field.Forbidden(path, "may not be set for containers with empty `spec.os.name`")}
	}
	known, ok := map[corev1.OSName][]corev1.Signal{corev1.Linux: linuxSignals, corev1.Windows: windowsSignals}[s.spec.OS.Name]
	if !ok || slices.Contains(known, *signal) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, *signal, known)}
}
