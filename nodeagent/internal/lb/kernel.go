package lb

import (
	"howdah.dev/nodeagent/bpf"
	"howdah.dev/nodeagent/internal/pinned"
)

// kernelMaps wraps loaded maps.
func kernelMaps(o *bpf.LBObjects, barrier func() error) Maps {
	return Maps{
		Frontends: pinned.Kernel[bpf.LBFrontendKey, bpf.LBFrontend]{M: o.Frontends},
		Slots:     pinned.Kernel[bpf.LBSlotKey, bpf.LBBackend]{M: o.Slots},
		Members:   pinned.Kernel[bpf.LBMemberKey, uint8]{M: o.Members},
		Sources:   pinned.Kernel[bpf.LBSourceKey, uint8]{M: o.Sources},
		Nodes:     pinned.Kernel[bpf.LBAddress, uint8]{M: o.Nodes},
		Barrier:   barrier,
	}
}
