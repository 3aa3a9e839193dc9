package admissionregistration

import (
	"reflect"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/cel/environment"
)

var (
	harmless    = []admissionv1.SideEffectClass{admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun}
	sideEffects = append(slices.Clone(harmless), admissionv1.SideEffectClassSome, admissionv1.SideEffectClassUnknown)
)

// texts are the expressions of the stored object, for which the language is that of any version that may have written it.
type texts map[string]bool

func (t texts) add(text string) { t[text] = true }

func (t texts) mode(text string) environment.Type {
	if t[text] {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

// kept are the faults that an update of webhooks may leave, or bring again, because one of the stored webhooks has it.
type kept struct {
	sideEffects, versions, names, selectors bool
	// conditions says that nothing changed in them.
	conditions  bool
	expressions texts
}

func keptOf(hooks, old []*hook) kept {
	may := kept{expressions: texts{}}
	may.conditions = slices.EqualFunc(hooks, old, func(a, b *hook) bool { return reflect.DeepEqual(a.conditions, b.conditions) })
	names := map[string]bool{}
	for _, h := range old {
		may.sideEffects = may.sideEffects || h.sideEffects == nil || !slices.Contains(harmless, *h.sideEffects)
		may.versions = may.versions || len(h.versions) > 0 && !slices.ContainsFunc(h.versions, func(v string) bool { return slices.Contains(reviewVersions, v) })
		may.names = may.names || names[h.name]
		names[h.name] = true
		may.selectors = may.selectors || len(validateSelector(*h.namespaces, nil))+len(validateSelector(*h.objects, nil)) > 0
		for _, c := range h.conditions {
			may.expressions.add(c.Expression)
		}
	}
	return may
}

// stored is what an update of a policy finds.
type stored struct {
	// settled says that nothing changed in the match conditions, nor in what those may name.
	settled                                                   bool
	conditions, validations, messages, annotations, mutations texts
}

func storedValidating(p, old *validatingPolicy) stored {
	if old == nil {
		return stored{}
	}
	s := stored{
		settled: equality.Semantic.DeepEqual(p.Spec.ParamKind, old.Spec.ParamKind) &&
			equality.Semantic.DeepEqual(p.Spec.MatchConditions, old.Spec.MatchConditions),
		conditions: conditionTexts(old.Spec.MatchConditions), validations: texts{}, messages: texts{}, annotations: texts{},
	}
	for _, v := range old.Spec.Validations {
		s.validations.add(v.Expression)
		s.messages.add(v.MessageExpression)
	}
	for _, a := range old.Spec.AuditAnnotations {
		s.annotations.add(a.ValueExpression)
	}
	return s
}

func storedMutating(p, old *mutatingPolicy) stored {
	if old == nil {
		return stored{}
	}
	s := stored{
		settled: equality.Semantic.DeepEqual(p.Spec.ParamKind, old.Spec.ParamKind) &&
			equality.Semantic.DeepEqual(p.Spec.MatchConditions, old.Spec.MatchConditions),
		conditions: conditionTexts(old.Spec.MatchConditions), mutations: texts{},
	}
	for _, m := range old.Spec.Mutations {
		// An expression of a JSON patch is only known by the name of an apply's: Kubernetes looks for both there.
		if m.ApplyConfiguration != nil {
			s.mutations.add(m.ApplyConfiguration.Expression)
		}
	}
	return s
}

func conditionTexts(conditions []admissionv1.MatchCondition) texts {
	out := texts{}
	for _, c := range conditions {
		out.add(c.Expression)
	}
	return out
}
