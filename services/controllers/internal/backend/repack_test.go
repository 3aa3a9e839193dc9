package backend

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestRepack(t *testing.T) {
	t.Parallel()
	address := func(ips ...string) (list []corev1.EndpointAddress) {
		for _, ip := range ips {
			list = append(list, corev1.EndpointAddress{IP: ip})
		}
		return list
	}
	port := func(name string, number int32) corev1.EndpointPort {
		return corev1.EndpointPort{Name: name, Port: number, Protocol: corev1.ProtocolTCP}
	}
	for _, tt := range []struct {
		name    string
		subsets []corev1.EndpointSubset
		want    string // subsets, sorted: ports, sorted; ready addresses; others
	}{
		{"nothing", nil, ""},
		{"a port that differs", []corev1.EndpointSubset{
			{Addresses: address("1"), Ports: []corev1.EndpointPort{port("a", 80), port("b", 9)}},
			{Addresses: address("2"), Ports: []corev1.EndpointPort{port("a", 81), port("b", 9)}},
		}, "a80:1; a81:2; b9:1,2;"},
		{"the same ports twice", []corev1.EndpointSubset{
			{Addresses: address("2", "1"), Ports: []corev1.EndpointPort{port("a", 80)}}, {Addresses: address("3"), Ports: []corev1.EndpointPort{port("a", 80)}},
		}, "a80:1,2,3;"},
		{"not ready goes before", []corev1.EndpointSubset{
			{Addresses: address("1"), Ports: []corev1.EndpointPort{port("a", 80)}}, {NotReadyAddresses: address("1"), Ports: []corev1.EndpointPort{port("a", 80)}},
		}, "a80:-1;"},
		{"no ports", []corev1.EndpointSubset{{Addresses: address("1")}}, ":1;"},
		{"protocols of applications", []corev1.EndpointSubset{
			{Addresses: address("1"), Ports: []corev1.EndpointPort{{Name: "a", Port: 80, AppProtocol: ptr.To("http")}}},
			{Addresses: address("2"), Ports: []corev1.EndpointPort{{Name: "a", Port: 80, AppProtocol: ptr.To("http")}}},
		}, "a80http:1,2;"},
	} {
		var got []string
		for _, s := range Repack(tt.subsets) {
			var ports, ips []string
			for _, p := range s.Ports {
				ports = append(ports, p.Name+strings.TrimSpace(string(rune('0'+p.Port/10)))+string(rune('0'+p.Port%10))+ptr.Deref(p.AppProtocol, ""))
			}
			for _, a := range s.Addresses {
				ips = append(ips, a.IP)
			}
			for _, a := range s.NotReadyAddresses {
				ips = append(ips, "-"+a.IP)
			}
			slices.Sort(ports)
			got = append(got, strings.ReplaceAll(strings.Join(ports, "+"), "09", "9")+":"+strings.Join(ips, ",")+";")
		}
		slices.Sort(got)
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, text, tt.want)
		}
	}
}

// TestPortsAreInKubernetesOrder: as kube-controller-manager has been seen to write them.
func TestPortsAreInKubernetesOrder(t *testing.T) {
	t.Parallel()
	var subsets []corev1.EndpointSubset
	for _, port := range []corev1.EndpointPort{
		{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}, {Name: "metrics", Port: 9090, Protocol: corev1.ProtocolTCP},
		{Name: "admin", Port: 22, Protocol: corev1.ProtocolTCP}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP},
	} {
		subsets = append(subsets, corev1.EndpointSubset{Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}}, Ports: []corev1.EndpointPort{port}})
	}
	var got []string
	for _, port := range Repack(subsets)[0].Ports {
		got = append(got, port.Name)
	}
	if want := []string{"admin", "http", "metrics", "dns"}; !slices.Equal(got, want) {
		t.Errorf("ports %v, want %v", got, want)
	}
}

// BenchmarkRepack is of a service with 2,500 pods, whose change of one it is called for.
func BenchmarkRepack(b *testing.B) {
	subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Port: 80}, {Name: "b", Port: 81}}}
	for i := range 2500 {
		subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{
			IP: fmt.Sprintf("10.1.%d.%d", i/250, i%250), TargetRef: &corev1.ObjectReference{UID: types.UID(fmt.Sprintf("3f1d0f5e-8b0e-4b7c-9a55-%012d", i))},
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		Repack([]corev1.EndpointSubset{subset})
	}
}
