package rest

import (
	"fmt"
	"io"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/proto"
)

// body is a request's body, read already.
type body struct{ data []byte }

func (b *body) Read(p []byte) (int, error) {
	if len(b.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.data)
	b.data = b.data[n:]
	return n, nil
}

func (b *body) Close() error { return nil }

// object is a message that carries an encoded object.
type object interface {
	GetObject() []byte
	GetContentType() string
}

// passThrough moves encoded objects between bodies and messages as they are.
type passThrough struct{}

var _ runtime.Marshaler = passThrough{}

// ContentType of a message is what the message says.
func (passThrough) ContentType(v any) string {
	switch v := v.(type) {
	case object:
		return v.GetContentType()
	case *httpbody.HttpBody:
		return v.GetContentType()
	}
	return "application/json"
}

// Marshal returns the object of a message. What the mux makes of errors is
// nothing: the handler answers them.
func (passThrough) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case object:
		return v.GetObject(), nil
	case map[string]proto.Message:
		return nil, nil
	}
	return nil, fmt.Errorf("%T carries no object", v)
}

// Unmarshal gives a bytes field the whole body.
func (passThrough) Unmarshal(data []byte, v any) error {
	field, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T takes no body", v)
	}
	*field = data
	return nil
}

// NewDecoder gives a bytes field the whole body, without copying it where
// the handler has read it already.
func (m passThrough) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		if b, ok := r.(*body); ok {
			data := b.data
			b.data = nil
			return m.Unmarshal(data, v)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return m.Unmarshal(data, v)
	})
}

// NewEncoder writes the object of a message.
func (m passThrough) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		data, err := m.Marshal(v)
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	})
}

// Delimiter is empty: lists are concatenated, watches bring their own frames.
func (passThrough) Delimiter() []byte { return nil }
