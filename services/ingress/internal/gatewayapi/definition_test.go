package gatewayapi

import (
	"testing"

	"sigs.k8s.io/gateway-api/pkg/consts"
)

// TestDefinitions holds that the definitions are those of the module whose types are used, of the standard channel, and that they define what is followed.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	all, err := definitions()
	if err != nil {
		t.Fatal(err)
	}
	defined := map[string]bool{}
	for _, d := range all {
		defined[d.Name] = true
		if d.Annotations[VersionAnnotation] != consts.BundleVersion || d.Annotations[ChannelAnnotation] != "standard" || d.Kind != "CustomResourceDefinition" || len(d.json) == 0 {
			t.Errorf("%s %s: %v, want the version %s: run make generate", d.Kind, d.Name, d.Annotations, consts.BundleVersion)
		}
	}
	for _, name := range []string{
		GatewayClass.GroupResource().String(), Gateway.GroupResource().String(), ListenerSet.GroupResource().String(), HTTPRoute.GroupResource().String(),
		GRPCRoute.GroupResource().String(), TLSRoute.GroupResource().String(), ReferenceGrant.GroupResource().String(), BackendTLSPolicy.GroupResource().String(),
	} {
		if !defined[name] {
			t.Errorf("%s is not defined", name)
		}
	}
}
