package rbacpolicy

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// controllers are the roles of the controllers that Kubernetes names, each bound to the service account of its name in
// kube-system: tools that bring a controller of their own use them.
func (p *Policy) controllers() {
	for _, roles := range []map[string][]rbacv1.PolicyRule{workloadControllers(), networkControllers(), storageControllers(), clusterControllers()} {
		for _, name := range slices.Sorted(maps.Keys(roles)) {
			p.controller(name, roles[name]...)
		}
	}
}

func (p *Policy) controller(name string, rules ...rbacv1.PolicyRule) {
	p.clusterRole("system:controller:"+name, rules...)
	p.bind("system:controller:"+name, account(name))
}
