package main

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

// TestDefaultStorageClass holds that the class is made once, and that what its owner makes of it stays.
func TestDefaultStorageClass(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	classes := object.For(client, object.StorageClass)
	const isDefault = "storageclass.kubernetes.io/is-default-class"
	for range 2 {
		if err := ensureStorage(t.Context(), client, "local-path"); err != nil {
			t.Fatal(err)
		}
		class, err := classes.Get(t.Context(), "", "local-path")
		if err != nil {
			t.Fatal(err)
		}
		switch class.Annotations[isDefault] {
		case "true":
			class.Annotations[isDefault] = "false"
			if _, err := classes.Update(t.Context(), class); err != nil {
				t.Fatal(err)
			}
		case "false":
		default:
			t.Fatalf("class %v", class)
		}
	}
	class, err := classes.Get(t.Context(), "", "local-path")
	if err != nil || class.Annotations[isDefault] != "false" {
		t.Errorf("%v, %v", class, err)
	}
	if err := ensureStorage(t.Context(), client, ""); err != nil {
		t.Error(err)
	}
	if list, _, err := classes.List(t.Context(), "", metav1.ListOptions{}); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestUntilDone(t *testing.T) {
	refused := errors.New("the provided network does not match the current range")
	tries := 0
	err := untilDone(t.Context(), time.Millisecond, func(context.Context) error {
		if tries++; tries < 3 {
			return refused
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("after %d tries: %v", tries, err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := untilDone(ctx, time.Millisecond, func(context.Context) error { return refused }); !errors.Is(err, refused) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("in vain: %v", err)
	}
}
