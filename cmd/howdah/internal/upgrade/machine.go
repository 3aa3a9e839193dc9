package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"

	"howdah.dev/cmd/howdah/internal/binary"
	"howdah.dev/cmd/howdah/internal/daemon"
	"howdah.dev/cmd/howdah/internal/initialize"
)

// Machine is one of which howdah upgrade node is run, after Apply was on another.
type Machine struct {
	Env *initialize.Env // of its control plane; nil where it has none
	// Agent of its node; nil where it is none.
	Agent *Agent

	Release string
	DryRun  bool
	Out     io.Writer
}

// Agent is a machine's node agent.
type Agent struct {
	Services   initialize.Services
	Executable string
	Binary     string
	Reading    Reading // by the node's own client
}

// Run upgrades the machine: its control plane first, then its node agent, which touches no container.
func (m Machine) Run(ctx context.Context) error {
	if m.Env == nil && m.Agent == nil {
		return errors.New("this machine is neither a control plane of howdah init or howdah join, nor a node of howdah join")
	}
	if m.Env != nil {
		if err := m.controlPlane(ctx); err != nil {
			return err
		}
	}
	if m.Agent != nil {
		return m.agent(ctx)
	}
	return nil
}

func (m Machine) controlPlane(ctx context.Context) error {
	defer m.Env.Close()
	s, err := readHere(ctx, m.Env)
	if err != nil {
		return err
	}
	if err := NodeAllowed(s, false); err != nil {
		return err
	}
	if err := Make(s).Err(); err != nil {
		return fmt.Errorf("the upgrade is refused: %w", err)
	}
	if m.DryRun {
		fmt.Fprintf(m.Out, "[upgrade] would start the control plane %s anew, of %s\n", m.Env.Init.Machine.Name, m.Release)
		return nil
	}
	if err := Restart(ctx, m.Env); err != nil {
		return err
	}
	fmt.Fprintf(m.Out, "[upgrade] the control plane %s is of %s\n", m.Env.Init.Machine.Name, m.Release)
	return nil
}

func (m Machine) agent(ctx context.Context) error {
	s, err := Read(ctx, m.Agent.Reading)
	if err != nil {
		return err
	}
	if m.DryRun && m.Env != nil {
		s.Here = m.Env.Init.Machine.Name // it would have gone before
	}
	if err := NodeAllowed(s, true); err != nil {
		return err
	}
	if m.DryRun {
		fmt.Fprintf(m.Out, "[upgrade] would start the node agent anew, of %s\n", m.Release)
		return nil
	}
	a := m.Agent
	if _, err := binary.Install(a.Executable, a.Binary); err != nil {
		return fmt.Errorf("install %s: %w", a.Binary, err)
	}
	status, err := a.Services.Status(ctx, daemon.NodeAgent)
	if err != nil {
		return err
	}
	if !status.Installed {
		fmt.Fprintf(m.Out, "[upgrade] %s is of %s. No service %s is on this machine: start the node agent anew by what runs it\n", a.Binary, m.Release, daemon.NodeAgent)
		return nil
	}
	if err := a.Services.Restart(ctx, daemon.NodeAgent); err != nil {
		return fmt.Errorf("start the node agent anew: %w", err)
	}
	fmt.Fprintf(m.Out, "[upgrade] the node agent is started anew, of %s; containers run on\n", m.Release)
	return nil
}
