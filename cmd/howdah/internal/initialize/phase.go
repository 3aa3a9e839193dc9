package initialize

import (
	"context"
	"fmt"
	"slices"
	"time"

	"howdah.dev/kit/wholefile"
)

// Phase is one step of making a control plane.
type Phase struct {
	Name, Short string
	Run         func(ctx context.Context, e *Env) error
	// Tell is what Run would do, for --dry-run; nil where Run changes nothing and is run.
	Tell func(e *Env) string
}

// Phases are those of the first control plane, in their order.
func Phases() []Phase {
	return []Phase{
		preflightPhase(), certsPhase(), schemaPhase(), Kubeconfig(), controlPlanePhase(), waitPhase(), uploadConfigPhase(), uploadCertsPhase(), tokenPhase(),
		addonPhase(), showPhase(),
	}
}

// FurtherPhases are those of a control plane that joins, once it has the keys.
func FurtherPhases() []Phase {
	return []Phase{certsPhase(), Kubeconfig(), controlPlanePhase(), waitPhase(), Kubeconfig()}
}

// Names are those of phases.
func Names(phases []Phase) []string {
	names := make([]string, len(phases))
	for i, p := range phases {
		names[i] = p.Name
	}
	return names
}

// Run runs phases but for those to be skipped. What an earlier try has done is left, so after a failure it may be run again.
func Run(ctx context.Context, e *Env, phases []Phase, skip []string) error {
	defer e.Close()
	for _, p := range phases {
		if slices.Contains(skip, p.Name) {
			e.say("[%s] skipped", p.Name)
			continue
		}
		if err := e.run(ctx, p); err != nil {
			return fmt.Errorf("phase %s: %w", p.Name, err)
		}
	}
	return nil
}

func (e *Env) run(ctx context.Context, p Phase) error {
	if e.DryRun && p.Tell != nil {
		if text := p.Tell(e); text != "" {
			e.say("[%s] would %s", p.Name, text)
		}
		return nil
	}
	return p.Run(ctx, e)
}

// finish notes that the control plane is whole.
func (e *Env) finish() error {
	if e.DryRun {
		return nil
	}
	return wholefile.Write(e.Folder.Marker(), []byte(e.Clock.Now().UTC().Format(time.RFC3339)), 0o644)
}

// First makes this machine the first control plane.
func First(ctx context.Context, e *Env) error {
	phases := Phases()
	last := len(phases) - 1 // it tells that all is done
	if err := Run(ctx, e, phases[:last], e.Init.SkipPhases); err != nil {
		return err
	}
	if err := e.finish(); err != nil {
		return err
	}
	return Run(ctx, e, phases[last:], e.Init.SkipPhases)
}
