package kind_test

import "testing"

func TestDevices(t *testing.T) {
	t.Parallel()
	const (
		head  = "{apiVersion: resource.k8s.io/v1, metadata: {name: a, namespace: default}, kind: "
		claim = head + "ResourceClaim, spec: {devices: {requests: "
		one   = "[{name: r, exactly: {deviceClassName: c}}]"
		slice = head + "ResourceSlice, spec: {driver: d.example.com, pool: {name: p, resourceSliceCount: 1}, "
	)
	validates(t, map[string]validation{
		"claim":    {claim + one + "}}}", nil},
		"no class": {claim + "[{name: r, exactly: {}}, {name: r}]}}}", []string{"spec.devices.requests[0].exactly.deviceClassName: Required value", "spec.devices.requests[1]: Required value: exactly one of `exactly` or `firstAvailable` is required", `spec.devices.requests[1]: Duplicate value: "r"`}},
		"count":    {claim + "[{name: r, exactly: {deviceClassName: c, allocationMode: All, count: 2}}]}}}", []string{"spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'"}},
		"constraint": {claim + one + ", constraints: [{requests: [other], matchAttribute: model}]}}}", []string{
			`spec.devices.constraints[0].requests[0]: Invalid value: "other": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'`,
			`spec.devices.constraints[0].matchAttribute: Invalid value: "model": a fully qualified name must be a domain and a name separated by a slash`,
		}},
		"sub request": {claim + "[{name: r, firstAvailable: [{name: s, deviceClassName: c}]}], constraints: [{requests: [r/s], distinctAttribute: d.example.com/model}]}}}", nil},
		"slice":       {slice + "nodeName: n, devices: [{name: d, attributes: {model: {string: m}}, capacity: {memory: {value: 1Gi}}, taints: [{key: k, effect: NoSchedule}]}]}}", nil},
		"nowhere": {slice + "devices: [{name: d, attributes: {a b: {}}}]}}", []string{
			"spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required",
			"spec.devices[0].attributes: Invalid value: \"a b\": a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')",
			`spec.devices[0].attributes[a b]: Invalid value: "": exactly one value must be specified`,
		}},
		"class": {head + "DeviceClass, spec: {selectors: [{}], config: [{opaque: {driver: d.example.com, parameters: {a: b}}}, {}], extendedResourceName: gpu}}", []string{
			"spec.selectors[0].cel: Required value", "spec.config[1].opaque: Required value",
			`spec.extendedResourceName: Invalid value: "gpu": must be a valid extended resource name`,
		}},
	})
	validatesUpdates(t, map[string]change{
		"claim":      {claim + one + "}}}", claim + "[{name: q, exactly: {deviceClassName: c}}]}}}", []string{"spec: Invalid value: " + `{"devices":{"requests":[{"name":"q","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}}]}}` + ": field is immutable"}},
		"slice node": {slice + "nodeName: n}}", slice + "nodeName: m}}", []string{`spec.nodeName: Invalid value: "m": field is immutable`}},
	})
	k, old := parse(t, claim+one+"}}}")
	_, obj := parse(t, claim+one+"}}, status: {reservedFor: [{resource: pods, name: p, uid: u}], allocation: {devices: {results: [{request: q, driver: d.example.com, pool: p, device: d}]}}, devices: [{driver: d.example.com, pool: p, device: e}]}}")
	expect(t, k.Status.ValidateUpdate(obj, old),
		`status.devices[0]: Invalid value: {"Driver":"d.example.com","Pool":"p","Device":"e","ShareID":""}: must be an allocated device in the claim`,
		`status.allocation.devices.results[0].request: Invalid value: "q": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'`)
}
