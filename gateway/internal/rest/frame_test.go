package rest

import (
	"bytes"
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
