package plugin

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unaskable says why no object can be asked for by a name, as it would not lead to one in a URL: a text that clients of the API have, and
// no reason. nil: it can be asked for.
func unaskable(name string) error {
	var err error
	if bad := path.IsValidPathSegmentName(name); name == "" {
		err = errors.New("resource name may not be empty")
	} else if len(bad) > 0 {
		err = fmt.Errorf("invalid resource name %q: %v", name, bad)
	}
	if err == nil {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}}
}
