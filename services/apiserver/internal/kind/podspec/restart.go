package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/check"
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
