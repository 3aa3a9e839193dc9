package device

import (
	"context"
	"fmt"
	"slices"

	sockets "howdah.dev/nodeagent/internal/plugin"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Watched takes device plugins that do not register themselves: they are found by their sockets.
type Watched struct{ Manager *Manager }

// Register implements sockets.Handler.
func (w Watched) Register(ctx context.Context, p sockets.Plugin) error {
	if !slices.Contains(p.Versions, pluginapi.Version) {
		return fmt.Errorf("device plugin of %s: its versions %v are not supported, which are %v", p.Name, p.Versions, pluginapi.SupportedVersions)
	}
	return w.Manager.Connect(ctx, p.Name, p.Endpoint)
}

// Deregister implements sockets.Handler.
func (w Watched) Deregister(_ context.Context, p sockets.Plugin) {
	w.Manager.Disconnect(p.Name, p.Endpoint)
}
