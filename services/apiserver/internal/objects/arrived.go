package objects

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// unreadKey is the metadata by which a gateway tells why it could not read the body of a request, as a Status: that it is too large, or did
// not arrive. Whether the request may be made, and how it may be answered, is told before.
const unreadKey = "howdah-unread-body-bin"

// arrived refuses a body in an encoding that is not taken, one that is not there as a whole, or is too large.
func (r *request) arrived(body []byte, contentType string) error {
	if err := r.offer.Takes(contentType); err != nil {
		return err
	}
	return r.whole(body)
}

// whole refuses a body that is not there as a whole, or too large.
func (r *request) whole(body []byte) error {
	if r.unread != nil {
		return r.unread
	}
	if len(body) > maxObject {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxObject))
	}
	return nil
}
