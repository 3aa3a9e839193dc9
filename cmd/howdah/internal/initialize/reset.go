package initialize

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"howdah.dev/cmd/howdah/internal/daemon"
	"howdah.dev/cmd/howdah/internal/peers"
	"howdah.dev/kit/object"
	"howdah.dev/kit/rpc"
)

// files are what a control plane has in its folder; the marker comes first, so that one that is half taken away is none.
func (f Folder) files() []string {
	return []string{f.Marker(), f.Admin(), f.Settings(), f.PKI(), f.Made()}
}

// TellReset says what Reset would take away.
func TellReset(out io.Writer, folder Folder) {
	fmt.Fprintf(out, "would end and remove the service %s\n", daemon.ControlPlane)
	for _, path := range folder.files() {
		if _, err := os.Lstat(path); err == nil {
			fmt.Fprintln(out, "would remove", path)
		}
	}
}

// Reset takes this machine's control plane away. Others, if there are any, are told.
func Reset(ctx context.Context, e *Env) error {
	defer e.Close()
	if err := e.Services.Remove(ctx, daemon.ControlPlane); err != nil {
		return fmt.Errorf("end the service %s: %w", daemon.ControlPlane, err)
	}
	e.say("removed the service %s", daemon.ControlPlane)
	if e.Cluster.ControlPlaneEndpoint != "" {
		if err := e.leave(ctx); err != nil {
			e.say("warning: no other control plane could be told, so they remember this one for an hour: %v", err)
		}
	}
	for _, path := range e.Folder.files() {
		if _, err := os.Lstat(path); err != nil {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		e.say("removed %s", path)
	}
	_ = os.Remove(string(e.Folder)) // where nothing else is in it
	e.say("\nLeft as they are: the database, %s, and copies of the kubeconfig. Certificates are not revoked.", e.Init.Machine.Binary)
	return nil
}

// leave removes this control plane's Lease, by another one.
func (e *Env) leave(ctx context.Context) error {
	const leaveFor = 15 * time.Second
	ctx, cancel := context.WithTimeout(ctx, leaveFor)
	defer cancel()
	identity, err := rpc.LoadIdentity(filepath.Join(e.Folder.PKI(), "admin"))
	if err != nil {
		return err
	}
	conn, err := rpc.Dial("dns:///"+e.Cluster.NodesEndpoint(e.Init.LocalEndpoint), identity.Client("apiserver"))
	if err != nil {
		return err
	}
	defer conn.Close()
	return peers.Forget(ctx, object.NewClient(conn, "howdah-reset"), e.Init.Machine.Name)
}
