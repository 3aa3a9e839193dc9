package definitions

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"

	"howdah.dev/services/apiserver/internal/kind/definition"
)

type condition = apiextensionsv1.CustomResourceDefinitionCondition

func summarize(d *crd) summary {
	s := summary{
		name: d.Name, group: d.Spec.Group, wanted: *d.Spec.Names.DeepCopy(), accepted: *d.Status.AcceptedNames.DeepCopy(),
		conditions: slices.Clone(d.Status.Conditions), deleting: d.DeletionTimestamp != nil,
		held: slices.Contains(d.Finalizers, definition.Finalizer), violations: violations(d), distrusts: distrusts(d), approval: approval(d),
	}
	return s
}

// distrusts reports whether the authorities of a conversion webhook cannot be read. Validation lets them pass until the definition is established, so that
// whoever fills them in later may.
func distrusts(d *crd) bool {
	c := d.Spec.Conversion
	return c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil &&
		len(webhook.ValidateCABundle(field.NewPath(""), c.Webhook.ClientConfig.CABundle)) > 0
}

// violations is empty for what validation lets pass today; older definitions may have any schema.
func violations(d *crd) string {
	if !d.Spec.PreserveUnknownFields {
		return ""
	}
	errs := field.ErrorList{field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true, "must be false")}
	for i := range d.Spec.Versions {
		v := &d.Spec.Versions[i]
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		in := &apiextensions.CustomResourceValidation{}
		if apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, in, nil) != nil {
			continue
		}
		s, err := structuralschema.NewStructural(in.OpenAPIV3Schema)
		if err != nil {
			return fmt.Sprintf("failed to check validation schema for version %s: %v", v.Name, err)
		}
		errs = append(errs, structuralschema.ValidateStructural(field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema"), s)...)
	}
	return errs.ToAggregate().Error()
}

// approval is the condition of definitions in groups that belong to Kubernetes; nil for all others.
func approval(d *crd) *condition {
	if !apihelpers.IsProtectedCommunityGroup(d.Spec.Group) {
		return nil
	}
	c := &condition{Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant}
	state, reason := apihelpers.GetAPIApprovalState(d.Annotations)
	switch state {
	case apihelpers.APIApprovalInvalid:
		c.Status, c.Reason, c.Message = apiextensionsv1.ConditionFalse, "InvalidAnnotation", reason
	case apihelpers.APIApprovalMissing:
		c.Status, c.Reason, c.Message = apiextensionsv1.ConditionFalse, "MissingAnnotation", reason
	case apihelpers.APIApproved:
		c.Status, c.Reason, c.Message = apiextensionsv1.ConditionTrue, "ApprovedAnnotation", reason
	case apihelpers.APIApprovalBypassed:
		c.Status, c.Reason, c.Message = apiextensionsv1.ConditionFalse, "UnapprovedAnnotation", reason
	default:
		c.Status, c.Reason, c.Message = apiextensionsv1.ConditionUnknown, "UnknownAnnotation", reason
	}
	return c
}

// change is what the status of a definition should become.
type change struct {
	accepted   apiextensionsv1.CustomResourceDefinitionNames
	conditions []condition
	// structural says that there is no NonStructuralSchema condition.
	structural bool
}

// plan decides which names a definition gets, among all that there are, and what its conditions are.
func plan(s summary, all []summary) (change, bool) {
	resources, kinds := taken(s, all)
	c := change{accepted: s.accepted, structural: s.violations == ""}
	names := condition{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts", Message: "no conflicts found"}
	refuse := func(reason string, used ...string) {
		for n := range used {
			used[n] = fmt.Sprintf("%q is already in use", used[n])
		}
		text := strings.Join(used, ", ")
		if len(used) > 1 {
			text = "[" + text + "]"
		}
		names.Status, names.Reason, names.Message = apiextensionsv1.ConditionFalse, reason, text
	}
	take := func(want string, have *string, used map[string]bool, reason string) {
		if used[want] {
			refuse(reason, want)
			return
		}
		*have = want
	}
	take(s.wanted.Plural, &c.accepted.Plural, resources, "PluralConflict")
	take(s.wanted.Singular, &c.accepted.Singular, resources, "SingularConflict")
	if short := slices.DeleteFunc(slices.Clone(s.wanted.ShortNames), func(n string) bool { return !resources[n] }); len(short) > 0 {
		refuse("ShortNamesConflict", short...)
	} else {
		c.accepted.ShortNames = s.wanted.ShortNames
	}
	take(s.wanted.Kind, &c.accepted.Kind, kinds, "KindConflict")
	take(s.wanted.ListKind, &c.accepted.ListKind, kinds, "ListKindConflict")
	c.accepted.Categories = s.wanted.Categories
	c.conditions = append(c.conditions, names)

	switch established := s.condition(apiextensionsv1.Established); {
	case established != nil && established.Status == apiextensionsv1.ConditionTrue: // for good
	case names.Status == apiextensionsv1.ConditionTrue && s.distrusts:
		c.conditions = append(c.conditions, condition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse,
			Reason: "InvalidCABundle", Message: "The conversion webhook CABundle is invalid",
		})
	case names.Status == apiextensionsv1.ConditionTrue:
		c.conditions = append(c.conditions, condition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
			Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
		})
	case established == nil:
		c.conditions = append(c.conditions, condition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse,
			Reason: "NotAccepted", Message: "not all names are accepted",
		})
	}
	if s.violations != "" {
		c.conditions = append(c.conditions, condition{
			Type: apiextensionsv1.NonStructuralSchema, Status: apiextensionsv1.ConditionTrue, Reason: "Violations", Message: s.violations,
		})
	}
	if s.approval != nil {
		c.conditions = append(c.conditions, *s.approval)
	}
	return c, c.differs(s)
}

// taken returns the names that other definitions of the group have. Where two have been given the same name at the same
// time, the older one keeps it.
func taken(s summary, all []summary) (resources, kinds map[string]bool) {
	resources, kinds = map[string]bool{}, map[string]bool{}
	own, ownKinds := nameSets(s.accepted)
	for _, other := range all {
		if other.group != s.group || other.name == s.name {
			continue
		}
		older := other.created < s.created || other.created == s.created && other.name < s.name
		r, k := nameSets(other.accepted)
		for name := range r {
			resources[name] = resources[name] || older || !own[name]
		}
		for name := range k {
			kinds[name] = kinds[name] || older || !ownKinds[name]
		}
	}
	return resources, kinds
}

func nameSets(n apiextensionsv1.CustomResourceDefinitionNames) (resources, kinds map[string]bool) {
	resources, kinds = map[string]bool{}, map[string]bool{}
	for _, name := range append([]string{n.Plural, n.Singular}, n.ShortNames...) {
		if name != "" {
			resources[name] = true
		}
	}
	for _, name := range []string{n.Kind, n.ListKind} {
		if name != "" {
			kinds[name] = true
		}
	}
	return resources, kinds
}

func (s summary) condition(of apiextensionsv1.CustomResourceDefinitionConditionType) *condition {
	for i := range s.conditions {
		if s.conditions[i].Type == of {
			return &s.conditions[i]
		}
	}
	return nil
}

func (c change) differs(s summary) bool {
	if !reflect.DeepEqual(c.accepted, s.accepted) || c.structural && s.condition(apiextensionsv1.NonStructuralSchema) != nil {
		return true
	}
	for _, want := range c.conditions {
		have := s.condition(want.Type)
		if have == nil || have.Status != want.Status || have.Reason != want.Reason || have.Message != want.Message {
			return true
		}
	}
	return false
}
