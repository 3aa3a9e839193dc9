package route

import (
	"fmt"

	"howdah.dev/kit/object"
)

// Reasons of faults, as events have them.
const (
	ReasonService     = "ServiceNotFound"
	ReasonPort        = "ServicePortNotFound"
	ReasonBackend     = "BackendNotSupported"
	ReasonSecret      = "SecretNotFound"
	ReasonCertificate = "InvalidCertificate"
	ReasonConflict    = "PathConflict"
	ReasonAnnotation  = "InvalidAnnotation"
	ReasonParameters  = "ParametersNotSupported"
)

// Fault is something that its object's owner has to put right.
type Fault struct {
	Object          object.Object // an Ingress, an IngressClass, or one of the Gateway API
	Reason, Message string
}

// faults collects those of one object, each once.
type faults struct {
	about object.Object
	list  *[]Fault
	seen  map[string]bool
}

func (f *faults) add(reason, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if f.seen[reason+message] {
		return
	}
	f.seen[reason+message] = true
	*f.list = append(*f.list, Fault{Object: f.about, Reason: reason, Message: message})
}
