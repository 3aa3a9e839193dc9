package container

import (
	"fmt"
	"path/filepath"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// devices are the volumes that a container has as block devices. One that the pod may only read can be opened for that alone.
func (b *Builder) devices(run Run) ([]*runtimeapi.Device, error) {
	var out []*runtimeapi.Device
	for _, d := range run.Container.VolumeDevices {
		if !filepath.IsAbs(d.DevicePath) {
			return nil, fmt.Errorf("error DevicePath `%s` must be an absolute path", d.DevicePath)
		}
		path, there := run.Volumes.Devices[d.Name]
		if !there {
			return nil, fmt.Errorf("cannot find volume %q to pass into container %q", d.Name, run.Container.Name)
		}
		device := &runtimeapi.Device{ContainerPath: d.DevicePath, HostPath: path, Permissions: "mrw"}
		if volumeReadOnly(b.Pod, d.Name) {
			device.Permissions = "r"
		}
		out = append(out, device)
	}
	return out, nil
}
