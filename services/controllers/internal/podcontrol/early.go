package podcontrol

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// early are what admission says of pods that it refuses before it looks at their names. In Kubernetes such a pod has none yet, for its controller leaves
// that to the API server.
var early = []string{"error looking up service account ", "no PriorityClass with name ", "pod rejected: RuntimeClass "}

// unnamed is an error with a pod's prefix in the place of a name that no pod will ever have: of every further pod the same is told, so that
// events count it and conditions stay.
func unnamed(err error, name, prefix string) error {
	var status apierrors.APIStatus
	if prefix == "" || !errors.As(err, &status) {
		return err
	}
	s := status.Status()
	for _, text := range early {
		if strings.Contains(s.Message, text) {
			s.Message = strings.Replace(s.Message, `"`+name+`"`, `"`+prefix+`"`, 1)
			return &apierrors.StatusError{ErrStatus: s}
		}
	}
	return err
}
