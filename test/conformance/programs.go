//go:build tools

package conformance

// The programs that the tests' pods run; hack/conformance.sh makes images of them.
import (
	_ "k8s.io/kubernetes/test/images/agnhost"
	_ "k8s.io/sample-apiserver"
)
