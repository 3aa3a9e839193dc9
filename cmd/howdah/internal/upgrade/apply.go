package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"

	"howdah.dev/cmd/howdah/internal/binary"
	"howdah.dev/cmd/howdah/internal/daemon"
	"howdah.dev/cmd/howdah/internal/initialize"
	"howdah.dev/kit/object"
)

// Applying is what Apply works with.
type Applying struct {
	Env      *initialize.Env
	DryRun   bool
	Database func(ctx context.Context) error // a backup of it; nil makes none
	Confirm  func() error
	Migrate  func(ctx context.Context) error
	Out      io.Writer
}

// Apply upgrades the first machine:
//
//  1. The plan is made, and told. It may be refused.
//  2. The database is backed up, where that is wanted, and its schema brought up to date: the control planes of the old release work on beside it.
//  3. This machine's control plane is started anew with this program, and awaited. If it does not come, the old one is put back.
//  4. The cluster notes the release, by which further machines are let go on (howdah upgrade node).
func Apply(ctx context.Context, a Applying) error {
	e := a.Env
	defer e.Close()
	s, err := readHere(ctx, e)
	if err != nil {
		return err
	}
	p := Make(s)
	if err := Print(a.Out, s, p); err != nil {
		return err
	}
	if err := p.Err(); err != nil {
		return errors.New("the upgrade is refused")
	}
	if a.DryRun {
		fmt.Fprintln(a.Out, "\nNothing is changed (--dry-run).")
		return nil
	}
	if err := a.Confirm(); err != nil {
		return err
	}
	if a.Database != nil {
		if err := a.Database(ctx); err != nil {
			return fmt.Errorf("back the database up (nothing is changed): %w", err)
		}
	}
	if err := a.Migrate(ctx); err != nil {
		return fmt.Errorf("bring the schema up to date (no binary is changed): %w", err)
	}
	if err := Restart(ctx, e); err != nil {
		return err
	}
	return note(ctx, e, a.Out)
}

// readHere reads the state by this machine's control plane.
func readHere(ctx context.Context, e *initialize.Env) (State, error) {
	client, err := e.API()
	if err != nil {
		return State{}, err
	}
	s, err := Read(ctx, Reading{Client: client, Release: e.Release, Here: e.Init.Machine.Name, Database: e.Cluster.Database.URL, Nodes: true, Now: e.Clock.Now()})
	if err != nil {
		return State{}, fmt.Errorf("this machine's control plane has to answer before it is upgraded: %w", err)
	}
	return s, nil
}

// Here plans an upgrade by this machine's control plane.
func Here(ctx context.Context, e *initialize.Env) (State, Plan, error) {
	defer e.Close()
	s, err := readHere(ctx, e)
	return s, Make(s), err
}

// Restart starts this machine's control plane anew with this program. If it does not come, the one that was there is put back.
func Restart(ctx context.Context, e *initialize.Env) error {
	e.Close() // what is asked next is asked of the new one
	to := e.Init.Machine.Binary
	replaced, err := binary.Install(e.Executable, to)
	if err != nil {
		return fmt.Errorf("install %s: %w", to, err)
	}
	if err := e.Services.Install(ctx, daemon.Control(to, string(e.Folder))); err != nil {
		return err
	}
	fmt.Fprintf(e.Out, "[upgrade] starting the service %s anew, of %s\n", daemon.ControlPlane, e.Release)
	err = e.Services.Restart(ctx, daemon.ControlPlane)
	if err == nil {
		err = e.AwaitReady(ctx)
	}
	if err == nil || !replaced {
		return err
	}
	fmt.Fprintf(e.Out, "[upgrade] it does not come: %v\n[upgrade] putting the binary back that was there\n", err)
	ctx = context.WithoutCancel(ctx)
	if back := errors.Join(binary.Restore(to), e.Services.Restart(ctx, daemon.ControlPlane)); back != nil {
		return errors.Join(err, fmt.Errorf("put the binary back: %w", back))
	}
	if back := e.AwaitReady(ctx); back != nil {
		return errors.Join(err, fmt.Errorf("the old release does not come either: %w", back))
	}
	return fmt.Errorf("the control plane is of the release before, and ready; the new one did not come: %w", err)
}

// note has the cluster know of its release, and tells what is left.
func note(ctx context.Context, e *initialize.Env, out io.Writer) error {
	client, err := e.API()
	if err != nil {
		return err
	}
	if err := upload(ctx, e, client); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n[upgrade] SUCCESS! This machine's control plane is of %s.\n", e.Release)
	s, err := readHere(ctx, e)
	if err != nil {
		return err
	}
	left := 0
	for _, c := range Sorted(s.Components) {
		if c.Version != e.Release && c.Name != s.Here && (c.Alive || c.Kind == Node) {
			if left++; left == 1 {
				fmt.Fprintln(out, "\nNow, with the new binary, one after the other, run \"howdah upgrade node\" on:")
			}
			fmt.Fprintf(out, "  %s %s (%s)\n", c.Kind, c.Name, or(c.Version, "?"))
		}
	}
	return nil
}

func upload(ctx context.Context, e *initialize.Env, client *object.Client) error {
	c := e.Cluster
	c.Version = e.Release
	return initialize.UploadConfig(ctx, client, c)
}
