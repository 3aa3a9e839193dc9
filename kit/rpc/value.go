package rpc

import (
	"context"
	"reflect"

	"google.golang.org/grpc"
)

// Values is an option of a call that is answered by a stream. Over a Local, the server may send Go values of one type beside its
// messages, which neither side has to encode or decode; they are shared, and nobody may change them. Connections of other kinds
// ignore the option, and a server need not use it, so that the caller must be ready to find everything in the messages.
type Values struct {
	grpc.EmptyCallOption
	sample reflect.Type
	last   []any
}

// TakeValues returns the option, for one call, that asks for values of the sample's type.
func TakeValues(sample any) *Values { return &Values{sample: reflect.TypeOf(sample)} }

// Last returns the values that came with the message which was received last. Only the receiver may call it.
func (v *Values) Last() []any { return v.last }

// Giver gives values to the client of a stream.
type Giver struct {
	sample reflect.Type
	next   []any
}

// GiverOf returns what gives values to the client of the call that ctx is of; nil: it takes none.
func GiverOf(ctx context.Context) *Giver {
	g, _ := ctx.Value(giverKey{}).(*Giver)
	return g
}

type giverKey struct{}

// Takes reports whether the client takes the value.
func (g *Giver) Takes(value any) bool { return g != nil && reflect.TypeOf(value) == g.sample }

// Give lets values go with the message that is sent next. Only the sender may call it.
func (g *Giver) Give(values []any) { g.next = values }

// valued is a message on its way with values.
type valued struct {
	message any
	values  []any
}

func valuesOf(options []grpc.CallOption) *Values {
	for _, o := range options {
		if v, ok := o.(*Values); ok {
			return v
		}
	}
	return nil
}

// load adds the values that go with a message.
func (l *localStream) load(message any) any {
	if l.giver == nil || l.giver.next == nil {
		return message
	}
	v := valued{message, l.giver.next}
	l.giver.next = nil
	return v
}

// unload takes off the values that have come with a message.
func (l *localStream) unload(received any) any {
	if l.values == nil {
		return received
	}
	v, ok := received.(valued)
	if !ok {
		l.values.last = nil
		return received
	}
	l.values.last = v.values
	return v.message
}
