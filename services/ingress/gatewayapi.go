package ingress

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"howdah.dev/kit/object"
	"howdah.dev/services/ingress/internal/gatewayapi"
	"howdah.dev/services/ingress/internal/route"
)

// GatewayController is the name by which GatewayClasses are ours.
const GatewayController = route.GatewayController

// EnsureGatewayAPI creates the definitions of the Gateway API that are missing, where they are wanted, and, where there are definitions, the GatewayClass of a name
// that the ingress controller serves. What is there stays as it is. "" is no class.
func EnsureGatewayAPI(ctx context.Context, client *object.Client, definitions bool, class string) error {
	defined, err := gatewayapi.Defined(ctx, client)
	if definitions && err == nil {
		defined, err = gatewayapi.Install(ctx, client, "howdah-addons")
	}
	if err != nil || !defined || class == "" {
		return err
	}
	_, err = object.For(client, gatewayapi.GatewayClass).Create(ctx, &gatewayv1.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Spec: gatewayv1.GatewayClassSpec{ControllerName: GatewayController},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the GatewayClass %s: %w", class, err)
	}
	return nil
}
