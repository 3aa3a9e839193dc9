package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"howdah.dev/services/apiserver/internal/registry"
)

// The pools of values that Services share. Of addresses each family is one.
const (
	poolIPs   = "clusterips"
	poolPorts = "nodeports"
)

// allocation gives Services the addresses and ports that they need.
type allocation struct{ families []corev1.IPFamily }

// allocate fills obj's cluster addresses and node ports and reserves those that
// it asks for; what only old had is freed. Most of its errors are 422s about the
// field. As in Kubernetes, it comes before validation: of a Service that is
// wrong in several ways, what cannot be allocated is told first, and alone.
func (a allocation) allocate(ctx context.Context, pool registry.Allocator, obj, before registry.Object) error {
	s := obj.(*corev1.Service)
	old, _ := before.(*corev1.Service)
	held := map[registry.Reservation]bool{}
	if old != nil {
		for _, r := range a.reservations(old) {
			held[r] = true
		}
	}
	var stored []string
	if old != nil {
		stored = old.Spec.ClusterIPs
	}
	if errs := validateIPs(s, field.NewPath("spec"), stored); len(errs) > 0 {
		return invalid(s, errs)
	}
	if old != nil && needsClusterIP(s) { // what is malformed was told as the client sent it
		releaseSecond(&s.Spec, &old.Spec)
	}
	if errs := a.setFamilies(s, old); len(errs) > 0 {
		return invalid(s, errs)
	}
	if err := a.addresses(ctx, pool, s, old); err != nil {
		return err
	}
	if err := a.ports(ctx, pool, s, old, held); err != nil {
		return err
	}
	if err := healthPort(ctx, pool, s, old); err != nil {
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
// What an address is changed to is not reserved: validation refuses the change.
func (a allocation) addresses(ctx context.Context, pool registry.Allocator, s, old *corev1.Service) error {
	if !needsClusterIP(s) || headless(s) {
		return nil
	}
	had := 0
	if old != nil && needsClusterIP(old) {
		had = len(old.Spec.ClusterIPs)
	}
	if had == 0 && old != nil && needsClusterIP(old) {
		return nil // an apply to its status made it: it stays without
	}
	path := field.NewPath("spec", "clusterIPs")
	for i, ip := range s.Spec.ClusterIPs {
		if i < had {
			continue
		}
		if err := pool.Reserve(ctx, registry.Reservation{Pool: poolIPs, Value: ip}); err != nil {
			shown := append(slices.Clone(s.Spec.ClusterIPs), make([]string, max(len(s.Spec.IPFamilies)-len(s.Spec.ClusterIPs), 0))...)
			return invalid(s, field.ErrorList{field.Invalid(path, shown, "failed to allocate IP "+ip+": "+err.Error())})
		}
	}
	for i := len(s.Spec.ClusterIPs); i < len(s.Spec.IPFamilies); i++ {
		ip, err := pool.Next(ctx, poolIPs+"/"+string(s.Spec.IPFamilies[i]))
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP for Service %q: %w", s.Name, err))
		}
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, ip)
	}
	if len(s.Spec.ClusterIPs) > 0 {
		s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	}
	return nil
}

func familyOf(ip string) corev1.IPFamily {
	if netutils.IsIPv6String(ip) {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// ports reserves the node ports named, then takes the missing ones. In a new
// Service, ports of the same number, as DNS over TCP and UDP, get the same node
// port, and only they may share one.
func (a allocation) ports(ctx context.Context, pool registry.Allocator, s, old *corev1.Service, held map[registry.Reservation]bool) error {
	if !mayHaveNodePorts(s) {
		return nil
	}
	if old == nil {
		return newPorts(ctx, pool, s)
	}
	path := field.NewPath("spec", "ports")
	uses := map[use]bool{}
	for i, p := range s.Spec.Ports {
		if p.NodePort == 0 {
			continue
		}
		if uses[use{p.Protocol, p.NodePort}] {
			return plain(fmt.Sprintf("duplicate nodePort: {%s %d}", p.Protocol, p.NodePort))
		}
		uses[use{p.Protocol, p.NodePort}] = true
		r := portReservation(p.NodePort)
		if held[r] {
			continue
		}
		if err := pool.Reserve(ctx, r); err != nil {
			return invalid(s, field.ErrorList{field.Invalid(path.Index(i).Child("nodePort"), p.NodePort, err.Error())})
		}
		held[r] = true
	}
	return missingPorts(ctx, pool, s, false)
}

// use is what no two ports have in common.
type use struct {
	protocol corev1.Protocol
	nodePort int32
}

func newPorts(ctx context.Context, pool registry.Allocator, s *corev1.Service) error {
	path := field.NewPath("spec", "ports")
	first := map[int32]int32{} // the node port of each port number
	uses := map[use]bool{}
	for i, p := range s.Spec.Ports {
		if p.NodePort == 0 {
			continue
		}
		if first[p.Port] == p.NodePort { // the same of one protocol is refused by validation
			uses[use{p.Protocol, p.NodePort}] = true
			continue
		}
		err := pool.Reserve(ctx, portReservation(p.NodePort))
		if err == nil && usedBy(uses, p.NodePort) { // the pool does not mind what it gave this Service before
			err = errTakenPort
		}
		if err != nil {
			return invalid(s, field.ErrorList{field.Invalid(path.Index(i).Child("nodePort"), p.NodePort, err.Error())})
		}
		first[p.Port] = p.NodePort
		uses[use{p.Protocol, p.NodePort}] = true
	}
	return missingPorts(ctx, pool, s, true)
}

var errTakenPort = errors.New("provided port is already allocated")

func usedBy(uses map[use]bool, nodePort int32) bool {
	for u := range uses {
		if u.nodePort == nodePort {
			return true
		}
	}
	return false
}

// missingPorts takes a node port for each port without. share says that ports of the same number have one.
func missingPorts(ctx context.Context, pool registry.Allocator, s *corev1.Service, share bool) error {
	if !needsNodePorts(s) {
		return nil
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.NodePort != 0 {
			continue
		}
		twin := slices.IndexFunc(s.Spec.Ports, func(q corev1.ServicePort) bool {
			return share && q.Port == p.Port && q.NodePort != 0
		})
		if twin >= 0 {
			p.NodePort = s.Spec.Ports[twin].NodePort
		} else {
			n, err := next(ctx, pool)
			if err != nil {
				return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
			}
			p.NodePort = n
		}
	}
	return nil
}

// healthPort reserves the port at which nodes answer whether they have endpoints, when the Service begins to need one.
func healthPort(ctx context.Context, pool registry.Allocator, s, old *corev1.Service) error {
	if !needsHealthCheckPort(s) || old != nil && needsHealthCheckPort(old) {
		return nil
	}
	if n := s.Spec.HealthCheckNodePort; n != 0 {
		err := pool.Reserve(ctx, portReservation(n))
		if err == nil && slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort == n }) {
			err = errTakenPort
		}
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %d: %w", n, err))
		}
		return nil
	}
	n, err := next(ctx, pool)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a HealthCheck NodePort 0: %w", err))
	}
	s.Spec.HealthCheckNodePort = n
	return nil
}

func portReservation(n int32) registry.Reservation {
	return registry.Reservation{Pool: poolPorts, Value: strconv.Itoa(int(n))}
}

// plain is the 500 of an error that Kubernetes does not translate.
func plain(text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: text}}
}

func next(ctx context.Context, pool registry.Allocator) (int32, error) {
	value, err := pool.Next(ctx, poolPorts)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return int32(n), err // behind the last number, which only a dry run reaches, validation refuses it
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
			hold(poolIPs, ip)
		}
	}
	for _, p := range s.Spec.Ports {
		if p.NodePort != 0 && mayHaveNodePorts(s) {
			hold(poolPorts, strconv.Itoa(int(p.NodePort)))
		}
	}
	if s.Spec.HealthCheckNodePort != 0 {
		hold(poolPorts, strconv.Itoa(int(s.Spec.HealthCheckNodePort)))
	}
	return all
}
