package cpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"howdah.dev/nodeagent/internal/statefile"
)

// state is the file cpu_manager_state, in the kubelet's words.
type state struct {
	PolicyName    string                          `json:"policyName"`
	DefaultCPUSet string                          `json:"defaultCpuSet"`
	Entries       map[types.UID]map[string]string `json:"entries,omitempty"`
}

// readState returns whose CPUs are whose. A file of another policy is an error: containers may have been given what this one does not know of.
func readState(path, policy string) (map[types.UID]map[string]cpuset.CPUSet, error) {
	held := map[types.UID]map[string]cpuset.CPUSet{}
	var s state
	err := statefile.Read(path, &s)
	if errors.Is(err, fs.ErrNotExist) {
		return held, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w, please drain this node and delete the CPU manager checkpoint file %q", err, path)
	}
	if s.PolicyName != policy {
		return nil, fmt.Errorf("configured policy %q differs from state checkpoint policy %q, please drain this node and delete the CPU manager checkpoint file %q before restarting",
			policy, s.PolicyName, path)
	}
	for uid, containers := range s.Entries {
		held[uid] = map[string]cpuset.CPUSet{}
		for name, text := range containers {
			if held[uid][name], err = cpuset.Parse(text); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return held, nil
}

// save writes the file. The lock is held.
func (m *Manager) save() error {
	s := state{PolicyName: Static, DefaultCPUSet: m.shared().String(), Entries: map[types.UID]map[string]string{}}
	for uid, containers := range m.held {
		s.Entries[uid] = map[string]string{}
		for name, set := range containers {
			s.Entries[uid][name] = set.String()
		}
	}
	return statefile.Write(m.cfg.State, s)
}

// CheckNone refuses the policy none while the file tells of another.
func CheckNone(path string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := readState(path, None)
	return err
}
