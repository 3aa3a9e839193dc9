package rpc

import (
	"reflect"
	"sync"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// fits fails for what is no message, and for one that a network would refuse.
func fits(message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "%T is no message", message)
	}
	if size := proto.Size(m); size > MaxMessage {
		return status.Errorf(codes.ResourceExhausted, "the message is larger than max (%d vs. %d)", size, MaxMessage)
	}
	value := reflect.ValueOf(message).Elem()
	for _, n := range fieldsOf(value.Type()) {
		switch field := value.Field(n); {
		case field.Kind() == reflect.String:
			ok = utf8.ValidString(field.String())
		case field.Type() == texts:
			for i := range field.Len() {
				ok = ok && utf8.ValidString(field.Index(i).String())
			}
		}
		if !ok {
			return status.Errorf(codes.Internal, "field %s of %T contains invalid UTF-8", value.Type().Field(n).Name, message)
		}
	}
	return nil
}

var texts = reflect.TypeFor[[]string]()

// snapshot returns a message that stays as the given one is now.
func snapshot(message any) (any, error) {
	if err := fits(message); err != nil {
		return nil, err
	}
	copied := reflect.New(reflect.TypeOf(message).Elem()).Interface()
	return copied, pass(message, copied)
}

// pass makes into, of whatever it was, what from is.
func pass(from, into any) error {
	source, target := reflect.ValueOf(from), reflect.ValueOf(into)
	if source.Type() != target.Type() {
		return reencode(from, into)
	}
	source, target = source.Elem(), target.Elem()
	for _, n := range fieldsOf(source.Type()) {
		target.Field(n).Set(source.Field(n))
	}
	return nil
}

// reencode passes a message to a receiver that has another type for it, as one of another version.
func reencode(from, into any) error {
	m, ok := into.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "%T is no message", into)
	}
	b, err := proto.Marshal(from.(proto.Message)) // fits has asserted it
	if err == nil {
		err = proto.Unmarshal(b, m)
	}
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}

var messageFields sync.Map // of reflect.Type: []int

// fieldsOf returns the exported fields of a generated message, which are the fields of the message.
func fieldsOf(t reflect.Type) []int {
	if known, ok := messageFields.Load(t); ok {
		return known.([]int)
	}
	var fields []int
	for n := range t.NumField() {
		if t.Field(n).IsExported() {
			fields = append(fields, n)
		}
	}
	messageFields.Store(t, fields)
	return fields
}
