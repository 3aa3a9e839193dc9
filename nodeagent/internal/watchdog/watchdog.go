// Package watchdog tells systemd that the agent has begun, and goes on telling that it is alive where the unit asks for it (WatchdogSec=): an agent
// that hangs is ended and started anew, as one that crashes is.
package watchdog

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"k8s.io/utils/clock"
)

// least is the shortest time that may be asked for: half of it has to be enough for a look.
const least = time.Second

// Manager is the service manager.
type Manager interface {
	// Within is how long it waits for a sign of life; 0 where it does not.
	Within() (time.Duration, error)
	// Notify sends a message; sent is false where nobody wants one.
	Notify(state string) (sent bool, err error)
}

// Systemd is the manager of the machine.
type Systemd struct{}

// Within implements Manager: it is what the environment says for this process.
func (Systemd) Within() (time.Duration, error) { return daemon.SdWatchdogEnabled(false) }

// Notify implements Manager.
func (Systemd) Notify(state string) (bool, error) { return daemon.SdNotify(false, state) }

// Config of a Keeper.
type Config struct {
	Manager Manager
	// Alive comes back where the agent is alive. While it hangs no sign of life is sent.
	Alive func()
	Clock clock.WithTicker
}

// Keeper sends signs of life.
type Keeper struct {
	cfg    Config
	within time.Duration
}

// New fails where what the unit asks for cannot be.
func New(cfg Config) (*Keeper, error) {
	within, err := cfg.Manager.Within()
	if err != nil {
		return nil, fmt.Errorf("watchdog: %w", err)
	}
	if within != 0 && within <= least {
		return nil, fmt.Errorf("watchdog: a timeout of %v is too short, it has to be more than %v", within, least)
	}
	return &Keeper{cfg, within}, nil
}

// Run tells that the agent has begun, and twice within the time that the manager waits that it is alive, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	k.notify(daemon.SdNotifyReady)
	if k.within == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	slog.Info("systemd waits for signs of life", "within", k.within)
	ticker := k.cfg.Clock.NewTicker(k.within / 2)
	defer ticker.Stop()
	for {
		k.cfg.Alive()
		k.notify(daemon.SdNotifyWatchdog)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
	}
}

func (k *Keeper) notify(state string) {
	if _, err := k.cfg.Manager.Notify(state); err != nil {
		slog.Warn("tell systemd", "state", state, "err", err)
	}
}
