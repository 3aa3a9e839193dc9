package service

import (
	"context"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"howdah.dev/services/apiserver/internal/registry"
)

// The pools of values that Services share.
const (
	poolIPs = "clusterips"
	// poolSecond is the pool of the cluster's second address family.
	poolSecond = "clusterips-secondary"
	poolPorts  = "nodeports"
)

// allocation gives Services the addresses and ports that they need.
type allocation struct{ families []corev1.IPFamily }

// allocate fills obj's cluster addresses and node ports and reserves those that
// it asks for; what only old had is freed. Its errors are 422s about the field.
func (a allocation) allocate(ctx context.Context, pool registry.Allocator, obj, before registry.Object) error {
	s := obj.(*corev1.Service)
	old, _ := before.(*corev1.Service)
	held := map[registry.Reservation]bool{}
	if old != nil {
		for _, r := range a.reservations(old) {
			held[r] = true
		}
	}
	// Nothing is reserved for what validation is about to refuse, and its
	// words are the better ones.
	if len(validate(s)) > 0 || old != nil && len(validateUpdate(s, old)) > 0 {
		return nil
	}
	if errs := a.setFamilies(s); len(errs) > 0 {
		return invalid(s, errs)
	}
	if err := a.addresses(ctx, pool, s, held); err != nil {
		return err
	}
	if err := a.ports(ctx, pool, s, held); err != nil {
		return err
	}
	for _, r := range a.reservations(s) {
		delete(held, r)
	}
	for r := range held {
		pool.Free(r)
	}
	return nil
}

func invalid(s *corev1.Service, errs field.ErrorList) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, errs)
}

// addresses reserves the addresses named, and takes one for each family without.
func (a allocation) addresses(ctx context.Context, pool registry.Allocator, s *corev1.Service, held map[registry.Reservation]bool) error {
	if !needsClusterIP(s) || headless(s) {
		return nil
	}
	path := field.NewPath("spec", "clusterIPs")
	for i, ip := range s.Spec.ClusterIPs {
		r := registry.Reservation{Pool: a.pool(familyOf(ip)), Value: ip}
		if held[r] {
			continue
		}
		if err := pool.Reserve(ctx, r); err != nil {
			return invalid(s, field.ErrorList{field.Invalid(path, s.Spec.ClusterIPs,
				"failed to allocate IP "+s.Spec.ClusterIPs[i]+": "+err.Error())})
		}
	}
	for i := len(s.Spec.ClusterIPs); i < len(s.Spec.IPFamilies); i++ {
		ip, err := pool.Next(ctx, a.pool(s.Spec.IPFamilies[i]))
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, ip)
	}
	if len(s.Spec.ClusterIPs) > 0 {
		s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	}
	return nil
}

func (a allocation) pool(f corev1.IPFamily) string {
	if f == a.families[0] {
		return poolIPs
	}
	return poolSecond
}

func familyOf(ip string) corev1.IPFamily {
	if netutils.IsIPv6String(ip) {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// ports reserves the node ports named, then takes the missing ones: ports of
// the same number, as DNS over TCP and UDP, get the same node port.
func (a allocation) ports(ctx context.Context, pool registry.Allocator, s *corev1.Service, held map[registry.Reservation]bool) error {
	if !mayHaveNodePorts(s) {
		return nil
	}
	path := field.NewPath("spec", "ports")
	type use struct {
		number   int32
		protocol corev1.Protocol
	}
	mine := map[int32]bool{}
	uses := map[use]bool{}
	reserve := func(n int32, at *field.Path) error {
		r := registry.Reservation{Pool: poolPorts, Value: strconv.Itoa(int(n))}
		if !mine[n] && !held[r] {
			if err := pool.Reserve(ctx, r); err != nil {
				return invalid(s, field.ErrorList{field.Invalid(at, n, err.Error())})
			}
		}
		mine[n] = true
		return nil
	}
	for i, p := range s.Spec.Ports {
		if p.NodePort == 0 {
			continue
		}
		if err := reserve(p.NodePort, path.Index(i).Child("nodePort")); err != nil {
			return err
		}
		uses[use{p.NodePort, p.Protocol}] = true
	}
	if needsHealthCheckPort(s) && s.Spec.HealthCheckNodePort != 0 {
		if err := reserve(s.Spec.HealthCheckNodePort, field.NewPath("spec", "healthCheckNodePort")); err != nil {
			return err
		}
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.NodePort != 0 || !needsNodePorts(s) {
			continue
		}
		twin := slices.IndexFunc(s.Spec.Ports, func(q corev1.ServicePort) bool {
			return q.Port == p.Port && q.NodePort != 0 && !uses[use{q.NodePort, p.Protocol}]
		})
		if twin >= 0 {
			p.NodePort = s.Spec.Ports[twin].NodePort
		} else {
			n, err := next(ctx, pool)
			if err != nil {
				return err
			}
			p.NodePort = n
		}
		uses[use{p.NodePort, p.Protocol}] = true
	}
	if needsHealthCheckPort(s) && s.Spec.HealthCheckNodePort == 0 {
		n, err := next(ctx, pool)
		if err != nil {
			return err
		}
		s.Spec.HealthCheckNodePort = n
	}
	return nil
}

func next(ctx context.Context, pool registry.Allocator) (int32, error) {
	value, err := pool.Next(ctx, poolPorts)
	if err != nil {
		return 0, apierrors.NewInternalError(err)
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return 0, apierrors.NewInternalError(err)
	}
	return int32(n), nil
}

// reservations names what a Service holds.
func (a allocation) reservations(s *corev1.Service) []registry.Reservation {
	var all []registry.Reservation
	hold := func(pool, value string) {
		if r := (registry.Reservation{Pool: pool, Value: value}); !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	if needsClusterIP(s) && !headless(s) {
		for _, ip := range s.Spec.ClusterIPs {
			hold(a.pool(familyOf(ip)), ip)
		}
	}
	for _, p := range s.Spec.Ports {
		if p.NodePort != 0 {
			hold(poolPorts, strconv.Itoa(int(p.NodePort)))
		}
	}
	if s.Spec.HealthCheckNodePort != 0 {
		hold(poolPorts, strconv.Itoa(int(s.Spec.HealthCheckNodePort)))
	}
	return all
}
