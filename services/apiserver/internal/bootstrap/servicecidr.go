package bootstrap

import (
	"context"
	"encoding/json"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

var serviceCIDRs = resource{"networking.k8s.io", "v1", "servicecidrs"}

// serviceCIDR shows the range that the addresses of Services come from as the ServiceCIDR "kubernetes", ready.
func serviceCIDR(ctx context.Context, cfg Config) error {
	wanted := &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"networking.k8s.io/service-cidr-finalizer"}},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{cfg.ServiceCIDR.String()}},
	}
	if err := ensure(ctx, cfg.API, serviceCIDRs, wanted, nil); err != nil {
		return err
	}
	got, err := cfg.API.Get(ctx, &apiv1.GetRequest{Group: serviceCIDRs.group, Version: serviceCIDRs.version, Resource: serviceCIDRs.resource, Name: name})
	if err != nil {
		return wrap(err, serviceCIDRs, wanted)
	}
	var there networkingv1.ServiceCIDR
	if err := json.Unmarshal(got.GetObject(), &there); err != nil {
		return wrap(err, serviceCIDRs, wanted)
	}
	changed := meta.SetStatusCondition(&there.Status.Conditions, metav1.Condition{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready",
	})
	if !changed {
		return nil
	}
	body, err := json.Marshal(&there)
	if err != nil {
		return err
	}
	_, err = cfg.API.Update(ctx, &apiv1.UpdateRequest{
		Group: serviceCIDRs.group, Version: serviceCIDRs.version, Resource: serviceCIDRs.resource, Name: name, Subresource: "status", Object: body,
	})
	return wrap(err, serviceCIDRs, wanted)
}
