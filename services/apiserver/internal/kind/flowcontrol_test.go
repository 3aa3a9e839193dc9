package kind_test

import "testing"

func TestFlowControl(t *testing.T) {
	t.Parallel()
	const (
		schema = "{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, metadata: {name: a}, spec: {priorityLevelConfiguration: {name: p}, "
		rules  = schema + "rules: [{subjects: [{kind: User, user: {name: u}}], "
		level  = "{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: PriorityLevelConfiguration, metadata: {name: a}, spec: "
		all    = `{verbs: ["*"], apiGroups: ["*"], resources: ["*"], clusterScope: true, namespaces: ["*"]}`
		urls   = `nonResourceRules: [{verbs: ["*"], nonResourceURLs: ["*"]}]`
	)
	validates(t, map[string]validation{
		"schema": {rules + urls + "}]}}", nil},
		"empty schema": {"{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, metadata: {name: a}, spec: {matchingPrecedence: 1, distinguisherMethod: {type: ByMoon}}}", []string{
			"spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
			`spec.distinguisherMethod.type: Unsupported value: {"type":"ByMoon"}: supported values: "ByNamespace", "ByUser"`,
			"spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
		}},
		"precedence": {schema + "matchingPrecedence: 10001}}", []string{"spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000"}},
		"nobody": {schema + "rules: [{}]}}", []string{
			"spec.rules[0].subjects: Required value: subjects must contain at least one value",
			"spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
		}},
		"subjects": {schema + "rules: [{subjects: [{kind: Group, user: {name: u}}, {kind: Robot}, {kind: ServiceAccount, serviceAccount: {name: A}}], " + urls + "}]}}", []string{
			"spec.rules[0].subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'",
			"spec.rules[0].subjects[0].group: Required value: group is required when subject kind is 'Group'",
			`spec.rules[0].subjects[1].kind: Unsupported value: "Robot": supported values: "Group", "ServiceAccount", "User"`,
			`spec.rules[0].subjects[2].serviceAccount.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
			"spec.rules[0].subjects[2].serviceAccount.namespace: Required value: must specify namespace for service account",
		}},
		"resource rule": {rules + `resourceRules: [{verbs: [get, "*"], apiGroups: [], resources: ["*", pods]}]}]}}`, []string{
			`spec.rules[0].resourceRules[0].verbs: Invalid value: ["get","*"]: if '*' is present, must not specify other verbs`,
			"spec.rules[0].resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group",
			`spec.rules[0].resourceRules[0].resources: Invalid value: ["*","pods"]: if '*' is present, must not specify other resources`,
			"spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace",
		}},
		"urls": {rules + `nonResourceRules: [{verbs: [fly], nonResourceURLs: [/a/*, a, /a//b, "/*/b", /]}]}]}}`, []string{
			`spec.rules[0].nonResourceRules[0].verbs: Unsupported value: ["fly"]: supported values: "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"`,
			`spec.rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: "a": must start with slash`,
			`spec.rules[0].nonResourceRules[0].nonResourceURLs[2]: Invalid value: "/a//b": must not contain double slash`,
			`spec.rules[0].nonResourceRules[0].nonResourceURLs[3]: Invalid value: "/*/b": wildcard can only do suffix matching`,
		}},
		"the exempt schema": {"{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, metadata: {name: exempt}, spec: {priorityLevelConfiguration: {name: exempt}, matchingPrecedence: 1, rules: [{subjects: [{kind: Group, group: {name: 'system:masters'}}], resourceRules: [" + all + "], " + urls + "}]}}", nil},
		"level":             {level + "{type: Limited, limited: {limitResponse: {type: Reject}}}}", nil},
		"type":              {level + "{type: Exempt}}", []string{"spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'"}},
		"limited": {level + "{type: Limited, exempt: {}}}", []string{
			"spec.exempt: Forbidden: must be nil if the type is Limited", "spec.limited: Required value: must not be empty when type is Limited",
		}},
		"queues": {level + "{type: Limited, limited: {nominalConcurrencyShares: -1, lendablePercent: 101, borrowingLimitPercent: -1, limitResponse: {type: Queue, queuing: {queues: 512, handSize: 8, queueLengthLimit: -1}}}}}", []string{
			"spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
			"spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive",
			"spec.limited.limitResponse.queuing.handSize: Invalid value: 8: required entropy bits of deckSize 512 and handSize 8 should not be greater than 60",
			"spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
			"spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer",
		}},
		"hand": {level + "{type: Limited, limited: {limitResponse: {type: Queue, queuing: {queues: 4}}}}}", []string{
			"spec.limited.limitResponse.queuing.handSize: Invalid value: 8: should not be greater than queues (4)",
		}},
		"the exempt level": {"{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: PriorityLevelConfiguration, metadata: {name: exempt}, spec: {type: Exempt, exempt: {lendablePercent: 50}}}", nil},
	})
}
