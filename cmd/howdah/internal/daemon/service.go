// Package daemon runs howdah's roles on a machine: by systemd where it runs, else as plain processes.
package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Names of howdah's services.
const (
	ControlPlane = "howdah-control-plane"
	NodeAgent    = "howdah-nodeagent"
)

// stopFor is how long a service may take to end before it is killed.
const stopFor = 30 * time.Second

// Unit describes a service.
type Unit struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Command     []string `json:"command"`     // its first word is an absolute path; none has spaces or quotes
	Environment string   `json:"environment"` // file of settings, as kit/config formats them; empty: none
	After       []string `json:"after,omitempty"`
	// KeepChildren leaves what the service has started, as containers' shims, when it ends.
	KeepChildren bool `json:"keepChildren,omitempty"`
}

// Status is what is known of a service.
type Status struct {
	Installed, Running bool
	Detail             string // for people: why it does not run, and where it says more
}

// Control is the control plane of a machine whose folder is dir.
func Control(binary, dir string) Unit {
	return Unit{
		Name: ControlPlane, Description: "howdah's control plane", Command: []string{binary, "standalone"}, Environment: filepath.Join(dir, "control-plane.env"),
		After: []string{"network-online.target", "postgresql.service"},
	}
}

// Agent is the node agent of a machine whose node's folder is dir.
func Agent(binary, dir string) Unit {
	return Unit{
		Name: NodeAgent, Description: "howdah's node agent", Command: []string{binary, "nodeagent", "--tls-dir=" + dir},
		After: []string{"network-online.target", "containerd.service"}, KeepChildren: true,
	}
}

// Booted says whether systemd is what runs this machine.
func Booted() bool {
	info, err := os.Lstat("/run/systemd/system")
	return err == nil && info.IsDir()
}

func notInstalled(name string) error {
	return fmt.Errorf("there is no service %s on this machine", name)
}
