package service

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/kind/column"
)

var docs = corev1.ServiceSpec{}.SwaggerDoc()

var columns = []metav1.TableColumnDefinition{
	column.Name(),
	column.String("Type", docs["type"]),
	column.String("Cluster-IP", docs["clusterIP"]),
	column.String("External-IP", docs["externalIPs"]),
	column.String("Port(s)", docs["ports"]),
	column.Age(),
	column.Wide(column.String("Selector", docs["selector"])),
}

func cells(s *corev1.Service, now time.Time) []any {
	ip := column.None
	if len(s.Spec.ClusterIPs) > 0 {
		ip = s.Spec.ClusterIPs[0]
	}
	return []any{
		s.Name, string(s.Spec.Type), ip, external(s), column.Or(ports(s.Spec.Ports), column.None),
		column.Since(now, s.CreationTimestamp.Time), column.Labels(s.Spec.Selector),
	}
}

func external(s *corev1.Service) string {
	addresses := slices.Clone(s.Spec.ExternalIPs)
	switch s.Spec.Type {
	case "": // in a bookmark
		return column.Unknown
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		balancer := balancerAddresses(s)
		if len(addresses) == 0 && balancer == "" {
			return "<pending>"
		}
		if balancer != "" {
			addresses = append(strings.Split(balancer, ","), addresses...)
		}
	}
	return column.Or(strings.Join(addresses, ","), column.None)
}

// balancerAddresses is what the load balancer answers at, sorted.
func balancerAddresses(s *corev1.Service) string {
	var all []string
	for _, in := range s.Status.LoadBalancer.Ingress {
		if a := column.Or(in.IP, in.Hostname); a != "" && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

func ports(list []corev1.ServicePort) string {
	all := make([]string, len(list))
	for i, p := range list {
		if p.NodePort > 0 {
			all[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		} else {
			all[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		}
	}
	return strings.Join(all, ",")
}
