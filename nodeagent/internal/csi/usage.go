package csi

import (
	"context"
	"errors"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
)

// Usage asks a driver what a pod's volume takes up. It returns nothing where the driver does not tell, or the pod has not got the volume.
func (v *Volumes) Usage(ctx context.Context, w *Want) ([]*csipb.VolumeUsage, error) {
	at := v.paths.published(w)
	if there, err := v.there(at); err != nil || !there {
		return nil, err
	}
	driver, err := v.cfg.Drivers.Get(w.Driver())
	if err != nil {
		return nil, err
	}
	if tells, err := driver.capable(ctx, csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS); err != nil || !tells {
		return nil, err
	}
	answer, err := driver.node.NodeGetVolumeStats(ctx, &csipb.NodeGetVolumeStatsRequest{VolumeId: w.handle(), VolumePath: at.target})
	if err != nil {
		return nil, err
	}
	if len(answer.GetUsage()) == 0 {
		return nil, errors.New("the driver answers without a usage")
	}
	return answer.GetUsage(), nil
}
