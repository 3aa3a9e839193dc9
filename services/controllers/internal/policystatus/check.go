// Package policystatus checks the types of ValidatingAdmissionPolicies' expressions against the kinds that they match, and writes
// what it finds into their status: a policy that misspells a field is told so, before it fails.
package policystatus

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// maxKinds is how many kinds an expression is checked against.
const maxKinds = 10

// Kinds knows what the API serves.
type Kinds interface {
	// KindOf returns the kind of a resource; it reports false where it is not served.
	KindOf(schema.GroupVersionResource) (schema.GroupVersionKind, bool)
	// Schema returns the schema of a kind, nil where it is not known.
	Schema(schema.GroupVersionKind) *spec.Schema
}

// Check returns the warnings about a policy's expressions.
func Check(p *registrationv1.ValidatingAdmissionPolicy, kinds Kinds) []registrationv1.ExpressionWarning {
	c := newChecker(p, kinds)
	var warnings []registrationv1.ExpressionWarning
	check := func(text string, path *field.Path) {
		if text == "" {
			return
		}
		if w := c.warning(text); w != "" {
			warnings = append(warnings, registrationv1.ExpressionWarning{FieldRef: path.String(), Warning: w})
		}
	}
	for i, v := range p.Spec.Validations {
		path := field.NewPath("spec", "validations").Index(i)
		check(v.Expression, path.Child("expression"))
		check(v.MessageExpression, path.Child("messageExpression"))
	}
	return warnings
}

// matched are the kinds that the rules name, without wildcards, in order.
func matched(p *registrationv1.ValidatingAdmissionPolicy, kinds Kinds) []schema.GroupVersionKind {
	found := map[schema.GroupVersionKind]bool{}
	if p.Spec.MatchConstraints == nil {
		return nil
	}
	for _, rule := range p.Spec.MatchConstraints.ResourceRules {
		if slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.APIVersions, "*") {
			continue
		}
		for _, group := range rule.APIGroups {
			for _, version := range rule.APIVersions {
				for _, resource := range rule.Resources {
					if strings.ContainsAny(resource, "*/") || len(found) == maxKinds {
						continue
					}
					if gvk, ok := kinds.KindOf(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}); ok {
						found[gvk] = true
					}
				}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind))
	})
}

// checker checks the expressions of one policy.
type checker struct {
	policy *registrationv1.ValidatingAdmissionPolicy
	types  []typed
	params *apiservercel.DeclType
}

type typed struct {
	gvk  schema.GroupVersionKind
	decl *apiservercel.DeclType
}

func newChecker(p *registrationv1.ValidatingAdmissionPolicy, kinds Kinds) *checker {
	c := &checker{policy: p}
	for i, gvk := range matched(p, kinds) {
		if decl := declare(kinds.Schema(gvk), fmt.Sprintf("%s%d", gvk.Kind, i)); decl != nil {
			c.types = append(c.types, typed{gvk, decl})
		}
	}
	if k := p.Spec.ParamKind; k != nil {
		c.params = declare(kinds.Schema(schema.FromAPIVersionAndKind(k.APIVersion, k.Kind)), k.Kind+"Params")
	}
	return c
}

func declare(s *spec.Schema, name string) *apiservercel.DeclType {
	if s == nil {
		return nil
	}
	decl := common.SchemaDeclType(&openapi.Schema{Schema: s}, true)
	if decl == nil {
		return nil
	}
	return decl.MaybeAssignTypeName(name)
}

// warning returns what is wrong with an expression, a line a kind; empty: nothing is.
func (c *checker) warning(text string) string {
	var lines []string
	for _, t := range c.types {
		switch err := c.compile(text, t.decl); {
		case err == nil:
		case err.Type == apiservercel.ErrorTypeInvalid:
			lines = append(lines, fmt.Sprintf("%v: %s\n", t.gvk, err))
		default:
			lines = append(lines, fmt.Sprintf("%v: type checking error: %v\n", t.gvk, err))
		}
	}
	return strings.Join(lines, "\n")
}

// expression is one of any type: what it must be the API has checked.
type expression struct{ name, text string }

func (e expression) GetName() string            { return e.name }
func (e expression) GetExpression() string      { return e.text }
func (e expression) ReturnTypes() []*celgo.Type { return []*celgo.Type{celgo.AnyType} }

func (c *checker) compile(text string, object *apiservercel.DeclType) *apiservercel.Error {
	internal := func(err error) *apiservercel.Error {
		return &apiservercel.Error{Type: apiservercel.ErrorTypeInternal, Detail: err.Error()}
	}
	environment, err := c.environment(object)
	if err != nil {
		return internal(err)
	}
	composed, err := plugincel.NewCompositedCompilerForTypeChecking(environment)
	if err != nil {
		return internal(err)
	}
	composed.Compiler = &compiler{composed}
	var all plugincel.OptionalVariableDeclarations
	for _, v := range c.policy.Spec.Variables {
		composed.CompileAndStoreVariable(expression{v.Name, v.Expression}, all, stored)
	}
	return composed.CompileCELExpression(expression{"", text}, all, stored).Error
}

const stored = environment.StoredExpressions

// environment has the variables of a policy, with the object's own type.
func (c *checker) environment(object *apiservercel.DeclType) (*environment.EnvSet, error) {
	request, namespace := plugincel.BuildRequestType(), plugincel.BuildNamespaceType()
	options := []celgo.EnvOption{
		celgo.Variable(plugincel.RequestVarName, request.CelType()), celgo.Variable(plugincel.NamespaceVarName, namespace.CelType()),
		celgo.Variable(plugincel.ObjectVarName, object.CelType()), celgo.Variable(plugincel.OldObjectVarName, object.CelType()),
		celgo.Variable(plugincel.AuthorizerVarName, library.AuthorizerType),
		celgo.Variable(plugincel.RequestResourceAuthorizerVarName, library.ResourceCheckType),
	}
	types := []*apiservercel.DeclType{request, namespace, object}
	switch {
	case c.policy.Spec.ParamKind == nil:
	case c.params == nil:
		options = append(options, celgo.Variable(plugincel.ParamsVarName, celgo.DynType))
	default:
		options = append(options, celgo.Variable(plugincel.ParamsVarName, c.params.CelType()))
		types = append(types, c.params)
	}
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	return base.Extend(environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: options, DeclTypes: types}, environment.StrictCostOpt)
}

// compiler only checks types.
type compiler struct{ composed *plugincel.CompositedCompiler }

// CompileCELExpression implements plugincel.Compiler.
func (c *compiler) CompileCELExpression(e plugincel.ExpressionAccessor, _ plugincel.OptionalVariableDeclarations, mode environment.Type) plugincel.CompilationResult {
	env, err := c.composed.Env(mode)
	if err != nil {
		return plugincel.CompilationResult{Error: &apiservercel.Error{Type: apiservercel.ErrorTypeInternal, Detail: fmt.Sprintf("fail to build env: %v", err)}}
	}
	ast, issues := env.Compile(e.GetExpression())
	if issues != nil {
		return plugincel.CompilationResult{Error: &apiservercel.Error{Type: apiservercel.ErrorTypeInvalid, Detail: issues.String()}}
	}
	return plugincel.CompilationResult{OutputType: ast.OutputType()}
}
