// Package cni is howdah's CNI plugin: one address a pod from the node's pod CIDR, a routed veth pair, no bridge.
//
// containerd executes the howdah binary under the plugin's name (howdah, and loopback) with CNI_COMMAND set; main
// hands over to Main then. The package holds no state but the ledger file, so an agent's restart means nothing to it.
package cni

import (
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"
)

// Requested says whether this process was started as a CNI plugin: getenv is os.Getenv.
func Requested(getenv func(string) string) bool { return getenv("CNI_COMMAND") != "" }

// Main runs the plugin as the CNI specification (0.4.0 to 1.1.0) has it: request in environment and standard input,
// result or error as JSON on standard output. It exits the process with status 1 after an error. program is
// os.Args[0]: under the name loopback it only brings up the loopback interface.
func Main(program string) {
	versions := version.PluginSupports("0.4.0", "1.0.0", "1.1.0")
	if filepath.Base(program) == "loopback" {
		// containerd 1 and 2 call it with a configuration of their own, of version 0.3.1.
		versions := version.PluginSupports("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
		skel.PluginMainFuncs(skel.CNIFuncs{Add: addLoopback, Del: ignore, Check: checkLoopback, GC: ignore, Status: ignore}, versions, "howdah loopback CNI plugin")
		return
	}
	p := plugin{now: time.Now}
	skel.PluginMainFuncs(skel.CNIFuncs{Add: p.add, Del: p.del, Check: p.check, GC: p.gc, Status: p.status}, versions, "howdah CNI plugin")
}

func ignore(*skel.CmdArgs) error { return nil }
