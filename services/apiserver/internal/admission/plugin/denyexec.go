package plugin

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/admission"
)

// DenyExec keeps users out of containers by which they could leave for the node. Kubernetes removed it in 1.18.
type DenyExec struct {
	// Title is DenyEscalatingExec or DenyExecOnPrivileged; only the first minds the node's namespaces.
	Title string
}

// Name implements admission.Plugin.
func (d *DenyExec) Name() string { return d.Title }

// Handles implements admission.Plugin.
func (*DenyExec) Handles(a *admission.Attributes) bool {
	return a.Operation == admission.Connect && a.Is("", "pods") && (a.Subresource == "exec" || a.Subresource == "attach")
}

// Validate implements admission.Validator.
func (d *DenyExec) Validate(_ context.Context, a *admission.Attributes) error {
	pod, ok := a.Old.(*corev1.Pod)
	if !ok {
		return nil
	}
	switch {
	case d.Title == "DenyEscalatingExec" && pod.Spec.HostPID:
		return a.Forbidden(errors.New("cannot exec into or attach to a container using host pid"))
	case d.Title == "DenyEscalatingExec" && pod.Spec.HostIPC:
		return a.Forbidden(errors.New("cannot exec into or attach to a container using host ipc"))
	case privileged(&pod.Spec):
		return a.Forbidden(errors.New("cannot exec into or attach to a privileged container"))
	}
	return nil
}
