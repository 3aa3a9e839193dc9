// Package kernel puts parameters of the kernel as a kubelet does, so that memory is promised freely, a process that finds none does not stop the machine, and a
// kernel that is broken starts it anew.
package kernel

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// Policy says what becomes of parameters that differ.
type Policy int

// The policies.
const (
	Leave   Policy = iota // nothing
	Set                   // they are put right
	Protect               // the node does not start
)

// wanted are the values of a kubelet, by path below /proc/sys (https://docs.kernel.org/admin-guide/sysctl/).
var wanted = []struct{ path, value string }{
	{"vm/overcommit_memory", "1"},
	{"vm/panic_on_oom", "0"},
	{"kernel/panic", "10"},
	{"kernel/panic_on_oops", "1"},
	{"kernel/keys/root_maxkeys", "1000000"},
	{"kernel/keys/root_maxbytes", "25000000"},
}

// Apply looks at the parameters in sys, which is /proc/sys. What cannot be put right is told and left, as where that is mounted to be read alone; an error names
// all that Protect forbids.
func Apply(sys string, policy Policy) error {
	if policy == Leave {
		return nil
	}
	var problems []error
	for _, w := range wanted {
		path := filepath.Join(sys, w.path)
		name := strings.ReplaceAll(w.path, "/", ".")
		text, err := os.ReadFile(path)
		if err != nil {
			slog.Warn("look at a parameter of the kernel", "name", name, "err", err)
			continue
		}
		is := strings.TrimSpace(string(text))
		switch {
		case is == w.value:
		case policy == Protect:
			problems = append(problems, fmt.Errorf("invalid kernel flag: %s, expected value: %s, actual value: %s", w.path, w.value, is))
		default:
			if err := os.WriteFile(path, []byte(w.value), 0o600); err != nil {
				slog.Warn("set a parameter of the kernel", "name", name, "from", is, "to", w.value, "err", err)
				continue
			}
			slog.Info("parameter of the kernel set", "name", name, "from", is, "to", w.value)
		}
	}
	return errors.Join(problems...)
}
