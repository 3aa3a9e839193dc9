// Package service is the kind Service, with the allocation of its cluster
// addresses and node ports.
package service

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

// Config says what Services of this cluster may have.
type Config struct {
	// Now is the clock for ages.
	Now func() time.Time
	// Families are those that the cluster has addresses for, the default one
	// first; empty is IPv4 alone.
	Families []corev1.IPFamily
}

// Kind returns the kind.
func Kind(cfg Config) *registry.Kind {
	if len(cfg.Families) == 0 {
		cfg.Families = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	a := allocation{families: cfg.Families}
	return &registry.Kind{
		GVK:      corev1.SchemeGroupVersion.WithKind("Service"),
		Resource: "services", Singular: "service", ShortNames: []string{"svc"}, Categories: []string{"all"},
		Namespaced: true, ReturnDeleted: true,
		New:     func() registry.Object { return &corev1.Service{} },
		NewList: func() runtime.Object { return &corev1.ServiceList{} },

		CreateOnUpdate: true, StatusCreates: true,
		Default: typed.Do(fill),
		PrepareCreate: typed.Do(func(s *corev1.Service) {
			s.Status = corev1.ServiceStatus{}
			dropUnused(s)
			pair(&s.Spec)
		}),
		PrepareUpdate:  typed.Change(prepareUpdate),
		ValidateCreate: typed.Check(validate),
		ValidateUpdate: typed.CheckChange(validateUpdate),
		NameIsValid:    validation.NameIsDNSLabel, // since 1.36 names may begin with a digit
		Warnings:       typed.Warn(warnings),

		Status: &registry.Status{
			PrepareUpdate:  typed.Change(func(s, old *corev1.Service) { s.Spec = old.Spec }),
			ValidateUpdate: typed.CheckChange(validateStatusUpdate),
			Warnings: typed.Warn(func(s, _ *corev1.Service) (warnings []string) {
				for i, p := range s.Status.LoadBalancer.Ingress {
					if p.IP != "" {
						warnings = append(warnings, utilvalidation.GetWarningsForIP(field.NewPath("status", "loadBalancer", "ingress").Index(i), p.IP)...)
					}
				}
				return warnings
			}),
		},

		SelectableFields: typed.Get(func(s *corev1.Service) fields.Set {
			return fields.Set{"spec.clusterIP": s.Spec.ClusterIP, "spec.type": string(s.Spec.Type)}
		}),
		Columns:  columns,
		Cells:    typed.Get(func(s *corev1.Service) []any { return cells(s, cfg.Now()) }),
		Allocate: a.allocate,
		Release:  typed.Get(a.reservations),
	}
}
