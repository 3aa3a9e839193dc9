package kind_test

import "testing"

func TestAPIService(t *testing.T) {
	t.Parallel()
	const head = "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.example.com}, spec: "
	validates(t, map[string]validation{
		"local":   {head + "{group: example.com, version: v1, groupPriorityMinimum: 1000, versionPriority: 100}}", nil},
		"service": {head + "{group: example.com, version: v1, groupPriorityMinimum: 1000, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: n, name: s}}}", nil},
		"nothing": {head + "{}}", []string{
			"metadata.name: Invalid value: \"v1.example.com\": must be `spec.version+\".\"+spec.group`: \".\"",
			"spec.group: Required value: only v1 may have an empty group and it better be legacy kube",
			"spec.version: Invalid value: \"\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
			"spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
			"spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
		}},
		"local with a CA": {head + "{group: example.com, version: v1, groupPriorityMinimum: 1, versionPriority: 1, caBundle: eA==}}", []string{`spec.caBundle: Invalid value: "1 bytes": local APIServices may not have a caBundle`}},
		"both": {head + "{group: example.com, version: v1, groupPriorityMinimum: 1, versionPriority: 1, insecureSkipTLSVerify: true, caBundle: eA==, service: {port: 70000}}}", []string{
			"spec.service.namespace: Required value", "spec.service.name: Required value",
			"spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
			"spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
		}},
	})
	k, obj := parse(t, head+"{group: example.com, version: v1, groupPriorityMinimum: 1000, versionPriority: 100}}")
	k.PrepareCreate(obj)
	if cells := k.Cells(obj); cells[1] != "Local" || cells[2] != "True" {
		t.Errorf("a local one shows %v", cells)
	}
	k, obj = parse(t, head+"{group: example.com, version: v1, groupPriorityMinimum: 1, versionPriority: 1, service: {namespace: ns, name: s}}, status: {conditions: [{type: Available, status: 'False', reason: MissingEndpoints}]}}")
	if cells := k.Cells(obj); cells[1] != "ns/s" || cells[2] != "False (MissingEndpoints)" {
		t.Errorf("a remote one shows %v", cells)
	}
}
