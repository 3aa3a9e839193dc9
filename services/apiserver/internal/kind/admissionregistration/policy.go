package admissionregistration

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/util/jsonpath"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/expression"
	"howdah.dev/services/apiserver/internal/kind/row"
)

// Limits of audit annotations.
const (
	maxAnnotations   = 20
	maxAnnotationCEL = 5 << 10 // bytes of a valueExpression
)

// compile returns the problem of an expression, if it has any.
func compile(c plugincel.Compiler, e plugincel.ExpressionAccessor, params, authorizer bool, mode environment.Type, path *field.Path) field.ErrorList {
	return compileWith(c, e, plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: authorizer}, mode, path)
}

func compileWith(c plugincel.Compiler, e plugincel.ExpressionAccessor, with plugincel.OptionalVariableDeclarations, mode environment.Type, path *field.Path) field.ErrorList {
	if r := c.CompileCELExpression(e, with, mode); r.Error != nil {
		return field.ErrorList{expression.Problem(path, e.GetExpression(), r.Error)}
	}
	return nil
}

// shared is what policies of both kinds have.
type shared struct {
	failure    *admissionv1.FailurePolicyType
	params     *admissionv1.ParamKind
	match      *admissionv1.MatchResources
	conditions []admissionv1.MatchCondition
	variables  []admissionv1.Variable
	mutates    bool
	stored     stored
}

// validate returns the problems of what policies share, and a compiler that knows the policy's variables.
func (s *shared) validate(path *field.Path) (plugincel.Compiler, field.ErrorList) {
	errs := check.OneOf(row.Deref(s.failure), path.Child("failurePolicy"), admissionv1.Fail, admissionv1.Ignore)
	if s.params != nil {
		errs = append(errs, validateParamKind(s.params, path.Child("paramKind"))...)
	}
	if s.match == nil {
		errs = append(errs, field.Required(path.Child("matchConstraints"), ""))
	} else {
		errs = append(errs, validateMatch(s.match, path.Child("matchConstraints"))...)
		if len(s.match.ResourceRules) == 0 {
			errs = append(errs, field.Required(path.Child("matchConstraints", "resourceRules"), ""))
		}
	}
	if !s.stored.settled {
		errs = append(errs, validateConditions(s.conditions, s.params != nil, s.stored.conditions, path.Child("matchConditions"))...)
	}
	if len(s.variables) == 0 && !s.mutates { // where nothing can name one, there is no such name
		return expression.Plain(), errs
	}
	composed, err := expression.Composed()
	if err != nil {
		return expression.Plain(), append(errs, field.InternalError(path.Child("variables"), err))
	}
	for i, v := range s.variables {
		errs = append(errs, s.variable(composed, &v, path.Child("variables").Index(i))...)
	}
	return composed, errs
}

func (s *shared) variable(c *plugincel.CompositedCompiler, v *admissionv1.Variable, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if strings.TrimSpace(v.Name) == "" {
		errs = append(errs, field.Required(path.Child("name"), "name is not specified"))
	} else if !identifier(v.Name) {
		errs = append(errs, field.Invalid(path.Child("name"), v.Name, "must be a valid CEL identifier"))
	}
	if strings.TrimSpace(v.Expression) == "" {
		return append(errs, field.Required(path.Child("expression"), "expression is not specified"))
	}
	with := plugincel.OptionalVariableDeclarations{HasParams: s.params != nil, HasAuthorizer: true}
	mode := s.stored.validations.mode(v.Expression) // what a validation says may be said by a variable, too
	if r := c.CompileAndStoreVariable(expression.Variable(v.Name, v.Expression), with, mode); r.Error != nil {
		errs = append(errs, expression.Problem(path.Child("expression"), v.Expression, r.Error))
	}
	return errs
}

var (
	identifiers = regexp.MustCompile("^[_a-zA-Z][_a-zA-Z0-9]*$")
	newlines    = regexp.MustCompile(`[\n\r]`)
	reserved    = strings.Fields("true false null in as break const continue else for function if import let loop package namespace return var void while")
)

func identifier(name string) bool {
	return identifiers.MatchString(name) && !slices.Contains(reserved, name)
}

func validateParamKind(k *admissionv1.ParamKind, path *field.Path) field.ErrorList {
	errs := validateParamVersion(k.APIVersion, path.Child("apiVersion"))
	if k.Kind == "" {
		return append(errs, field.Required(path.Child("kind"), ""))
	}
	if m := validation.IsDNS1035Label(strings.ToLower(k.Kind)); len(m) > 0 {
		errs = append(errs, field.Invalid(path.Child("kind"), k.Kind, "may have mixed case, but should otherwise match: "+strings.Join(m, ",")))
	}
	return errs
}

func validateParamVersion(text string, path *field.Path) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	if strings.Count(text, "/") > 1 {
		return field.ErrorList{field.Invalid(path, text, "unexpected GroupVersion string: "+text)}
	}
	group, version, grouped := strings.Cut(text, "/")
	if !grouped {
		group, version = "", text
	}
	var errs field.ErrorList
	if m := validation.IsDNS1123Subdomain(group); group != "" && len(m) > 0 {
		errs = append(errs, field.Invalid(path, group, strings.Join(m, ",")))
	}
	if version == "" {
		errs = append(errs, field.Invalid(path, text, "version must be specified"))
	} else if m := validation.IsDNS1035Label(version); len(m) > 0 {
		errs = append(errs, field.Invalid(path, version, strings.Join(m, ",")))
	}
	return errs
}

func validateValidatingPolicy(p, old *validatingPolicy) field.ErrorList {
	spec, path := &p.Spec, field.NewPath("spec")
	s := &shared{spec.FailurePolicy, spec.ParamKind, spec.MatchConstraints, spec.MatchConditions, spec.Variables, false, storedValidating(p, old)}
	compiler, errs := s.validate(path)
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		const text = "validations or auditAnnotations must contain at least one item"
		return append(errs, field.Required(path.Child("validations"), text), field.Required(path.Child("auditAnnotations"), text))
	}
	for i := range spec.Validations {
		errs = append(errs, validateValidation(compiler, &spec.Validations[i], s.params != nil, &s.stored, path.Child("validations").Index(i))...)
	}
	at := path.Child("auditAnnotations")
	if len(spec.AuditAnnotations) > maxAnnotations {
		errs = append(errs, field.Invalid(at, spec.AuditAnnotations, fmt.Sprintf("must not have more than %d auditAnnotations", maxAnnotations)))
	}
	keys := map[string]bool{}
	for i := range spec.AuditAnnotations {
		a := &spec.AuditAnnotations[i]
		errs = append(errs, validateAnnotation(compiler, p.Name, a, s.params != nil, s.stored.annotations, at.Index(i))...)
		if keys[a.Key] {
			errs = append(errs, field.Duplicate(at.Index(i).Child("key"), a.Key))
		}
		keys[a.Key] = true
	}
	return errs
}

func validateValidation(c plugincel.Compiler, v *admissionv1.Validation, params bool, known *stored, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(path.Child("expression"), "expression is not specified"))
	} else {
		errs = append(errs, compile(c, expression.Condition(v.Expression), params, true, known.validations.mode(v.Expression), path.Child("expression"))...)
	}
	if v.MessageExpression != "" {
		at := path.Child("messageExpression")
		if strings.TrimSpace(v.MessageExpression) == "" {
			errs = append(errs, field.Invalid(at, v.MessageExpression, "must be non-empty if specified"))
		} else {
			errs = append(errs, compile(c, expression.Message(v.MessageExpression), params, false, known.messages.mode(v.MessageExpression), at)...)
		}
	}
	switch text := strings.TrimSpace(v.Message); {
	case v.Message != "" && text == "":
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must be non-empty if specified"))
	case newlines.MatchString(text):
		errs = append(errs, field.Invalid(path.Child("message"), v.Message, "must not contain line breaks"))
	}
	if v.Reason != nil {
		errs = append(errs, check.OneOf(*v.Reason, path.Child("reason"), metav1.StatusReasonForbidden, metav1.StatusReasonInvalid,
			metav1.StatusReasonRequestEntityTooLarge)...)
	}
	return errs
}

func validateAnnotation(c plugincel.Compiler, policy string, a *admissionv1.AuditAnnotation, params bool, known texts, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if policy == "" {
		errs = append(errs, field.Invalid(path.Child("key"), a.Key, "requires metadata.name be non-empty"))
	} else {
		errs = append(errs, check.QualifiedName(policy+"/"+a.Key, path.Child("key"))...)
	}
	at := path.Child("valueExpression")
	switch text := strings.TrimSpace(a.ValueExpression); {
	case text == "":
		return append(errs, field.Required(at, "valueExpression is not specified"))
	case len(text) > maxAnnotationCEL:
		return append(errs, field.Required(at, fmt.Sprintf("must not exceed %d bytes in length", maxAnnotationCEL)))
	default:
		return append(errs, compile(c, expression.Annotation(text), params, true, known.mode(a.ValueExpression), at)...)
	}
}

func validateMutatingPolicy(p, old *mutatingPolicy) field.ErrorList {
	spec, path := &p.Spec, field.NewPath("spec")
	s := &shared{spec.FailurePolicy, spec.ParamKind, spec.MatchConstraints, spec.MatchConditions, spec.Variables, true, storedMutating(p, old)}
	compiler, errs := s.validate(path)
	errs = append(errs, noDeletion(spec.MatchConstraints, path.Child("matchConstraints", "resourceRules", "operations"))...)
	if len(spec.Mutations) == 0 {
		errs = append(errs, field.Required(path.Child("mutations"), "mutations must contain at least one item"))
	}
	for i := range spec.Mutations {
		errs = append(errs, validateMutation(compiler, &spec.Mutations[i], s.params != nil, s.stored.mutations, path.Child("mutations").Index(i))...)
	}
	return append(errs, check.Choice(spec.ReinvocationPolicy, path.Child("reinvocationPolicy"),
		admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy)...)
}

// noDeletion refuses rules for deletions, in which there is nothing to mutate.
func noDeletion(m *admissionv1.MatchResources, path *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	mutable := []admissionv1.OperationType{admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Update}
	var errs field.ErrorList
	for _, r := range m.ResourceRules {
		for _, o := range r.Operations {
			errs = append(errs, check.Listed(o, path, mutable...)...)
		}
	}
	return errs
}

func validateMutation(c plugincel.Compiler, m *admissionv1.Mutation, params bool, known texts, path *field.Path) field.ErrorList {
	with := plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true, HasPatchTypes: true}
	apply, json := path.Child("applyConfiguration"), path.Child("jsonPatch")
	expressed := func(text string, e plugincel.ExpressionAccessor, at *field.Path) field.ErrorList {
		if e.GetExpression() == "" {
			return field.ErrorList{field.Required(at.Child("expression"), "")}
		}
		return compileWith(c, e, with, known.mode(text), at.Child("expression"))
	}
	var errs field.ErrorList
	switch m.PatchType {
	case admissionv1.PatchTypeApplyConfiguration:
		if a := m.ApplyConfiguration; a == nil {
			errs = append(errs, field.Required(apply, "must be specified when patchType is ApplyConfiguration"))
		} else {
			errs = append(errs, expressed(a.Expression, &patch.ApplyConfigurationCondition{Expression: strings.TrimSpace(a.Expression)}, apply)...)
		}
		if m.JSONPatch != nil {
			errs = append(errs, field.Invalid(json, "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration"))
		}
		return errs
	case admissionv1.PatchTypeJSONPatch:
		if j := m.JSONPatch; j == nil {
			errs = append(errs, field.Required(json, "must be specified when patchType is JSONPatch"))
		} else {
			errs = append(errs, expressed(j.Expression, &patch.JSONPatchCondition{Expression: strings.TrimSpace(j.Expression)}, json)...)
		}
		if m.ApplyConfiguration != nil {
			errs = append(errs, field.Invalid(apply, "{applyConfiguration}", "must not be specified when patchType is JSONPatch"))
		}
		return errs
	}
	return check.Choice(m.PatchType, path.Child("patchType"), admissionv1.PatchTypeApplyConfiguration, admissionv1.PatchTypeJSONPatch)
}

func validatePolicyStatus(p, _ *validatingPolicy) field.ErrorList {
	path := field.NewPath("status")
	var errs field.ErrorList
	if p.Status.TypeChecking != nil {
		for i, w := range p.Status.TypeChecking.ExpressionWarnings {
			at := path.Child("typeChecking", "expressionWarnings").Index(i)
			if w.Warning == "" {
				errs = append(errs, field.Required(at.Child("warning"), ""))
			}
			if ref := strings.TrimSpace(w.FieldRef); ref == "" {
				errs = append(errs, field.Required(at.Child("fieldRef"), ""))
			} else if err := jsonpath.New("spec").Parse("{" + ref + "}"); err != nil {
				errs = append(errs, field.Invalid(at.Child("fieldRef"), ref, fmt.Sprintf("invalid JSONPath: %v", err)))
			}
		}
	}
	return append(errs, metavalidation.ValidateConditions(p.Status.Conditions, path.Child("conditions"))...)
}
