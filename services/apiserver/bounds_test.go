package apiserver

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// A user has no more watches than it may; others have theirs, and one that ends makes room.
func TestWatchesOfAUserAreBounded(t *testing.T) {
	f := startMemory(t, func(cfg *Config) { cfg.MaxWatches = 2 })
	open := func(f *fixture) (end func(), err error) {
		ctx, cancel := context.WithCancel(f.ctx)
		t.Cleanup(cancel)
		stream, err := f.api.Watch(ctx, &apiv1.WatchRequest{Version: "v1", Resource: "configmaps", Namespace: "default"})
		if err == nil {
			_, err = stream.Recv()
		}
		return cancel, apistatus.FromGRPC(err)
	}
	eve := f.as("eve", "system:masters")
	end, err := open(eve)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = open(eve); err != nil {
		t.Fatal(err)
	}
	const full = `user "eve" has 2 watches open at this API server, and may have no more`
	if _, err := open(eve); !apierrors.IsTooManyRequests(err) || err.Error() != full {
		t.Errorf("a third: %v", err)
	}
	if _, err := open(f.as("bob", "system:masters")); err != nil {
		t.Errorf("another user: %v", err)
	}
	end()
	deadline := time.Now().Add(time.Minute)
	for {
		_, err := open(eve)
		if err == nil {
			return
		}
		if !apierrors.IsTooManyRequests(err) || time.Now().After(deadline) {
			t.Fatalf("after one has ended: %v", err)
		}
	}
}

// Bodies that nest as deep as they are long are refused, whatever their encoding and wherever they are read.
func TestNestingIsBounded(t *testing.T) {
	f := startMemory(t, func(cfg *Config) { cfg.CBOR = true })
	if _, err := f.create(configMaps, "default", `{"metadata":{"name":"a"}}`); err != nil {
		t.Fatal(err)
	}
	const size = 1 << 20
	for contentType, bomb := range map[string]string{
		"application/json": `{"data":` + strings.Repeat(`{"a":`, size/5),
		"application/yaml": "data: " + strings.Repeat("[", size),
		"application/cbor": "\xa1\x44data" + strings.Repeat("\x81", size),
	} {
		_, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Object: []byte(bomb), ContentType: contentType})
		if s := apistatus.Of(err); s.Code != 400 || !strings.Contains(s.Message, "nest") && !strings.Contains(s.Message, "exceeded max depth") {
			t.Errorf("create of %s: %+v", contentType, s)
		}
		_, err = f.api.Update(f.ctx, &apiv1.UpdateRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: "a", Object: []byte(bomb), ContentType: contentType})
		if s := apistatus.Of(err); s.Code != 400 {
			t.Errorf("update of %s: %+v", contentType, s)
		}
		_, err = f.api.Delete(f.ctx, &apiv1.DeleteRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: "a", Options: []byte(bomb), ContentType: contentType})
		if s := apistatus.Of(err); s.Code != 400 {
			t.Errorf("delete with %s: %+v", contentType, s)
		}
	}
	for media, bomb := range map[string]string{
		"merge-patch+json": `{"data":` + strings.Repeat(`{"a":`, size/5), "strategic-merge-patch+json": `{"data":` + strings.Repeat(`[`, size),
		"json-patch+json": strings.Repeat(`[`, size), "apply-patch+yaml": "data: " + strings.Repeat("{a: ", size/4),
		"apply-patch+cbor": "\xa1\x44data" + strings.Repeat("\x81", size),
	} {
		_, err := f.change(configMaps, "default", "a", media, bomb, func(r *apiv1.PatchRequest) { r.FieldManager = "m" })
		if s := apistatus.Of(err); s.Code != 400 {
			t.Errorf("%s: %+v", media, s)
		}
	}
}

func TestAnnotationsAreBounded(t *testing.T) {
	f := startMemory(t)
	_, err := f.create(configMaps, "default", `{"metadata":{"name":"big","annotations":{"a":"`+strings.Repeat("x", 256<<10)+`"}}}`)
	if s := apistatus.Of(err); s.Code != 422 || !strings.Contains(s.Message, "metadata.annotations: Too long: may not be more than 262144 bytes") {
		t.Errorf("%+v", s)
	}
}

// A watch whose client does not say how long it is to last ends between a time and twice that; one whose client does ends then.
func TestHowLongWatchesLast(t *testing.T) {
	const least = time.Second
	for name, tt := range map[string]struct {
		least time.Duration
		asked int64         // seconds
		lasts time.Duration // at least; 0 has no end
	}{
		"the server's choice": {least: least, lasts: least},
		"the client's":        {least: time.Hour, asked: 1, lasts: time.Second},
		"no end":              {least: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startMemory(t, func(cfg *Config) { cfg.MinWatch = tt.least })
			ctx, cancel := context.WithCancel(f.ctx)
			defer cancel()
			began, ended := time.Now(), make(chan error, 1)
			stream, err := f.api.Watch(ctx, &apiv1.WatchRequest{Version: "v1", Resource: "configmaps", Namespace: "default", TimeoutSeconds: tt.asked})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			go func() {
				var err error
				for err == nil {
					_, err = stream.Recv()
				}
				ended <- err
			}()
			if tt.lasts == 0 {
				select {
				case err := <-ended:
					t.Errorf("ended: %v", err)
				case <-time.After(2 * least):
				}
				return
			}
			if err := <-ended; err != io.EOF || time.Since(began) < tt.lasts {
				t.Errorf("ended after %s with %v", time.Since(began), err)
			}
		})
	}
}
