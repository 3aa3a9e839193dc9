package codec

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestGzipListOfLargeObjects: no message of a list grows with its objects, of which each may be as large as a Helm release; a mesh takes no messages of 64 MiB.
func TestGzipListOfLargeObjects(t *testing.T) {
	t.Parallel()
	res, all := items(t, 150)
	noise := make([]byte, 512<<10)
	for i, item := range all {
		obj, err := item.Copy()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = rand.Read(noise)
		obj.SetAnnotations(map[string]string{"release": base64.StdEncoding.EncodeToString(noise)})
		value, err := Encode(context.Background(), res.Kind, obj)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = NewItem(res.Kind, item.Key, value, int64(i+1), int64(i+1))
	}
	slices.SortFunc(all, func(a, b *Item) int { return bytes.Compare([]byte(a.Key), []byte(b.Key)) })
	var s Segments
	for _, form := range []Form{{Media: JSON}, {Media: Protobuf}} {
		want := plainList(t, func(emit func([]byte) error) error { return List(res, all, metav1.ListMeta{}, form, emit) })
		var packed []byte
		ok, err := s.GzipList(res, all, metav1.ListMeta{}, form, 0, func(b []byte) error {
			if len(b) > 2*segmentWeight {
				return fmt.Errorf("a message of %d bytes", len(b))
			}
			packed = append(packed, b...)
			return nil
		})
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		reader, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(reader); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%+v: %d bytes of %d, %v", form, len(got), len(want), err)
		}
	}
	for range 2 {
		all = append(all, all...)
	}
	for _, form := range []Form{{Media: JSON}, {Media: Protobuf}} {
		if ok, err := s.GzipList(res, all, metav1.ListMeta{}, form, 0, func([]byte) error { return nil }); ok || err != nil {
			t.Errorf("%d MiB are held at once: %v", weigh(all)>>20, err)
		}
	}
}
