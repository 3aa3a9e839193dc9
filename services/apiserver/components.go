package apiserver

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/lease"
)

// The roles that lead by leases in the database, by the names that Kubernetes has for them.
var ledRoles = []struct{ component, role string }{{"scheduler", "scheduler"}, {"controller-manager", "controllers"}}

// components tells of the scheduler and the controllers whether somebody leads, and of the database, in etcd's place, whether it answers.
func (s *Server) components(ctx context.Context) []corev1.ComponentStatus {
	var all []corev1.ComponentStatus
	for _, r := range ledRoles {
		err := errors.New("there is no database to ask")
		if s.cfg.DatabaseURL != "" {
			err = lease.Led(ctx, s.cfg.DatabaseURL, r.role)
		}
		all = append(all, component(r.component, err))
	}
	_, err := s.store.Revision(ctx)
	return append(all, component("etcd-0", err))
}

func component(name string, err error) corev1.ComponentStatus {
	healthy := corev1.ComponentCondition{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue, Message: "ok"}
	if err != nil {
		healthy.Status, healthy.Message = corev1.ConditionFalse, err.Error()
	}
	return corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: name}, Conditions: []corev1.ComponentCondition{healthy}}
}
