package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// How many rules a container may have, and a rule exit codes.
const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

// validateRestart checks how a container restarts by itself.
func validateRestart(c *corev1.Container, path *field.Path) field.ErrorList {
	errs := validateRestartPolicy(c, path)
	return append(errs, validateRestartRules(c, path)...)
}

func validateRestartPolicy(c *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p := c.RestartPolicy; p != nil {
		errs = append(errs, check.OneOf(*p, path.Child("restartPolicy"),
			corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)...)
	}
	if len(c.RestartPolicyRules) > 0 && c.RestartPolicy == nil {
		errs = append(errs, field.Required(path.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"))
	}
	return errs
}

func validateRestartRules(c *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	rules := path.Child("restartPolicyRules")
	if len(c.RestartPolicyRules) > maxRestartRules {
		errs = append(errs, field.TooMany(rules, len(c.RestartPolicyRules), maxRestartRules))
	}
	for i, r := range c.RestartPolicyRules {
		at := rules.Index(i)
		errs = append(errs, check.OneOf(r.Action, at.Child("action"),
			corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)...)
		if r.ExitCodes == nil {
			errs = append(errs, field.Required(at.Child("exitCodes"), "must be specified"))
			continue
		}
		errs = append(errs, check.OneOf(r.ExitCodes.Operator, at.Child("exitCodes", "operator"),
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)...)
		if n := len(r.ExitCodes.Values); n > maxExitCodes {
			errs = append(errs, field.TooMany(at.Child("exitCodes", "values"), n, maxExitCodes))
		}
	}
	return errs
}

// RestartsAll reports that a rule of a container may restart all containers of its pod.
func RestartsAll(spec *corev1.PodSpec) bool {
	all := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	}
	return slices.ContainsFunc(spec.InitContainers, all) || slices.ContainsFunc(spec.Containers, all)
}

// Restarts reports whether a container that has ended with the code comes back: the first rule that is about the code decides, then the
// container's own policy, then that of its pod.
func Restarts(c *corev1.Container, pod corev1.RestartPolicy, code int32) bool {
	policy := pod
	if c.RestartPolicy != nil {
		if slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool { return about(r.ExitCodes, code) }) {
			return true // whatever its action is
		}
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	switch policy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	}
	return true
}

func about(codes *corev1.ContainerRestartRuleOnExitCodes, code int32) bool {
	if codes == nil {
		return false
	}
	switch codes.Operator {
	case corev1.ContainerRestartRuleOnExitCodesOpIn:
		return slices.Contains(codes.Values, code)
	case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !slices.Contains(codes.Values, code)
	}
	return false
}
