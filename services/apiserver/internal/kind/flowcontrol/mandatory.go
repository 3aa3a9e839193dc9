package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// everything is the rule that matches all requests of the groups.
func everything(groups ...string) []flowcontrolv1.PolicyRulesWithSubjects {
	all := []string{"*"}
	var subjects []flowcontrolv1.Subject
	for _, g := range groups {
		subjects = append(subjects, flowcontrolv1.Subject{
			Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: g},
		})
	}
	return []flowcontrolv1.PolicyRulesWithSubjects{{
		Subjects: subjects,
		ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
			Verbs: all, APIGroups: all, Resources: all, ClusterScope: true, Namespaces: all,
		}},
		NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: all, NonResourceURLs: all}},
	}}
}

// MandatorySchema returns the spec that the schema of a name must have, as
// "exempt" and "catch-all" do, or nil.
func MandatorySchema(name string) *flowcontrolv1.FlowSchemaSpec {
	switch name {
	case flowcontrolv1.FlowSchemaNameExempt:
		return &flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: flowcontrolv1.PriorityLevelConfigurationNameExempt},
			MatchingPrecedence:         1,
			Rules:                      everything("system:masters"),
		}
	case flowcontrolv1.FlowSchemaNameCatchAll:
		return &flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: flowcontrolv1.PriorityLevelConfigurationNameCatchAll},
			MatchingPrecedence:         flowcontrolv1.FlowSchemaMaxMatchingPrecedence,
			DistinguisherMethod:        &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
			Rules:                      everything("system:unauthenticated", "system:authenticated"),
		}
	}
	return nil
}

// MandatoryLevel is MandatorySchema for priority levels. Of "exempt", users may
// choose the field exempt.
func MandatoryLevel(name string) *flowcontrolv1.PriorityLevelConfigurationSpec {
	number := func(n int32) *int32 { return &n }
	switch name {
	case flowcontrolv1.PriorityLevelConfigurationNameExempt:
		return &flowcontrolv1.PriorityLevelConfigurationSpec{
			Type:   flowcontrolv1.PriorityLevelEnablementExempt,
			Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{NominalConcurrencyShares: number(0), LendablePercent: number(0)},
		}
	case flowcontrolv1.PriorityLevelConfigurationNameCatchAll:
		return &flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: number(5), LendablePercent: number(0),
				LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
			},
		}
	}
	return nil
}
