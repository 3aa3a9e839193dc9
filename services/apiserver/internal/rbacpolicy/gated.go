package rbacpolicy

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// gated are the roles and rules that come with feature gates.
func (p *Policy) gated(features map[string]bool) {
	if features["ClusterTrustBundle"] {
		bundles := rule("certificates.k8s.io", "clustertrustbundles", read)
		p.clusterRole("system:cluster-trust-bundle-discovery", bundles)
		p.bind("system:cluster-trust-bundle-discovery", group("system:serviceaccounts"))
		p.controller("kube-apiserver-serving-clustertrustbundle-publisher",
			named(rule("certificates.k8s.io", "signers", "attest"), "kubernetes.io/kube-apiserver-serving"),
			rule("certificates.k8s.io", "clustertrustbundles", "create delete list update watch"),
			rule("core events.k8s.io", "events", "create patch update"),
		)
		p.extend("howdah:controllers", // which call by the process's certificate
			rule("certificates.k8s.io", "clustertrustbundles", "create"),
			named(rule("certificates.k8s.io", "signers", "attest"), "kubernetes.io/kube-apiserver-serving"),
		)
	}
	if features["GenericWorkload"] {
		writes, reads := rule("scheduling.k8s.io", "podgroups workloads", write), rule("scheduling.k8s.io", "podgroups podgroups/status workloads", read)
		p.extend("system:aggregate-to-edit", writes)
		p.extend("system:aggregate-to-view", reads)
		p.extend("edit", writes, reads)
		p.extend("admin", writes, reads)
		p.extend("view", reads)
		p.extend("system:kube-scheduler", rule("scheduling.k8s.io", "podgroups", read), rule("scheduling.k8s.io", "podgroups/status", "patch update"))
		p.controller("podgroup-protection-controller",
			rule("scheduling.k8s.io", "podgroups", "get list update watch"),
			rule("core", "pods", read),
		)
	}
	if features["PodCertificateRequest"] {
		p.controller("podcertificaterequestcleaner", rule("certificates.k8s.io", "podcertificaterequests", "delete get list watch"))
	}
	if features["StorageVersionMigrator"] {
		p.controller("storage-version-migrator-controller",
			rule("*", "*", "create list patch"),
			rule("apiextensions.k8s.io", "customresourcedefinitions", "get"),
			rule("apiextensions.k8s.io", "customresourcedefinitions/status", "patch"),
			rule("storagemigration.k8s.io", "storageversionmigrations/status", "update"),
		)
	}
}

// gatedNodeRules are what nodes may do with the kinds that come with feature gates.
func gatedNodeRules(features map[string]bool) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	if features["ClusterTrustBundle"] {
		rules = append(rules, rule("certificates.k8s.io", "clustertrustbundles", read))
	}
	if features["PodCertificateRequest"] {
		rules = append(rules, rule("certificates.k8s.io", "podcertificaterequests", "create get list watch"))
	}
	return rules
}

// extend adds rules to a cluster role.
func (p *Policy) extend(name string, rules ...rbacv1.PolicyRule) {
	at := slices.IndexFunc(p.ClusterRoles, func(r *rbacv1.ClusterRole) bool { return r.Name == name })
	p.ClusterRoles[at].Rules = append(p.ClusterRoles[at].Rules, rules...)
}
