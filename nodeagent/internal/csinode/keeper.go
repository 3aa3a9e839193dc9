package csinode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
	"howdah.dev/nodeagent/internal/csi"
	"howdah.dev/nodeagent/internal/plugin"
)

const (
	// lookEvery is how often what the API says is compared with what is registered.
	lookEvery = time.Minute
	// writeTimeout bounds all tries to tell the API of one change.
	writeTimeout = 30 * time.Second
	retryBase    = 20 * time.Millisecond
	retryMax     = 2 * time.Second
)

// Config of a Keeper.
type Config struct {
	NodeName string
	Client   *object.Client
	Drivers  *csi.Drivers
	// About returns what the API says of a driver, nil where nothing is.
	About func(ctx context.Context, driver string) (*storagev1.CSIDriver, error)
	Clock clock.Clock
}

// Keeper keeps the node's CSINode true.
type Keeper struct {
	cfg Config

	mu      sync.Mutex
	drivers map[string]Driver // that are registered
	gone    map[string]bool   // that were, in this life of the agent
	asked   map[string]time.Time
	due     map[string]bool // are to be asked at once
	writing sync.Mutex      // one write after the other

	wake chan struct{}
}

// New returns a Keeper.
func New(cfg Config) *Keeper {
	return &Keeper{
		cfg: cfg, drivers: map[string]Driver{}, gone: map[string]bool{}, asked: map[string]time.Time{}, due: map[string]bool{}, wake: make(chan struct{}, 1),
	}
}

// Register implements plugin.Handler: the driver is asked for the node's name, and can be used from then on; the API hears of it.
func (k *Keeper) Register(ctx context.Context, p plugin.Plugin) error {
	if err := supported(p.Versions); err != nil {
		return err
	}
	driver, err := k.cfg.Drivers.Dial(p.Name, p.Endpoint)
	if err != nil {
		return err
	}
	info, err := driver.Info(ctx)
	if err == nil && info.GetNodeId() == "" {
		err = errors.New("it returned an empty node ID")
	}
	if err != nil {
		_ = driver.Close()
		return fmt.Errorf("NodeGetInfo of CSI driver %s: %w", p.Name, err)
	}
	k.cfg.Drivers.Put(driver)
	k.mu.Lock()
	k.drivers[p.Name] = Driver{NodeID: info.GetNodeId(), MaxVolumes: info.GetMaxVolumesPerNode(), Topology: info.GetAccessibleTopology().GetSegments()}
	k.asked[p.Name] = k.cfg.Clock.Now()
	delete(k.gone, p.Name)
	k.mu.Unlock()
	if err = k.tell(ctx); err != nil && !again(err) { // what it says cannot be true, and would keep others from being told
		k.mu.Lock()
		delete(k.drivers, p.Name)
		k.mu.Unlock()
		k.cfg.Drivers.Remove(p.Name, p.Endpoint)
	}
	return err
}

// Deregister implements plugin.Handler.
func (k *Keeper) Deregister(ctx context.Context, p plugin.Plugin) {
	if !k.cfg.Drivers.Remove(p.Name, p.Endpoint) { // another one has its name by now
		return
	}
	k.mu.Lock()
	delete(k.drivers, p.Name)
	k.gone[p.Name] = true
	k.mu.Unlock()
	if err := k.tell(ctx); err != nil { // Run tries again
		slog.Warn("tell that a CSI driver is gone", "driver", p.Name, "err", err)
	}
}

// Run sees to it that the node has its CSINode, and that it stays true whoever writes to it and whatever drivers come to say, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	var look time.Time
	var periods map[string]time.Duration
	for {
		if now := k.cfg.Clock.Now(); !now.Before(look) {
			look = now.Add(lookEvery)
			if err := k.tell(ctx); err != nil && ctx.Err() == nil {
				slog.Warn("write the CSINode", "node", k.cfg.NodeName, "err", err)
			}
			periods = k.periods(ctx)
		}
		next := k.count(ctx, periods)
		if next.IsZero() || look.Before(next) {
			next = look
		}
		timer := k.cfg.Clock.NewTimer(next.Sub(k.cfg.Clock.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-k.wake:
			timer.Stop()
		case <-timer.C():
		}
	}
}

// tell writes what differs, and tries again where somebody else wrote or the API is away.
func (k *Keeper) tell(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(obs.Untraced(ctx), writeTimeout)
	defer cancel()
	k.writing.Lock()
	defer k.writing.Unlock()
	for pause := retryBase; ; pause = min(2*pause, retryMax) {
		err := k.write(ctx)
		if err == nil || !again(err) {
			return err
		}
		timer := k.cfg.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C():
		}
	}
}

// again reports whether the same may go well a moment later: not where what is written is wrong.
func again(err error) bool {
	_, answered := errors.AsType[*apierrors.StatusError](err)
	return answered && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err)
}

// write compares and writes once.
func (k *Keeper) write(ctx context.Context) error {
	k.mu.Lock()
	drivers, gone := maps.Clone(k.drivers), maps.Clone(k.gone)
	k.mu.Unlock()
	node, err := object.For(k.cfg.Client, object.Node).Get(ctx, "", k.cfg.NodeName)
	if err != nil {
		return err
	}
	labelled, err := label(node, drivers, gone)
	if err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(node, labelled) {
		if _, err := object.For(k.cfg.Client, object.Node).Update(ctx, labelled); err != nil {
			return err
		}
	}
	return k.writeCSINode(ctx, node, drivers, gone)
}

func (k *Keeper) writeCSINode(ctx context.Context, node *corev1.Node, drivers map[string]Driver, gone map[string]bool) error {
	nodes := object.For(k.cfg.Client, object.CSINode)
	there, err := nodes.Get(ctx, "", k.cfg.NodeName)
	switch {
	case apierrors.IsNotFound(err):
		_, err = nodes.Create(ctx, describe(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
			Name:            k.cfg.NodeName,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		}}, drivers, gone))
		return err
	case err != nil:
		return err
	}
	wanted := describe(there, drivers, gone)
	if equality.Semantic.DeepEqual(there, wanted) {
		return nil
	}
	// What a driver calls the node does not change in place, so an entry that says otherwise goes first.
	if moved := movedDrivers(there, drivers); len(moved) > 0 {
		if there, err = nodes.Update(ctx, describe(there, nil, moved)); err != nil {
			return err
		}
		wanted = describe(there, drivers, gone)
	}
	_, err = nodes.Update(ctx, wanted)
	return err
}

// movedDrivers are those that call the node something else than before, or place it elsewhere.
func movedDrivers(node *storagev1.CSINode, drivers map[string]Driver) map[string]bool {
	moved := map[string]bool{}
	now := describe(&storagev1.CSINode{}, drivers, nil)
	for _, old := range node.Spec.Drivers {
		for _, d := range now.Spec.Drivers {
			if d.Name == old.Name && (d.NodeID != old.NodeID || !equality.Semantic.DeepEqual(d.TopologyKeys, old.TopologyKeys)) {
				moved[d.Name] = true
			}
		}
	}
	return moved
}
