package objecttest

import (
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// mint answers a TokenRequest with a token that names the service account and
// counts: "token-NAME-1". s.mu is held.
func (s *Server) mint(r *apiv1.CreateRequest, request *authenticationv1.TokenRequest) (kind, object.Object) {
	s.tokens++
	lifetime := time.Duration(ptr.Deref(request.Spec.ExpirationSeconds, 3600)) * time.Second
	request.Status.Token = fmt.Sprintf("token-%s-%d", r.GetName(), s.tokens)
	request.Status.ExpirationTimestamp = metav1.NewTime(s.now().Add(lifetime))
	return kind{gvk: authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")}, request
}
