package check

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
)

// TrustBundleName tells what is wrong with the name of a ClusterTrustBundle: it begins with its signer's, a colon for each slash, and another colon;
// without a signer it has no colon.
func TrustBundleName(name, signer string) []string {
	rest := name
	if signer == "" {
		if strings.Contains(name, ":") {
			return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
		}
	} else {
		prefix := strings.ReplaceAll(signer, "/", ":") + ":"
		var ok bool
		if rest, ok = strings.CutPrefix(name, prefix); !ok {
			return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, prefix)}
		}
	}
	return validation.NameIsDNSSubdomain(rest, false)
}
