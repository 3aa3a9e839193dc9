package cri

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The runtime's names have words for the signs of signals that count from another.
var (
	toRuntime = strings.NewReplacer("+", "PLUS", "-", "MINUS")
	toAPI     = strings.NewReplacer("PLUS", "+", "MINUS", "-")
)

// Signal returns the runtime's number for a signal, and whether there is one.
func Signal(name corev1.Signal) (runtimeapi.Signal, bool) {
	n, ok := runtimeapi.Signal_value[toRuntime.Replace(string(name))]
	return runtimeapi.Signal(n), ok
}

// signalName is the API's name for what the runtime ends a container with, "" where the runtime does not tell.
func signalName(signal runtimeapi.Signal) corev1.Signal {
	if signal == runtimeapi.Signal_RUNTIME_DEFAULT {
		return ""
	}
	return corev1.Signal(toAPI.Replace(signal.String()))
}
