package dra

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// CDI returns the names of a container's devices, sorted, each once.
func (m *Manager) CDI(p *corev1.Pod, c *corev1.Container) ([]string, error) {
	list, err := uses(p, c)
	if err != nil {
		return nil, err
	}
	var out []string
	now := m.now()
	for _, u := range list {
		claim := now[key{p.Namespace, u.claim}]
		if claim == nil || !slices.Contains(claim.Pods, p.UID) {
			return nil, fmt.Errorf("unable to get information for ResourceClaim %s", u.claim)
		}
		for _, devices := range claim.Drivers {
			for i := range devices {
				if devices[i].serves(u.request) {
					out = append(out, devices[i].CDI...)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Of tells of the claims that a container uses, whichever of their requests.
func (m *Manager) Of(p *corev1.Pod, c *corev1.Container) []*podresourcesapi.DynamicResource {
	list, err := uses(p, c)
	if err != nil {
		return nil
	}
	var out []*podresourcesapi.DynamicResource
	now, told := m.now(), map[string]bool{}
	for _, u := range list {
		claim := now[key{p.Namespace, u.claim}]
		if claim == nil || told[u.claim] {
			continue
		}
		told[u.claim] = true
		row := &podresourcesapi.DynamicResource{ClaimName: claim.Name, ClaimNamespace: claim.Namespace}
		for _, driver := range slices.Sorted(maps.Keys(claim.Drivers)) {
			for _, device := range claim.Drivers[driver] {
				one := &podresourcesapi.ClaimResource{DriverName: driver, PoolName: device.Pool, DeviceName: device.Name, ShareId: device.ShareID}
				for _, name := range device.CDI {
					one.CdiDevices = append(one.CdiDevices, &podresourcesapi.CDIDevice{Name: name})
				}
				row.ClaimResources = append(row.ClaimResources, one)
			}
		}
		out = append(out, row)
	}
	return out
}
