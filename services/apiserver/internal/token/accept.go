package token

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// issuerType is the content type of the document about the issuer.
	issuerType = "application/json"
	// keysType is the content type of the set of keys.
	keysType = "application/jwk-set+json"
)

// takes reports whether a header Accept, which may be empty, names the content type or all; parameters do not count.
func takes(accept, contentType string) bool {
	if strings.TrimSpace(accept) == "" {
		return true
	}
	for part := range strings.SplitSeq(accept, ",") {
		media, _, _ := strings.Cut(part, ";")
		if media = strings.TrimSpace(media); media == "*/*" || media == contentType {
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
