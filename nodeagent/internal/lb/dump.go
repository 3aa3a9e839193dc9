package lb

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"howdah.dev/nodeagent/bpf"
)

// Dump shows what is in the pinned maps of a node, one frontend a paragraph, as Table.String does for what should be
// there. It needs no agent.
func Dump(pins string) (string, error) {
	var opened []*ebpf.Map
	defer func() {
		for _, m := range opened {
			m.Close()
		}
	}()
	var errs []error
	open := func(name string) *ebpf.Map {
		m, err := ebpf.LoadPinnedMap(filepath.Join(pins, name), &ebpf.LoadPinOptions{ReadOnly: true})
		if err != nil {
			errs = append(errs, fmt.Errorf("open map %s: %w", name, err))
			return nil
		}
		opened = append(opened, m)
		return m
	}
	maps := kernelMaps(&bpf.LBObjects{LBMaps: bpf.LBMaps{
		Frontends: open(bpf.LBMapFrontends),
		Slots:     open(bpf.LBMapSlots),
		Members:   open(bpf.LBMapMembers),
		Sources:   open(bpf.LBMapSources),
		Nodes:     open(bpf.LBMapNodes),
	}}, nil)
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	st, err := readState(maps)
	if err != nil {
		return "", err
	}
	return st.String(), nil
}

// String dumps the state in order.
func (st *state) String() string {
	var frontends []Frontend
	for k := range st.frontends {
		frontends = append(frontends, decodeFrontend(k))
	}
	slices.SortFunc(frontends, compareFrontends)
	var out strings.Builder
	for _, f := range frontends {
		value := st.frontends[encodeFrontend(f)]
		fmt.Fprintf(&out, "%s service=%016x", f, value.Service)
		if value.Affinity > 0 {
			fmt.Fprintf(&out, " affinity=%ds", value.Affinity)
		}
		if value.Flags&flagCheckSource != 0 {
			out.WriteString(" checks-source")
		}
		out.WriteByte('\n')
		for i := range value.Count {
			fmt.Fprintf(&out, "  -> %s\n", decodeBackend(st.set(value.Set).slots[i]))
		}
	}
	return out.String()
}
