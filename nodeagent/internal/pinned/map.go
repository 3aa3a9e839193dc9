package pinned

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Map is one eBPF map, or a test's stand-in. Put overwrites; Delete of a missing key is no error.
type Map[K comparable, V any] interface {
	Put(key K, value V) error
	Delete(key K) error
	All() (map[K]V, error)
}

// Kernel is a Map in the kernel.
type Kernel[K comparable, V any] struct{ M *ebpf.Map }

// Put implements Map.
func (k Kernel[K, V]) Put(key K, value V) error {
	err := k.M.Update(key, value, ebpf.UpdateAny)
	if errors.Is(err, ebpf.ErrKeyExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("map of at most %d entries: %w", k.M.MaxEntries(), err)
	}
	return nil
}

// Delete implements Map.
func (k Kernel[K, V]) Delete(key K) error {
	if err := k.M.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return nil
}

// All implements Map.
func (k Kernel[K, V]) All() (map[K]V, error) {
	out := map[K]V{}
	var key K
	var value V
	it := k.M.Iterate()
	for it.Next(&key, &value) {
		out[key] = value
	}
	return out, it.Err()
}

// Barrier waits for programs. It is an array of maps: the kernel ends an update of one from user space only after every
// program that ran when it began has ended.
type Barrier struct{ outer, inner *ebpf.Map }

// NewBarrier makes a barrier.
func NewBarrier() (*Barrier, error) {
	spec := &ebpf.MapSpec{Name: "barrier_inner", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	inner, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("create the barrier's inner map: %w", err)
	}
	outer, err := ebpf.NewMap(&ebpf.MapSpec{Name: "barrier", Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: spec})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create the barrier map: %w", err), inner.Close())
	}
	return &Barrier{outer, inner}, nil
}

// Wait returns when no program runs any more that could have read what was replaced before the call.
func (b *Barrier) Wait() error {
	if err := b.outer.Put(uint32(0), b.inner); err != nil {
		return fmt.Errorf("wait for running programs: %w", err)
	}
	return nil
}

// Close frees the barrier.
func (b *Barrier) Close() error { return errors.Join(b.outer.Close(), b.inner.Close()) }
