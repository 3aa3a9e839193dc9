package token

import (
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// keysType is the content type of the set of keys.
const keysType = "application/jwk-set+json"

// takes reports whether a header Accept, which may be empty, covers the content type.
func takes(accept, contentType string) bool {
	if strings.TrimSpace(accept) == "" {
		return true
	}
	whole, _, _ := strings.Cut(contentType, "/")
	for part := range strings.SplitSeq(accept, ",") {
		media, _, err := mime.ParseMediaType(part)
		if err == nil && (media == "*/*" || media == whole+"/*" || media == contentType) {
			return true
		}
	}
	return false
}

// notAcceptable is the 406 that names what there is.
func notAcceptable(contentType string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable, Details: &metav1.StatusDetails{},
		Message: "406: Not Acceptable\n\nAvailable representations: " + contentType,
	}}
}
