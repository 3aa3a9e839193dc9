// Package peers knows the control planes of a cluster, by the Leases in which their API servers show themselves.
package peers

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

const (
	selector           = "apiserver.kubernetes.io/identity=kube-apiserver"
	gatewaysAnnotation = "howdah.dev/gateways"
	versionAnnotation  = "howdah.dev/version"
	// silentAfter is how long after a renewal, which is due each ten seconds, an API server counts as silent.
	silentAfter = 45 * time.Second
)

// ControlPlane is what an API server tells of itself.
type ControlPlane struct {
	Name     string
	Lease    string
	Version  string   // empty: a release that does not tell
	Gateways []string // ip:port
	Renewed  time.Time
	Alive    bool
}

// Leases are those of API servers.
func Leases(ctx context.Context, client *object.Client) ([]*coordinationv1.Lease, error) {
	leases, _, err := object.For(client, object.Lease).List(ctx, metav1.NamespaceSystem, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list the Leases of API servers: %w", err)
	}
	return leases, nil
}

// Of reads Leases, in the order of names.
func Of(leases []*coordinationv1.Lease, now time.Time) []ControlPlane {
	var all []ControlPlane
	for _, l := range leases {
		p := ControlPlane{Name: l.Labels[corev1.LabelHostname], Lease: l.Name, Version: l.Annotations[versionAnnotation]}
		if text := l.Annotations[gatewaysAnnotation]; text != "" {
			p.Gateways = strings.Split(text, ",")
		}
		if l.Spec.RenewTime != nil {
			p.Renewed = l.Spec.RenewTime.Time
			p.Alive = now.Sub(p.Renewed) < silentAfter
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b ControlPlane) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Forget removes the Lease of a control plane that is no more, so that nobody is led to it, and none waits for it.
func Forget(ctx context.Context, client *object.Client, name string) error {
	leases, err := Leases(ctx, client)
	if err != nil {
		return err
	}
	for _, p := range Of(leases, time.Time{}) {
		if p.Name != name {
			continue
		}
		if err := object.For(client, object.Lease).Delete(ctx, metav1.NamespaceSystem, p.Lease, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the Lease of %s: %w", name, err)
		}
	}
	return nil
}

// Address is host:port.
func Address(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
