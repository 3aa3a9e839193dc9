package podresources

import (
	"context"

	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	alphaapi "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
)

// alpha answers in the API's first version (podresources/v1alpha1), which kubelets serve beside the other and older exporters ask in. It knows of devices alone.
type alpha struct {
	alphaapi.UnimplementedPodResourcesListerServer
	*Server
}

// List tells of all pods that have not ended.
func (a alpha) List(context.Context, *alphaapi.ListPodResourcesRequest) (*alphaapi.ListPodResourcesResponse, error) {
	a.metrics.asked("list", "v1alpha1")
	out := &alphaapi.ListPodResourcesResponse{}
	for _, p := range a.all() {
		out.PodResources = append(out.PodResources, devicesOf(p))
	}
	return out, nil
}

func devicesOf(p *podresourcesapi.PodResources) *alphaapi.PodResources {
	out := &alphaapi.PodResources{Name: p.GetName(), Namespace: p.GetNamespace()}
	for _, c := range p.GetContainers() {
		row := &alphaapi.ContainerResources{Name: c.GetName()}
		for _, d := range c.GetDevices() {
			row.Devices = append(row.Devices, &alphaapi.ContainerDevices{ResourceName: d.GetResourceName(), DeviceIds: d.GetDeviceIds()})
		}
		out.Containers = append(out.Containers, row)
	}
	return out
}
