package rest

import (
	"bytes"
	"errors"
	"io"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/answer"
)

// A watch in CBOR is a sequence of items that Kubernetes' own reader takes apart.
func TestFramesOfCBOR(t *testing.T) {
	t.Parallel()
	f := framerFor("application/cbor")
	if f.contentType() != "application/cbor-seq" {
		t.Error(f.contentType())
	}
	status := answer.Encode(metav1.Status{Message: "gone"}, f.encoding())
	types := []string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"}
	var events []*apiv1.WatchEvent
	for _, eventType := range types {
		events = append(events, &apiv1.WatchEvent{Type: eventType, Object: status})
	}
	stream := cbor.NewFramer().NewFrameReader(io.NopCloser(bytes.NewReader(frames(f, events))))
	buffer := make([]byte, 4096)
	for _, eventType := range types {
		n, err := stream.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		var event metav1.WatchEvent
		var got metav1.Status
		if err := direct.Unmarshal(buffer[:n], &event); err != nil || event.Type != eventType {
			t.Fatalf("%+v, %v", event, err)
		}
		if err := direct.Unmarshal(event.Object.Raw, &got); err != nil || got.Message != "gone" || got.Kind != "Status" {
			t.Errorf("%s of %+v, %v", eventType, got, err)
		}
		// Our frame is to the byte what Kubernetes' encoder makes of the event.
		ours := f.appendFrame(nil, eventType, status)
		var theirs bytes.Buffer
		if err := cbor.NewSerializer(nil, nil).Encode(&event, &theirs); err != nil || !bytes.Equal(theirs.Bytes(), ours) {
			t.Errorf("%q, the library %q, %v", ours, theirs.Bytes(), err)
		}
	}
	if n, err := stream.Read(buffer); err != io.EOF {
		t.Errorf("%d bytes more, %v", n, err)
	}
}

// However many events a response has, and however large they are, the pieces make up the frames of all, in their order; a writer that failed may
// keep what it was given.
func TestFramesInPieces(t *testing.T) {
	t.Parallel()
	event := func(n, size int) *apiv1.WatchEvent {
		return &apiv1.WatchEvent{Type: "ADDED", Object: bytes.Repeat([]byte{byte('a' + n%26)}, size)}
	}
	var small, mixed []*apiv1.WatchEvent
	for n := range 1000 {
		small = append(small, event(n, 1500))
	}
	for n, size := range []int{1, pieceBytes, 0, 6 * pieceBytes, pieceBytes - 40, 3} {
		mixed = append(mixed, event(n, size))
	}
	for name, events := range map[string][]*apiv1.WatchEvent{"none": nil, "two": small[:2], "many small": small, "large between small": mixed} {
		for _, f := range []framer{jsonFramer{}, protobufFramer{}, cborFramer{}} {
			var got []byte
			longest := 0
			err := inPieces(f, events, func(b []byte) error {
				got = append(got, b...)
				longest = max(longest, len(b))
				return nil
			})
			if err != nil || !bytes.Equal(got, frames(f, events)) {
				t.Errorf("%s, %T: %d bytes, %v", name, f, len(got), err)
			}
			if name == "many small" && longest > pieceBytes+2000 {
				t.Errorf("%s, %T: a piece of %d bytes", name, f, longest)
			}
		}
	}
	failed := errors.New("gone")
	var kept, was []byte
	err := inPieces(jsonFramer{}, small, func(b []byte) error {
		kept, was = b, bytes.Clone(b)
		return failed
	})
	if !errors.Is(err, failed) {
		t.Error(err)
	}
	for range 3 {
		if err := inPieces(jsonFramer{}, mixed, func([]byte) error { return nil }); err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(kept, was) {
		t.Error("what a failed write was given has changed")
	}
}
