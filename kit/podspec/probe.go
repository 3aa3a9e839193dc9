package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

func (s *scope) validateProbes(c *corev1.Container, path *field.Path) field.ErrorList {
	errs := validateProbe(c.LivenessProbe, path.Child("livenessProbe"))
	errs = append(errs, validateKilling(c.LivenessProbe, path.Child("livenessProbe"))...)
	errs = append(errs, validateProbe(c.ReadinessProbe, path.Child("readinessProbe"))...)
	if p := c.ReadinessProbe; p != nil && p.TerminationGracePeriodSeconds != nil {
		errs = append(errs, field.Invalid(path.Child("readinessProbe", "terminationGracePeriodSeconds"),
			*p.TerminationGracePeriodSeconds, "must not be set for readinessProbes"))
	}
	errs = append(errs, validateProbe(c.StartupProbe, path.Child("startupProbe"))...)
	return append(errs, validateKilling(c.StartupProbe, path.Child("startupProbe"))...)
}

// validateKilling checks what goes for probes whose failure ends the container.
func validateKilling(p *corev1.Probe, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	if p.SuccessThreshold != 1 {
		return field.ErrorList{field.Invalid(path.Child("successThreshold"), p.SuccessThreshold, "must be 1")}
	}
	return nil
}

func validateProbe(p *corev1.Probe, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := validateHandler(handler{exec: p.Exec, http: p.HTTPGet, tcp: p.TCPSocket, grpc: p.GRPC}, path)
	for _, f := range []struct {
		name string
		n    int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds}, {"timeoutSeconds", p.TimeoutSeconds},
		{"periodSeconds", p.PeriodSeconds}, {"successThreshold", p.SuccessThreshold}, {"failureThreshold", p.FailureThreshold},
	} {
		errs = append(errs, check.NonNegative(f.n, path.Child(f.name))...)
	}
	if n := p.TerminationGracePeriodSeconds; n != nil && *n <= 0 {
		errs = append(errs, field.Invalid(path.Child("terminationGracePeriodSeconds"), *n, "must be greater than 0"))
	}
	return errs
}

// handler is what a probe or a hook does: one of these.
type handler struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
	// grace is the pod's grace period, the longest sleep.
	grace *int64
}

func validateHandler(h handler, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	n := 0
	one := func(set bool, name string, validate func(*field.Path) field.ErrorList) {
		if !set {
			return
		}
		if n++; n > 1 {
			errs = append(errs, field.Forbidden(path.Child(name), "may not specify more than 1 handler type"))
			return
		}
		errs = append(errs, validate(path.Child(name))...)
	}
	one(h.exec != nil, "exec", func(at *field.Path) field.ErrorList {
		if len(h.exec.Command) == 0 {
			return field.ErrorList{field.Required(at.Child("command"), "")}
		}
		return nil
	})
	one(h.http != nil, "httpGet", func(at *field.Path) field.ErrorList { return validateHTTPGet(h.http, at) })
	one(h.tcp != nil, "tcpSocket", func(at *field.Path) field.ErrorList { return validatePort(h.tcp.Port, at.Child("port")) })
	one(h.grpc != nil, "grpc", func(at *field.Path) field.ErrorList { return check.Port(h.grpc.Port, at.Child("port")) })
	one(h.sleep != nil, "sleep", func(at *field.Path) field.ErrorList {
		if h.grace != nil && (h.sleep.Seconds < 0 || h.sleep.Seconds > *h.grace) {
			return field.ErrorList{field.Invalid(at, h.sleep.Seconds,
				fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *h.grace))}
		}
		return nil
	})
	if n == 0 {
		errs = append(errs, field.Required(path, "must specify a handler type"))
	}
	return errs
}

func validateHTTPGet(h *corev1.HTTPGetAction, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if h.Path == "" {
		errs = append(errs, field.Required(path.Child("path"), ""))
	}
	errs = append(errs, validatePort(h.Port, path.Child("port"))...)
	errs = append(errs, check.OneOf(h.Scheme, path.Child("scheme"), corev1.URISchemeHTTP, corev1.URISchemeHTTPS)...)
	for _, header := range h.HTTPHeaders {
		errs = append(errs, check.Each(validation.IsHTTPHeaderName(header.Name), header.Name, path.Child("httpHeaders"))...)
	}
	return errs
}

func validatePort(port intstr.IntOrString, path *field.Path) field.ErrorList {
	if port.Type == intstr.Int {
		return check.Each(validation.IsValidPortNum(port.IntValue()), port.IntValue(), path)
	}
	return check.Each(portName(port.StrVal), port.StrVal, path)
}

func (s *scope) validateLifecycle(l *corev1.Lifecycle, path *field.Path) field.ErrorList {
	if l == nil {
		return nil
	}
	var errs field.ErrorList
	hook := func(h *corev1.LifecycleHandler, name string) {
		if h != nil {
			errs = append(errs, validateHandler(handler{
				exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep, grace: s.spec.TerminationGracePeriodSeconds,
			}, path.Child(name))...)
		}
	}
	hook(l.PostStart, "postStart")
	hook(l.PreStop, "preStop")
	return append(errs, s.validateStopSignal(l.StopSignal, path.Child("stopSignal"))...)
}
