package objects

import (
	"context"
	"encoding/json"

	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wrongKey is the metadata by which a gateway tells what is wrong with the options of a request's query, as a Status: numbers are no numbers
// any more, or none yet, where the fields of a message are. It is told after all that Kubernetes judges before it reads them.
const wrongKey = "howdah-wrong-options-bin"

// told is the refusal that a gateway has sent by a key of metadata; nil: none.
func told(ctx context.Context, key string) error {
	values := metadata.ValueFromIncomingContext(ctx, key)
	if len(values) == 0 {
		return nil
	}
	var status metav1.Status
	if err := json.Unmarshal([]byte(values[0]), &status); err != nil || status.Code < 400 {
		return apierrors.NewBadRequest("the request cannot be read")
	}
	return &apierrors.StatusError{ErrStatus: status}
}
