package container

import (
	"maps"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Own is what a container has of the node for itself.
type Own struct {
	// Envs, Mounts, Devices, Annotations and CDI are what its devices need. What the pod says of the same counts.
	Envs        []*runtimeapi.KeyValue
	Mounts      []*runtimeapi.Mount
	Devices     []*runtimeapi.Device
	Annotations map[string]string
	CDI         []*runtimeapi.CDIDevice
	// CPUs and Memory are the sets of CPUs and of NUMA nodes that it runs on; empty is all.
	CPUs, Memory string
	// Unthrottled says that nobody else runs on its CPUs, so that its limit is theirs.
	Unthrottled bool
}

// AddCDI adds devices by their names of CDI, in order, but those that the container has already.
func (o *Own) AddCDI(names []string) {
	for _, name := range names {
		if !slices.ContainsFunc(o.CDI, func(d *runtimeapi.CDIDevice) bool { return d.GetName() == name }) {
			o.CDI = append(o.CDI, &runtimeapi.CDIDevice{Name: name})
		}
	}
}

// add lets the configuration have what the container has for itself.
func (o Own) add(config *runtimeapi.ContainerConfig) {
	said := map[string]bool{}
	for _, e := range config.Envs {
		said[e.GetKey()] = true
	}
	var envs []*runtimeapi.KeyValue
	for _, e := range o.Envs {
		if !said[e.GetKey()] {
			envs = append(envs, e)
		}
	}
	config.Envs = append(envs, config.Envs...)
	config.Mounts = append(config.Mounts, o.Mounts...)
	config.Devices, config.CDIDevices = append(config.Devices, o.Devices...), append(config.CDIDevices, o.CDI...)
	if len(o.Annotations) > 0 {
		all := maps.Clone(o.Annotations)
		maps.Copy(all, config.Annotations)
		config.Annotations = all
	}
	o.Limit(config.Linux.Resources)
}

// Limit lets resources be those of the CPUs and the memory that the container has for itself.
func (o Own) Limit(r *runtimeapi.LinuxContainerResources) {
	r.CpusetCpus, r.CpusetMems = o.CPUs, o.Memory
	if o.Unthrottled {
		r.CpuQuota, r.CpuPeriod = 0, 0
	}
}
