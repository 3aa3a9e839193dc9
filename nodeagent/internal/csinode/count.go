package csinode

import (
	"context"
	"log/slog"
	"time"

	"howdah.dev/kit/obs"
)

// askTimeout is how long one driver may keep the others waiting that are to be asked.
const askTimeout = 30 * time.Second

// Ask has a driver asked at once how many volumes the node can have: somebody has found that it can have no more.
func (k *Keeper) Ask(driver string) {
	k.mu.Lock()
	k.due[driver] = true
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// dueDrivers are those that are to be asked now, and when the next one is; zero where none ever is.
func dueDrivers(asked map[string]time.Time, periods map[string]time.Duration, now time.Time) (due []string, next time.Time) {
	for name, period := range periods {
		last, ok := asked[name]
		if period <= 0 || !ok {
			continue
		}
		at := last.Add(period)
		if !at.After(now) {
			due = append(due, name)
			at = now.Add(period)
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return due, next
}

// periods are how often each of the drivers that are here is to be asked; those that are not, are not in it.
func (k *Keeper) periods(ctx context.Context) map[string]time.Duration {
	k.mu.Lock()
	var names []string
	for name := range k.drivers {
		names = append(names, name)
	}
	k.mu.Unlock()
	out := map[string]time.Duration{}
	for _, name := range names {
		about, err := k.cfg.About(obs.Untraced(ctx), name)
		if err != nil {
			if ctx.Err() == nil {
				slog.Warn("look at the CSIDriver", "driver", name, "err", err)
			}
			continue
		}
		if about != nil && about.Spec.NodeAllocatableUpdatePeriodSeconds != nil {
			out[name] = time.Duration(*about.Spec.NodeAllocatableUpdatePeriodSeconds) * time.Second
		}
	}
	return out
}

// count asks the drivers that are due how many volumes the node can have, and tells the API where that has changed. It returns when the next is due.
func (k *Keeper) count(ctx context.Context, periods map[string]time.Duration) time.Time {
	now := k.cfg.Clock.Now()
	k.mu.Lock()
	due, next := dueDrivers(k.asked, periods, now)
	for name := range k.due {
		due = append(due, name)
	}
	clear(k.due)
	k.mu.Unlock()
	changed := false
	for _, name := range due {
		changed = k.ask(ctx, name) || changed
	}
	if !changed {
		return next
	}
	if err := k.tell(ctx); err != nil && ctx.Err() == nil { // Run compares again
		slog.Warn("tell how many volumes the node can have", "node", k.cfg.NodeName, "err", err)
	}
	return next
}

// ask asks one driver, and reports whether it says something else than before. What it calls the node does not change while it is registered.
func (k *Keeper) ask(ctx context.Context, name string) bool {
	driver, err := k.cfg.Drivers.Get(name)
	if err != nil {
		return false // it is gone
	}
	k.mu.Lock()
	k.asked[name] = k.cfg.Clock.Now()
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(obs.Untraced(ctx), askTimeout)
	defer cancel()
	info, err := driver.Info(ctx)
	if err != nil {
		slog.Warn("ask a CSI driver how many volumes the node can have", "driver", name, "err", err)
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	d, here := k.drivers[name]
	if !here || d.NodeID != info.GetNodeId() || d.MaxVolumes == info.GetMaxVolumesPerNode() {
		return false
	}
	d.MaxVolumes = info.GetMaxVolumesPerNode()
	k.drivers[name] = d
	return true
}
