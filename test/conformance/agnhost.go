//go:build tools

package conformance

// The program that most of the tests' pods run; hack/conformance.sh makes its image.
import _ "k8s.io/kubernetes/test/images/agnhost"
