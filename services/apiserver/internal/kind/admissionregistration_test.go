package kind_test

import "testing"

func TestAdmissionWebhooks(t *testing.T) {
	t.Parallel()
	const (
		head  = "{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: a}, webhooks: ["
		check = "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}, webhooks: ["
		rest  = "sideEffects: None, admissionReviewVersions: [v1]"
		at    = "clientConfig: {url: 'https://a'}, "
		good  = "{name: a.b.c, " + at + rest
		rules = good + ", rules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: "
	)
	validates(t, map[string]validation{
		"none":   {head + "]}", nil},
		"one":    {head + good + "}]}", nil},
		"checks": {check + good + "}]}", nil},
		"bare": {head + "{name: a}]}", []string{
			`webhooks[0].name: Invalid value: "a": should be a domain with at least three segments separated by dots`,
			"webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
			"webhooks[0].clientConfig: Required value: exactly one of url or service is required",
			"webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
		}},
		"twice": {check + good + "}, " + good + "}]}", []string{`webhooks[1].name: Duplicate value: "a.b.c"`}},
		"choices": {head + "{name: a.b.c, " + at + "sideEffects: Some, admissionReviewVersions: [v2, v2, V], failurePolicy: f, matchPolicy: m, reinvocationPolicy: r, timeoutSeconds: 31}]}", []string{
			`webhooks[0].failurePolicy: Unsupported value: "f": supported values: "Fail", "Ignore"`,
			`webhooks[0].matchPolicy: Unsupported value: "m": supported values: "Equivalent", "Exact"`,
			`webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"`,
			"webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
			`webhooks[0].reinvocationPolicy: Unsupported value: "r": supported values: "IfNeeded", "Never"`,
			`webhooks[0].admissionReviewVersions[1]: Invalid value: "v2": duplicate version`,
			`webhooks[0].admissionReviewVersions[2]: Invalid value: "V": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`,
			`webhooks[0].admissionReviewVersions: Invalid value: ["v2","v2","V"]: must include at least one of v1, v1beta1`,
		}},
		"url": {head + "{name: a.b.c, clientConfig: {url: 'http://u:p@/x?y#z'}, " + rest + "}]}", []string{
			`webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]`,
			`webhooks[0].clientConfig.url: Invalid value: "": host must be specified; desired format: https://host[/path]`,
			`webhooks[0].clientConfig.url: Invalid value: "u:p": user information is not permitted in the URL`,
			`webhooks[0].clientConfig.url: Invalid value: "z": fragments are not permitted in the URL`,
			`webhooks[0].clientConfig.url: Invalid value: "y": query parameters are not permitted in the URL`,
		}},
		"service": {head + "{name: a.b.c, clientConfig: {service: {port: 0, name: '', namespace: '', path: 'a//_'}}, " + rest + "}]}", []string{
			"webhooks[0].clientConfig.service.name: Required value",
			"webhooks[0].clientConfig.service.namespace: Required value",
			"webhooks[0].clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
			`webhooks[0].clientConfig.service.path: Invalid value: "a//_": must start with a '/'`,
			`webhooks[0].clientConfig.service.path: Invalid value: "a//_": segment[0] may not be empty`,
			`webhooks[0].clientConfig.service.path: Invalid value: "a//_": segment[1] may not be empty`,
			`webhooks[0].clientConfig.service.path: Invalid value: "a//_": segment[2]: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		}},
		"rule": {head + good + ", rules: [{operations: ['*', FLY], apiGroups: ['*', a], apiVersions: [''], resources: [], scope: Moon}, {}]}]}", []string{
			`webhooks[0].rules[0].operations: Invalid value: ["*","FLY"]: if '*' is present, must not specify other operations`,
			`webhooks[0].rules[0].operations[1]: Unsupported value: "FLY": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"`,
			`webhooks[0].rules[0].apiGroups: Invalid value: ["*","a"]: if '*' is present, must not specify other API groups`,
			"webhooks[0].rules[0].apiVersions[0]: Required value",
			"webhooks[0].rules[0].resources: Required value",
			`webhooks[0].rules[0].scope: Unsupported value: "Moon": supported values: "*", "Cluster", "Namespaced"`,
			"webhooks[0].rules[1].operations: Required value",
			"webhooks[0].rules[1].apiGroups: Required value",
			"webhooks[0].rules[1].apiVersions: Required value",
			"webhooks[0].rules[1].resources: Required value",
		}},
		"resources": {head + rules + "[a/*, a/b, '*/c', d/c, '*', e]}]}]}", []string{
			`webhooks[0].rules[0].resources[1]: Invalid value: "a/b": if 'a/*' is present, must not specify a/b`,
			`webhooks[0].rules[0].resources[3]: Invalid value: "d/c": if '*/c' is present, must not specify d/c`,
			`webhooks[0].rules[0].resources: Invalid value: ["a/*","a/b","*/c","d/c","*","e"]: if '*' is present, must not specify other resources without subresources`,
		}},
		"everything": {head + rules + "['*/*', a, '']}]}]}", []string{
			"webhooks[0].rules[0].resources[2]: Required value",
			`webhooks[0].rules[0].resources: Invalid value: ["*/*","a",""]: if '*/*' is present, must not specify other resources`,
		}},
		"conditions": {head + good + ", matchConditions: [{name: a, expression: 'true'}, {name: a, expression: '1'}, {expression: 'params.a'}, {name: '/', expression: ' '}]}]}", []string{
			`webhooks[0].matchConditions[1].expression: Invalid value: "1": must evaluate to bool but got int`,
			`webhooks[0].matchConditions[1].name: Duplicate value: "a"`,
			`webhooks[0].matchConditions[2].expression: Invalid value: "params.a": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')` + "\n | params.a\n | ^",
			"webhooks[0].matchConditions[2].name: Required value",
			"webhooks[0].matchConditions[3].expression: Required value",
			`webhooks[0].matchConditions[3].name: Invalid value: "/": prefix part must be non-empty`,
			`webhooks[0].matchConditions[3].name: Invalid value: "/": name part must be non-empty`,
			`webhooks[0].matchConditions[3].name: Invalid value: "/": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		}},
		"a condition may ask the authorizer": {head + good + `, matchConditions: [{name: a, expression: "authorizer.group('').resource('pods').check('create').allowed()"}]}]}`, nil},
		"selectors": {head + good + ", namespaceSelector: {matchExpressions: [{key: a, operator: Near}]}}]}", []string{
			`webhooks[0].namespaceSelector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator`,
		}},
	})
}

func TestAdmissionPolicies(t *testing.T) {
	t.Parallel()
	const (
		head   = "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: a}, spec: {"
		mutate = "{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: a}, spec: {"
		match  = "matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods]}]}, "
		good   = head + match
		patch  = mutate + match + "reinvocationPolicy: Never, mutations: "
	)
	validates(t, map[string]validation{
		"policy": {good + "validations: [{expression: 'object.metadata.name != \"\"'}]}}", nil},
		"empty": {head + "}}", []string{
			"spec.matchConstraints: Required value",
			"spec.validations: Required value: validations or auditAnnotations must contain at least one item",
			"spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
		}},
		"no rules": {head + "matchConstraints: {}, validations: [{expression: 'true'}]}}", []string{"spec.matchConstraints.resourceRules: Required value"}},
		"names": {head + "matchConstraints: {resourceRules: [{resourceNames: [a, a, b/c], operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods]}]}, validations: [{expression: 'true'}]}}", []string{
			`spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"`,
			`spec.matchConstraints.resourceRules[0].resourceNames[2]: Invalid value: "b/c": may not contain '/'`,
		}},
		"param kind": {good + "paramKind: {apiVersion: A/B, kind: C_}, validations: [{expression: 'params.x'}]}}", []string{
			`spec.paramKind.apiVersion: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
			`spec.paramKind.apiVersion: Invalid value: "B": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`,
			`spec.paramKind.kind: Invalid value: "C_": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`,
			`spec.validations[0].expression: Invalid value: "params.x": must evaluate to bool but got dyn`,
		}},
		"param versions": {good + "paramKind: {apiVersion: a/b/c}, validations: [{expression: 'true'}]}}", []string{
			`spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`, "spec.paramKind.kind: Required value",
		}},
		"validations": {good + `validations: [{}, {expression: "object.", message: "a\nb", messageExpression: " "}, {expression: "true", message: " ", messageExpression: "1", reason: Tired}, {expression: "true", messageExpression: "authorizer.x"}]}}`, []string{
			"spec.validations[0].expression: Required value: expression is not specified",
			`spec.validations[1].expression: Invalid value: "object.": compilation failed: ERROR: <input>:1:8: Syntax error: no viable alternative at input '.'` + "\n | object.\n | .......^",
			`spec.validations[1].messageExpression: Invalid value: " ": must be non-empty if specified`,
			`spec.validations[1].message: Invalid value: "a\nb": must not contain line breaks`,
			`spec.validations[2].messageExpression: Invalid value: "1": must evaluate to string but got int`,
			`spec.validations[2].message: Invalid value: " ": must be non-empty if specified`,
			`spec.validations[2].reason: Unsupported value: "Tired": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"`,
			`spec.validations[3].messageExpression: Invalid value: "authorizer.x": compilation failed: ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')` + "\n | authorizer.x\n | ^",
		}},
		"variables": {good + `variables: [{name: a, expression: "1"}, {name: "b c", expression: "variables.a + 1"}, {name: in, expression: " "}, {name: d, expression: "variables.z"}], validations: [{expression: "variables.a == 'x'"}]}}`, []string{
			`spec.variables[1].name: Invalid value: "b c": must be a valid CEL identifier`,
			`spec.variables[2].name: Invalid value: "in": must be a valid CEL identifier`,
			"spec.variables[2].expression: Required value: expression is not specified",
			`spec.variables[3].expression: Invalid value: "variables.z": compilation failed: ERROR: <input>:1:10: undefined field 'z'` + "\n | variables.z\n | .........^",
			`spec.validations[0].expression: Invalid value: "variables.a == 'x'": compilation failed: ERROR: <input>:1:13: found no matching overload for '_==_' applied to '(int, string)'` + "\n | variables.a == 'x'\n | ............^",
		}},
		"annotations": {good + `auditAnnotations: [{key: k, valueExpression: "'v'"}, {key: k, valueExpression: "1"}, {key: "", valueExpression: ""}]}}`, []string{
			`spec.auditAnnotations[1].valueExpression: Invalid value: "1": must evaluate to one of [string null_type] but got int`,
			`spec.auditAnnotations[1].key: Duplicate value: "k"`,
			`spec.auditAnnotations[2].key: Invalid value: "a/": name part must be non-empty`,
			`spec.auditAnnotations[2].key: Invalid value: "a/": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			"spec.auditAnnotations[2].valueExpression: Required value: valueExpression is not specified",
		}},
		"mutation": {patch + `[{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}, {patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'test', path: '/a', value: 1}]"}}]}}`, nil},
		"mutations": {patch + `[{}, {patchType: Magic}, {patchType: JSONPatch, applyConfiguration: {}}, {patchType: ApplyConfiguration, jsonPatch: {}}, {patchType: JSONPatch, jsonPatch: {expression: "object"}}, {patchType: ApplyConfiguration, applyConfiguration: {}}]}}`, []string{
			"spec.mutations[0].patchType: Required value",
			`spec.mutations[1].patchType: Unsupported value: "Magic": supported values: "ApplyConfiguration", "JSONPatch"`,
			"spec.mutations[2].jsonPatch: Required value: must be specified when patchType is JSONPatch",
			`spec.mutations[2].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch`,
			"spec.mutations[3].applyConfiguration: Required value: must be specified when patchType is ApplyConfiguration",
			`spec.mutations[3].jsonPatch: Invalid value: "{jsonPatch}": must not be specified when patchType is ApplyConfiguration`,
			`spec.mutations[4].jsonPatch.expression: Invalid value: "object": must evaluate to list(JSONPatch) but got dyn`,
			"spec.mutations[5].applyConfiguration.expression: Required value",
		}},
		"no mutations": {mutate + match + "}}", []string{"spec.mutations: Required value: mutations must contain at least one item", "spec.reinvocationPolicy: Required value"}},
	})
}

func TestAdmissionBindings(t *testing.T) {
	t.Parallel()
	const (
		head   = "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: a}, spec: {"
		mutate = "{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicyBinding, metadata: {name: a}, spec: {"
	)
	validates(t, map[string]validation{
		"binding": {head + "policyName: p, validationActions: [Warn, Audit]}}", nil},
		"mutates": {mutate + "policyName: p}}", nil},
		"empty":   {head + "}}", []string{"spec.policyName: Required value", "spec.validationActions: Required value: at least one validation action is required"}},
		"actions": {head + "policyName: P, validationActions: [Deny, Warn, Deny, Shout]}}", []string{
			`spec.policyName: Invalid value: "P": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
			`spec.validationActions[2]: Duplicate value: "Deny"`,
			`spec.validationActions[3]: Unsupported value: "Shout": supported values: "Audit", "Deny", "Warn"`,
			`spec.validationActions: Invalid value: ["Deny","Warn","Deny","Shout"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)`,
		}},
		"params": {mutate + "policyName: p, paramRef: {name: a/b, selector: {}}}}", []string{
			`spec.paramRef.name: Invalid value: "a/b": may not contain '/'`,
			"spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
			"spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
			"spec.paramRef.parameterNotFoundAction: Required value",
		}},
		"which params": {mutate + "policyName: p, paramRef: {parameterNotFoundAction: Cry}}}", []string{
			"spec.paramRef: Required value: one of name or selector must be specified",
			`spec.paramRef.parameterNotFoundAction: Unsupported value: "Cry": supported values: "Deny", "Allow"`,
		}},
	})
}

func TestAdmissionColumns(t *testing.T) {
	t.Parallel()
	const group = "apiVersion: admissionregistration.k8s.io/v1, metadata: {name: x}, "
	shows(t, map[string]shown{
		"webhooks": {"{kind: ValidatingWebhookConfiguration, " + group + "webhooks: [{name: a}, {name: b}]}", "Name|Webhooks|Age", "x|2|<unknown>"},
		"mutating": {"{kind: MutatingWebhookConfiguration, " + group + "webhooks: []}", "Name|Webhooks|Age", "x|0|<unknown>"},
		"policy": {"{kind: ValidatingAdmissionPolicy, " + group + "spec: {validations: [{expression: a}], paramKind: {apiVersion: v1, kind: ConfigMap}}}",
			"Name|Validations|ParamKind|Age", "x|1|v1/ConfigMap|<unknown>"},
		"mutating policy": {"{kind: MutatingAdmissionPolicy, " + group + "spec: {mutations: [{patchType: a}]}}", "Name|Mutations|ParamKind|Age", "x|1|<unset>|<unknown>"},
		"binding": {"{kind: ValidatingAdmissionPolicyBinding, " + group + "spec: {policyName: p, paramRef: {name: m, namespace: ns}}}",
			"Name|PolicyName|ParamRef|Age", "x|p|ns/m|<unknown>"},
		"mutating binding": {"{kind: MutatingAdmissionPolicyBinding, " + group + "spec: {policyName: p, paramRef: {name: m}}}",
			"Name|PolicyName|ParamRef|Age", "x|p|*/m|<unknown>"},
	})
}
