package lb

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"howdah.dev/nodeagent/bpf"
)

// kernelMap is a Map in the kernel.
type kernelMap[K comparable, V any] struct{ m *ebpf.Map }

func (k kernelMap[K, V]) Put(key K, value V) error {
	err := k.m.Update(key, value, ebpf.UpdateAny)
	if errors.Is(err, ebpf.ErrKeyExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("map of at most %d entries: %w", k.m.MaxEntries(), err)
	}
	return nil
}

func (k kernelMap[K, V]) Delete(key K) error {
	if err := k.m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return nil
}

func (k kernelMap[K, V]) All() (map[K]V, error) {
	out := map[K]V{}
	var key K
	var value V
	it := k.m.Iterate()
	for it.Next(&key, &value) {
		out[key] = value
	}
	return out, it.Err()
}

// kernelMaps wraps loaded maps. barrier is an array of maps: the kernel ends an update of one from user space only
// after every program that ran when it began has ended.
func kernelMaps(o *bpf.LBObjects, barrier, inner *ebpf.Map) Maps {
	return Maps{
		Frontends: kernelMap[bpf.LBFrontendKey, bpf.LBFrontend]{o.Frontends},
		Slots:     kernelMap[bpf.LBSlotKey, bpf.LBBackend]{o.Slots},
		Members:   kernelMap[bpf.LBMemberKey, uint8]{o.Members},
		Sources:   kernelMap[bpf.LBSourceKey, uint8]{o.Sources},
		Nodes:     kernelMap[bpf.LBAddress, uint8]{o.Nodes},
		Barrier: func() error {
			if err := barrier.Put(uint32(0), inner); err != nil {
				return fmt.Errorf("wait for running programs: %w", err)
			}
			return nil
		},
	}
}

// newBarrier makes the map whose update is the barrier, and what it holds.
func newBarrier() (barrier, inner *ebpf.Map, err error) {
	spec := &ebpf.MapSpec{Name: "lb_inner", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	if inner, err = ebpf.NewMap(spec); err != nil {
		return nil, nil, fmt.Errorf("create the barrier's inner map: %w", err)
	}
	barrier, err = ebpf.NewMap(&ebpf.MapSpec{Name: "lb_barrier", Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: spec})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("create the barrier map: %w", err), inner.Close())
	}
	return barrier, inner, nil
}
