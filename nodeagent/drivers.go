package nodeagent

import (
	"context"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/attach"
	"howdah.dev/nodeagent/internal/csi"
	"howdah.dev/nodeagent/internal/csinode"
	"howdah.dev/nodeagent/internal/device"
	"howdah.dev/nodeagent/internal/lookup"
	"howdah.dev/nodeagent/internal/plugin"
	"howdah.dev/nodeagent/internal/volume"
)

// drivers are the parts that have to do with CSI drivers, and the watcher of all plugins.
type drivers struct {
	watcher *plugin.Watcher
	keeper  *csinode.Keeper
	volumes *csi.Volumes
	waiter  *attach.Waiter // for attachments
}

// newDrivers makes them. A further type of plugin is a row of the watcher's handlers.
func (a *Agent) newDrivers(objects *lookup.Objects, tell events) *drivers {
	cfg, d := a.cfg, &drivers{}
	registered := csi.NewDrivers(cfg.Registerer)
	d.keeper = csinode.New(csinode.Config{NodeName: cfg.NodeName, Client: cfg.Objects, Drivers: registered, About: objects.CSIDriver, Clock: cfg.Clock})
	d.watcher = plugin.New(plugin.Config{
		Dir: filepath.Join(cfg.KubeletDir, "plugins_registry"), Clock: cfg.Clock, Registerer: cfg.Registerer,
		Handlers: map[string]plugin.Handler{"CSIPlugin": d.keeper, "DevicePlugin": device.Watched{Manager: a.resources.devices}, "DRAPlugin": a.resources.claims.Drivers},
	})
	reported := func() []corev1.UniqueVolumeName {
		if node := a.reporter.Node(); node != nil {
			return node.Status.VolumesInUse
		}
		return nil
	}
	changed := func() { a.reporter.Poke() }
	d.waiter = attach.New(attach.Config{NodeName: cfg.NodeName, Nodes: objects, Reported: reported, Changed: changed, Clock: cfg.Clock})
	d.volumes = csi.New(csi.Config{
		Dir: cfg.KubeletDir, NodeName: cfg.NodeName, Drivers: registered, Objects: objects, Mounts: volume.Kernel{}.Below, Device: csi.Device, Clock: cfg.Clock,
		Token: func(ctx context.Context, pod *corev1.Pod, audience string, seconds int64) (string, time.Time, error) {
			return a.volumes.Token(ctx, pod, audience, seconds)
		},
		Waiter: d.waiter, Exhausted: d.keeper.Ask,
		Event:      func(pod *corev1.Pod, kind, reason, message string) { tell.Event(pod, "", kind, reason, message) },
		ClaimGrown: tell.claimGrown,
		Operated: func(driver, operation string, took time.Duration, err error) {
			a.volumes.Operated(volume.CSIPlugin(driver), operation, took, err)
		},
	})
	return d
}
