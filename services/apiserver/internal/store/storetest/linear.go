package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"howdah.dev/services/apiserver/internal/store"
)

// opKind is what a client asked for.
type opKind int

const (
	opGet opKind = iota
	opCreate
	opSwap   // update where the value is still Expected
	opRemove // delete where the value is still Expected
)

// input of an operation on a key. Every write has a value of its own, so that values identify writes.
type input struct {
	key      string
	kind     opKind
	value    string
	expected string
}

// output of an operation.
type output struct {
	// unknown: the operation may or may not have happened.
	unknown bool
	// done: a write that succeeded, a Get that found value.
	done  bool
	value string
}

// register is the state of one key.
type register struct {
	exists bool
	value  string
}

// model says what a linearizable key does. An operation of unknown outcome happens if it can; that it did not happen at all is the
// same as happening after everything else, which its open end allows.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(input).key
			byKey[key] = append(byKey[key], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return register{} },
	Step: func(state, in, out any) (bool, any) {
		r, i, o := state.(register), in.(input), out.(output)
		possible, next := false, r
		switch i.kind {
		case opGet:
			return o.done == r.exists && (!o.done || o.value == r.value), r
		case opCreate:
			possible, next = !r.exists, register{true, i.value}
		case opSwap:
			possible, next = r.exists && r.value == i.expected, register{true, i.value}
		case opRemove:
			possible, next = r.exists && r.value == i.expected, register{}
		}
		if !possible {
			next = r
		}
		return o.unknown || o.done == possible, next
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
}

// recorder keeps the history of operations as their clients saw them.
type recorder struct {
	begin time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

func (r *recorder) now() int64 { return time.Since(r.begin).Nanoseconds() }

func (r *recorder) add(client int, in input, called int64, out output) {
	op := porcupine.Operation{ClientId: client, Input: in, Call: called, Output: out, Return: r.now()}
	if out.unknown {
		op.Return = 1 << 62
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, op)
}

// check fails the test when no order of the operations explains what the clients saw.
func (r *recorder) check(t testing.TB) {
	t.Helper()
	switch porcupine.CheckOperationsTimeout(model, r.ops, 30*time.Second) {
	case porcupine.Illegal:
		t.Error("the history is not linearizable")
	case porcupine.Unknown:
		t.Error("the history could not be checked in time")
	}
}

// outcome translates a write's error; happened is false when there is nothing to record.
func outcome(err error) (out output, happened bool, problem error) {
	switch kindOf(err) {
	case succeeded:
		return output{done: true}, true, nil
	case refused:
		return output{}, true, nil
	case uncertain:
		return output{unknown: true}, true, nil
	case absent:
		return output{}, false, nil
	}
	return output{}, false, err
}

// resultKind sorts errors by what they say about the state.
type resultKind int

const (
	unexpected resultKind = iota
	succeeded
	refused   // the state was such that the write could not be
	uncertain // it may have happened
	absent    // it did not happen, for reasons outside the state
)

func kindOf(err error) resultKind {
	switch {
	case err == nil:
		return succeeded
	case isRefusal(err):
		return refused
	case errors.Is(err, store.ErrUnknownOutcome):
		return uncertain
	case errors.Is(err, store.ErrUnavailable):
		return absent
	}
	return unexpected
}
