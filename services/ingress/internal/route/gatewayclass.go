package route

import (
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// newest is the last release of the Gateway API, of the first major one, whose objects are read here.
const newest = 5

// classes sorts out which GatewayClasses are ours, and served.
func (g *gateways) classes() map[string]bool {
	mine := map[string]bool{}
	for _, class := range g.from.Classes {
		if string(class.Spec.ControllerName) != g.from.Controller {
			continue
		}
		var accepted, version verdict
		if class.Spec.ParametersRef != nil {
			accepted.refuse(string(gatewayv1.GatewayClassReasonInvalidParameters), "this controller takes no parameters: spec.parametersRef cannot act")
		}
		if !supported(g.from.Version) {
			version.refuse(string(gatewayv1.GatewayClassReasonUnsupportedVersion), "the definitions are of the version %q; known are v1.0 to v1.%d", g.from.Version, newest)
		}
		mine[class.Name] = accepted.ok()
		status := gatewayv1.GatewayClassStatus{Conditions: []metav1.Condition{
			accepted.condition(string(gatewayv1.GatewayClassConditionStatusAccepted), string(gatewayv1.GatewayClassReasonAccepted), class.Generation),
			version.condition(string(gatewayv1.GatewayClassConditionStatusSupportedVersion), string(gatewayv1.GatewayClassReasonSupportedVersion), class.Generation),
		}}
		if accepted.ok() {
			for _, name := range Features {
				status.SupportedFeatures = append(status.SupportedFeatures, gatewayv1.SupportedFeature{Name: gatewayv1.FeatureName(name)})
			}
		}
		g.table.Statuses.Classes[class.Name] = status
		g.fault(class, status.Conditions)
	}
	return mine
}

// supported reports whether the objects of a bundle's version are those that are read here.
func supported(version string) bool {
	rest, ok := strings.CutPrefix(version, "v1.")
	minor, _, _ := strings.Cut(rest, ".")
	minor, _, _ = strings.Cut(minor, "-")
	n, err := strconv.Atoi(minor)
	return ok && err == nil && n >= 0 && n <= newest
}
