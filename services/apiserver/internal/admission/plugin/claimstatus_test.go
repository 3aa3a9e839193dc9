package plugin

import (
	"testing"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authn"
)

// Who may write which part of a claim's status.
func TestResourceClaimStatus(t *testing.T) {
	t.Parallel()
	const binding, driver = "update resource.k8s.io/resourceclaims/binding ", "resource.k8s.io/resourceclaims/driver d.io"
	p := &ResourceClaimStatus{Authorizer: may{
		"alice " + binding, "bob arbitrary-node:update " + driver, "system:serviceaccount:ns:agent associated-node:update " + driver,
	}}
	const here = "nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}]}"
	status := func(user authn.User, before, now string) write {
		of := func(status string) string { return "{metadata: {name: c}, status: {" + status + "}}" }
		return write{op: admission.Update, resource: "resourceclaims", subresource: "status", object: of(now), old: of(before), user: user}
	}
	agent := func(node string) authn.User {
		return authn.User{Name: "system:serviceaccount:ns:agent", Extra: map[string][]string{authn.NodeNameKey: {node}}}
	}
	const allocated, told = "allocation: {" + here + "}", ", devices: [{driver: d.io, pool: p, device: d}]"
	const changed = ", devices: [{driver: d.io, pool: p, device: d, data: {a: 1}}]"
	alice, bob := authn.User{Name: "alice"}, authn.User{Name: "bob"}
	verdicts(t, p, map[string]verdict{
		"allocate": {write: status(alice, "", allocated)},
		"reserve":  {write: status(alice, allocated, allocated+", reservedFor: [{resource: pods, name: p, uid: u}]")},
		"no binder": {write: status(bob, "", allocated), refused: `ResourceClaim.resource.k8s.io "c" is invalid: status.allocation: Forbidden: ` +
			`changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="update" permission: ` +
			`resourceclaims.resource.k8s.io is forbidden: User "bob" cannot update resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope: no`},
		"a driver":       {write: status(bob, allocated, allocated+told)},
		"a driver's end": {write: status(bob, allocated+told, allocated)},
		"no change":      {write: status(alice, allocated+told, allocated+told)},
		"no driver": {write: status(alice, allocated+told, allocated+changed), refused: `status.devices: Forbidden: changing status.devices requires ` +
			`resource="resourceclaims/driver", verb="[arbitrary-node:update]" permission: resourceclaims.resource.k8s.io "d.io" is forbidden: ` +
			`User "alice" cannot arbitrary-node:update resource "resourceclaims/driver" in API group "resource.k8s.io" in the namespace "default": no`},
		"a node's agent":  {write: status(agent("n1"), allocated, allocated+told)},
		"another node's":  {write: status(agent("n2"), allocated, allocated+told), refused: `verb="[arbitrary-node:update]" permission`},
		"of no one node":  {write: status(agent("n1"), "allocation: {}", "allocation: {}"+told), refused: `verb="[arbitrary-node:update]" permission`},
		"all at once":     {write: status(authn.User{Name: "carol"}, "", allocated+told), refused: `[status.allocation: Forbidden: `},
		"nothing is left": {write: status(alice, allocated+told, "")},
	})
}
