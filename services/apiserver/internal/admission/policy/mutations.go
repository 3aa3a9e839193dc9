package policy

import (
	"fmt"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/cel/environment"

	"howdah.dev/services/apiserver/internal/registry"
)

// mutations is a MutatingAdmissionPolicy, compiled.
type mutations struct {
	*definition
	revision    string
	reinvocable bool
	compiler    *plugincel.CompositedCompiler
	patchers    []patch.Patcher
}

func mutatingIndex(objects [][]registry.Object, before []*mutations) []*mutations {
	made := map[string]*mutations{}
	for _, m := range before {
		made[m.name] = m
	}
	bindings := map[string][]*binding{}
	for _, obj := range objects[1] {
		if b, ok := obj.(*registrationv1.MutatingAdmissionPolicyBinding); ok {
			bindings[b.Spec.PolicyName] = append(bindings[b.Spec.PolicyName], newBinding(b.Name, b.Spec.MatchResources, b.Spec.ParamRef, nil))
		}
	}
	var index []*mutations
	for _, obj := range objects[0] {
		p, ok := obj.(*registrationv1.MutatingAdmissionPolicy)
		if !ok || len(bindings[p.Name]) == 0 {
			continue
		}
		m := made[p.Name]
		if revision := string(p.UID) + "/" + fmt.Sprint(p.Generation); m == nil || m.revision != revision {
			m = compileMutations(p)
			m.revision = revision
		}
		bound, own := *m, *m.definition
		own.bindings = bindings[p.Name]
		bound.definition = &own
		index = append(index, &bound)
	}
	return index
}

func compileMutations(p *registrationv1.MutatingAdmissionPolicy) *mutations {
	m := &mutations{
		definition:  newDefinition(p.Name, p.Spec.MatchConstraints, p.Spec.MatchConditions, p.Spec.ParamKind, p.Spec.FailurePolicy),
		reinvocable: p.Spec.ReinvocationPolicy == registrationv1.IfNeededReinvocationPolicy,
	}
	with := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	c, err := compiler(p.Spec.Variables, with)
	if err != nil {
		m.err = err
		return m
	}
	m.compiler, with.HasPatchTypes = c, true
	for _, one := range p.Spec.Mutations {
		switch {
		case one.PatchType == registrationv1.PatchTypeJSONPatch && one.JSONPatch != nil:
			m.patchers = append(m.patchers, patch.NewJSONPatcher(c.CompileMutatingEvaluator(
				&patch.JSONPatchCondition{Expression: one.JSONPatch.Expression}, with, environment.StoredExpressions)))
		case one.PatchType == registrationv1.PatchTypeApplyConfiguration && one.ApplyConfiguration != nil:
			m.patchers = append(m.patchers, patch.NewApplyConfigurationPatcher(c.CompileMutatingEvaluator(
				&patch.ApplyConfigurationCondition{Expression: one.ApplyConfiguration.Expression}, with, environment.StoredExpressions)))
		}
	}
	return m
}
