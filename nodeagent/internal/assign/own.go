package assign

import (
	"maps"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"howdah.dev/nodeagent/internal/container"
)

// ForDevices is what a container needs to use its devices, as their plugins have said. Where two say something of the same name, the first counts.
func ForDevices(answers []*pluginapi.ContainerAllocateResponse) container.Own {
	out := container.Own{Annotations: map[string]string{}}
	envs, devices, mounts, cdi := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	first := func(seen map[string]bool, name string) bool {
		was := seen[name]
		seen[name] = true
		return !was
	}
	for _, a := range answers {
		for _, name := range slices.Sorted(maps.Keys(a.GetEnvs())) {
			if first(envs, name) {
				out.Envs = append(out.Envs, &runtimeapi.KeyValue{Key: name, Value: []byte(a.GetEnvs()[name])})
			}
		}
		for _, d := range a.GetDevices() {
			if first(devices, d.GetContainerPath()) {
				out.Devices = append(out.Devices, &runtimeapi.Device{ContainerPath: d.GetContainerPath(), HostPath: d.GetHostPath(), Permissions: d.GetPermissions()})
			}
		}
		for _, m := range a.GetMounts() {
			if first(mounts, m.GetContainerPath()) {
				out.Mounts = append(out.Mounts, &runtimeapi.Mount{ContainerPath: m.GetContainerPath(), HostPath: m.GetHostPath(), Readonly: m.GetReadOnly()})
			}
		}
		for name, value := range a.GetAnnotations() {
			if _, said := out.Annotations[name]; !said {
				out.Annotations[name] = value
			}
		}
		for _, d := range a.GetCdiDevices() {
			if first(cdi, d.GetName()) {
				out.CDI = append(out.CDI, &runtimeapi.CDIDevice{Name: d.GetName()})
			}
		}
	}
	return out
}
