package bootstrap

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

var serviceCIDRs = resource{"networking.k8s.io", "v1", "servicecidrs"}

// serviceCIDR shows the ranges that the addresses of Services come from as the ServiceCIDR "kubernetes", ready. One that has the first range
// alone is given the second: a cluster may get another family, but no other ranges.
func serviceCIDR(ctx context.Context, cfg Config) error {
	wanted := &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"networking.k8s.io/service-cidr-finalizer"}},
	}
	for _, p := range cfg.ServiceCIDRs {
		wanted.Spec.CIDRs = append(wanted.Spec.CIDRs, p.String())
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
	if there.DeletionTimestamp != nil {
		return nil // the next one is made when it is gone
	}
	if have := there.Spec.CIDRs; !slices.Equal(have, wanted.Spec.CIDRs) {
		if len(have) != 1 || have[0] != wanted.Spec.CIDRs[0] {
			slog.WarnContext(ctx, "the ServiceCIDR kubernetes has other ranges than this server was started with", "has", have, "wanted", wanted.Spec.CIDRs)
			return nil
		}
		if there, err = extendRanges(ctx, cfg.API, there, wanted.Spec.CIDRs); err != nil {
			return wrap(err, serviceCIDRs, wanted)
		}
	}
	if meta.FindStatusCondition(there.Status.Conditions, networkingv1.ServiceCIDRConditionReady) != nil {
		return nil // it is the controllers' from then on
	}
	meta.SetStatusCondition(&there.Status.Conditions, metav1.Condition{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready",
	})
	body, err := json.Marshal(&there)
	if err != nil {
		return err
	}
	_, err = cfg.API.Update(ctx, &apiv1.UpdateRequest{
		Group: serviceCIDRs.group, Version: serviceCIDRs.version, Resource: serviceCIDRs.resource, Name: name, Subresource: "status", Object: body,
	})
	return wrap(err, serviceCIDRs, wanted)
}

// extendRanges writes the ranges into a ServiceCIDR, and returns it as it is then.
func extendRanges(ctx context.Context, api API, there networkingv1.ServiceCIDR, ranges []string) (networkingv1.ServiceCIDR, error) {
	there.Spec.CIDRs = ranges
	body, err := json.Marshal(&there)
	if err != nil {
		return there, err
	}
	updated, err := api.Update(ctx, &apiv1.UpdateRequest{
		Group: serviceCIDRs.group, Version: serviceCIDRs.version, Resource: serviceCIDRs.resource, Name: there.Name, Object: body,
	})
	if err != nil {
		return there, err
	}
	var now networkingv1.ServiceCIDR
	return now, json.Unmarshal(updated.GetObject(), &now)
}
