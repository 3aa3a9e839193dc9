package cpu

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/cri"
)

// callTimeout bounds a call of the runtime.
const callTimeout = 10 * time.Second

// KeeperConfig is that of a Keeper.
type KeeperConfig struct {
	Runtime runtimeapi.RuntimeServiceClient
	CPUs    *Manager
	// Every is how often containers are looked at though nothing has changed.
	Every time.Duration
	Clock clock.WithTicker
}

// Keeper moves running containers when the shared CPUs become others.
type Keeper struct {
	cfg  KeeperConfig
	poke chan struct{}
	last map[string]string // what was set, by the run's ID
}

// NewKeeper returns a Keeper.
func NewKeeper(cfg KeeperConfig) *Keeper {
	return &Keeper{cfg: cfg, poke: make(chan struct{}, 1), last: map[string]string{}}
}

// Poke makes it look at once.
func (k *Keeper) Poke() {
	select {
	case k.poke <- struct{}{}:
	default:
	}
}

// Run looks until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	ticker := k.cfg.Clock.NewTicker(k.cfg.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		case <-k.poke:
		}
		k.look(ctx)
	}
}

// look sets the CPUs of each run that has others than it should.
func (k *Keeper) look(ctx context.Context) {
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := k.cfg.Runtime.ListContainers(callCtx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		if ctx.Err() == nil {
			slog.Warn("look at the CPUs of containers", "err", err)
		}
		return
	}
	now := map[string]string{}
	for _, c := range list.GetContainers() {
		uid, name := c.GetLabels()[cri.LabelPodUID], c.GetLabels()[cri.LabelContainer]
		if uid == "" || name == "" {
			continue // not one of ours
		}
		want := k.cfg.CPUs.Of(types.UID(uid), name).String()
		if was, known := k.last[c.GetId()]; known && was == want {
			now[c.GetId()] = want
			continue
		}
		if err := k.set(ctx, c.GetId(), want); err != nil {
			if ctx.Err() == nil {
				slog.Warn("set the CPUs of a container", "uid", uid, "container", name, "cpus", want, "err", err)
			}
			continue // with the next look
		}
		now[c.GetId()] = want
	}
	k.last = now
}

func (k *Keeper) set(ctx context.Context, id, cpus string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := k.cfg.Runtime.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{
		ContainerId: id, Linux: &runtimeapi.LinuxContainerResources{CpusetCpus: cpus},
	})
	return err
}
