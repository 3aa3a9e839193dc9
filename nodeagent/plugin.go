package nodeagent

import "howdah.dev/nodeagent/internal/cni"

// CNIRequested reports whether this process was started as a CNI plugin;
// getenv is os.Getenv.
func CNIRequested(getenv func(string) string) bool { return cni.Requested(getenv) }

// CNIMain runs the process as a CNI plugin; program is os.Args[0].
func CNIMain(program string) { cni.Main(program) }

// timings are what the plugin leaves for traces.
func (c Config) timings() cni.Timings {
	if c.Network == nil {
		return cni.Timings{}
	}
	return cni.Timings{DataDir: c.Network.CNIData}
}
