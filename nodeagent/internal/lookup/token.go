package lookup

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"

	"howdah.dev/kit/object"
)

func requestToken(ctx context.Context, client *object.Client, namespace, account string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	answer := &authenticationv1.TokenRequest{}
	err := object.For(client, object.ServiceAccount).Post(ctx, namespace, account, "token", request, answer)
	return answer, err
}
