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

// rangeManager applies what is said of the default range before the controllers of the cluster look at it. It is Kubernetes' name.
const rangeManager = "kubernetes-service-cidr-controller"

// serviceCIDR shows the ranges that the addresses of Services come from as the ServiceCIDR "kubernetes", ready. One that has the first range
// alone is given the second: a cluster may get another family, but no other ranges.
func serviceCIDR(ctx context.Context, cfg Config) error {
	wanted := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}}
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
		if err := extendRanges(ctx, cfg.API, there, wanted.Spec.CIDRs); err != nil {
			return wrap(err, serviceCIDRs, wanted)
		}
	}
	ready := meta.FindStatusCondition(there.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if ready != nil && ready.Status != metav1.ConditionUnknown {
		return nil // it is the controllers' from then on
	}
	return wrap(applyReady(ctx, cfg), serviceCIDRs, wanted)
}

// extendRanges writes the ranges into a ServiceCIDR.
func extendRanges(ctx context.Context, api API, there networkingv1.ServiceCIDR, ranges []string) error {
	there.Spec.CIDRs = ranges
	body, err := json.Marshal(&there)
	if err != nil {
		return err
	}
	_, err = api.Update(ctx, &apiv1.UpdateRequest{
		Group: serviceCIDRs.group, Version: serviceCIDRs.version, Resource: serviceCIDRs.resource, Name: there.Name, Object: body,
	})
	return err
}

func applyReady(ctx context.Context, cfg Config) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": networkingv1.SchemeGroupVersion.String(), "kind": "ServiceCIDR", "metadata": map[string]any{"name": name},
		"status": map[string]any{"conditions": []map[string]any{{
			"type": networkingv1.ServiceCIDRConditionReady, "status": metav1.ConditionTrue, "message": "Kubernetes default Service CIDR is ready",
			"lastTransitionTime": metav1.NewTime(cfg.Now()),
		}}},
	})
	if err != nil {
		return err
	}
	_, err = cfg.API.Patch(ctx, &apiv1.PatchRequest{
		Group: serviceCIDRs.group, Version: serviceCIDRs.version, Resource: serviceCIDRs.resource, Name: name, Subresource: "status",
		ContentType: "application/apply-patch+yaml", Object: body, FieldManager: rangeManager, Force: "true",
	})
	return err
}
