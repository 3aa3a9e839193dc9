package netpol

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"

	"howdah.dev/nodeagent/bpf"
)

// Dump shows what is in the pinned maps of a node: for each interface of a pod, who may use which ports in each direction. It needs no agent.
func Dump(pins string) (string, error) {
	var errs []error
	open := func(name string) *ebpf.Map {
		m, err := ebpf.LoadPinnedMap(filepath.Join(pins, name), &ebpf.LoadPinOptions{ReadOnly: true})
		if err != nil {
			errs = append(errs, fmt.Errorf("open map %s: %w", name, err))
		}
		return m
	}
	o := bpf.PolicyMaps{
		Subjects: open(bpf.PolicyMapSubjects), Own: open(bpf.PolicyMapOwn), Peers: open(bpf.PolicyMapPeers), Ports: open(bpf.PolicyMapPorts),
	}
	defer o.Close()
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	st, err := readState(mapsOf(&o, nil))
	if err != nil {
		return "", err
	}
	return st.String(), nil
}

// String dumps the state in order.
func (st *state) String() string {
	var out strings.Builder
	for _, ifindex := range sorted(st.subjects, cmp.Compare[uint32]) {
		for _, d := range directions {
			id := st.subjects[ifindex].Sets[d]
			if id == 0 {
				fmt.Fprintf(&out, "interface %d %s: not isolated\n", ifindex, d)
				continue
			}
			fmt.Fprintf(&out, "interface %d %s: isolated, set %d\n%s", ifindex, d, id, st.sets[id].Table)
		}
	}
	return out.String()
}
