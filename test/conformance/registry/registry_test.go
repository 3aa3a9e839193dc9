package main

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestServesWhatTheArchiveHas(t *testing.T) {
	t.Parallel()
	image, err := random.Image(1000, 3)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("registry.example/a/b:1")
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "images.tar")
	if err := tarball.WriteToFile(archive, tag, image); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") // to know of a free port
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(running, archive, address) }()

	asked, err := name.NewTag(address+"/a/b:1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	served, err := remote.Image(asked)
	for err != nil { // it answers once it has everything
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
			served, err = remote.Image(asked)
		}
	}
	layers, err := served.Layers()
	if err != nil || len(layers) != 3 {
		t.Fatalf("layers %v, %v", layers, err)
	}
	for _, layer := range layers { // whose content is compared with its digest as it is read
		content, err := layer.Compressed()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			t.Error(err)
		}
		content.Close()
	}
	want, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := served.ConfigName(); err != nil || got != want {
		t.Errorf("ID %v, want %v (%v)", got, want, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("end: %v", err)
	}
}
