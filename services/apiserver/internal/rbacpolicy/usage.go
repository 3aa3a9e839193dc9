package rbacpolicy

// usage lets whoever may view a namespace see what its pods use, as the manifests of metrics-server do.
func (p *Policy) usage() {
	reader := p.clusterRole("howdah:aggregated-metrics-reader", rule("metrics.k8s.io", "nodes pods", read))
	reader.Labels[bootstrapLabel] = ownValue
	for _, role := range []string{"admin", "edit", "view"} {
		reader.Labels[aggregatePrefix+role] = "true"
	}
}
