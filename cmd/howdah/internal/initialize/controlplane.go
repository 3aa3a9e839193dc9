package initialize

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"strconv"
	"strings"

	"howdah.dev/cmd/howdah/internal/binary"
	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/cmd/howdah/internal/daemon"
	"howdah.dev/cmd/howdah/internal/peers"
	"howdah.dev/kit/config"
	"howdah.dev/kit/wholefile"
)

func controlPlanePhase() Phase {
	return Phase{
		Name: "control-plane", Short: "Install the control plane's service and start it",
		Run: runControlPlane,
		Tell: func(e *Env) string {
			return fmt.Sprintf("write %s and %s, install %s where it is not there, and start the service %s", e.Folder.Settings(), e.Folder.Made(), e.Init.Machine.Binary, daemon.ControlPlane)
		},
	}
}

func runControlPlane(ctx context.Context, e *Env) error {
	file, err := settingsFile(e.settings())
	if err != nil {
		return err
	}
	old, _ := os.ReadFile(e.Folder.Settings())
	if err := e.Folder.save(e.Init, e.Cluster); err != nil {
		return err
	}
	if err := wholefile.Write(e.Folder.Settings(), file, 0o600); err != nil {
		return err
	}
	replaced, err := binary.Install(e.Executable, e.Init.Machine.Binary)
	if err != nil {
		return fmt.Errorf("install %s: %w", e.Init.Machine.Binary, err)
	}
	if err := e.Services.Install(ctx, daemon.Control(e.Init.Machine.Binary, string(e.Folder))); err != nil {
		return err
	}
	status, err := e.Services.Status(ctx, daemon.ControlPlane)
	if err != nil {
		return err
	}
	if status.Running && (replaced || !bytes.Equal(old, file)) {
		e.say("[control-plane] starting the service %s anew, with other settings", daemon.ControlPlane)
		return e.Services.Restart(ctx, daemon.ControlPlane)
	}
	e.say("[control-plane] starting the service %s", daemon.ControlPlane)
	return e.Services.Start(ctx, daemon.ControlPlane)
}

// settings are the flags of howdah standalone on this machine.
func (e *Env) settings() map[string]string {
	c, local := e.Cluster, e.Init.LocalEndpoint
	listen := func(port int32) string { return net.JoinHostPort(local.BindAddress, strconv.Itoa(int(port))) }
	out := map[string]string{
		"database-url": c.Database.URL, "dir": e.Folder.PKI(), "listen": listen(c.Ports.API), "node-listen": listen(c.Ports.Nodes),
		"join-server": e.server(), "node-apiserver": "dns:///" + c.NodesEndpoint(local), "gateway-names": strings.Join(e.names(), ","),
		"gateway-endpoints": peers.Address(local.AdvertiseAddress, c.Ports.API), "apiserver-name": e.Init.Machine.Name,
		"cluster-cidr": c.Networking.PodSubnet, "service-cidr": strings.Join(c.Networking.ServiceSubnets, ","), "cluster-domain": c.Networking.DNSDomain,
	}
	maps.Copy(out, c.Settings)
	return out
}

// settingsFile is what the service has in its environment.
func settingsFile(flags map[string]string) ([]byte, error) {
	values := map[string]string{}
	for flag, value := range flags {
		values[config.Variable(flag)] = value
	}
	lines, err := config.FormatFile(values)
	if err != nil {
		return nil, err
	}
	return append([]byte("# The settings of this machine's control plane. Written by howdah init and howdah join: howdah init phase control-plane makes it anew from "+
		clusterfile.ClusterKind+".\n"), lines...), nil
}
