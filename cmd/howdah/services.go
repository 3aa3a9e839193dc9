package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/cmd/howdah/internal/daemon"
	"howdah.dev/cmd/howdah/internal/initialize"
)

// controlFolder is where a control plane keeps what it is, unless it is told another place.
const controlFolder = "/etc/howdah"

func folderFlag(f *pflag.FlagSet, dir *string) {
	f.StringVar(dir, "dir", controlFolder, "folder of this machine's control plane: certificates and keys, kubeconfig, settings")
}

// servicesOf is what runs services on this machine: systemd where it runs and nothing else is said. It returns which of them that is.
func servicesOf(manager, dir string) (initialize.Services, string) {
	if manager == clusterfile.Systemd || manager == clusterfile.AutoServices && daemon.Booted() {
		return daemon.NewSystemd(), clusterfile.Systemd
	}
	return daemon.Process{Folder: initialize.Folder(dir).Processes()}, clusterfile.Process
}

// thisHost is what the machine knows of itself.
func thisHost() clusterfile.Host {
	name, _ := os.Hostname()
	host := clusterfile.Host{Name: strings.ToLower(name)}
	if at := advertised("0.0.0.0:0"); len(at) > 0 {
		host.Address = at[0].Addr().String()
	}
	return host
}

// absolute is a folder as the service has to be told of it.
func absolute(dir string) (string, error) { return filepath.Abs(dir) }

// standaloneFlags checks settings of a control plane.
type standaloneFlags struct{}

func (standaloneFlags) CheckSetting(flag, value string) error {
	return standaloneCommand().Flags().Set(flag, value)
}
