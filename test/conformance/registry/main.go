// Command registry serves the images of an archive of "docker save" as the registry after which they are named would, for pods that pull always
// where no registry can be reached. Names lose their registry on the way: whoever asks for registry.example/a/b:1 asks here for a/b:1, as mirrors are asked.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	archive := flag.String("archive", "", "the archive of images")
	address := flag.String("listen", ":5000", "where to serve them, without TLS")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, *archive, *address)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run serves the archive's images until ctx ends. Nobody is heard before all of them are there.
func run(ctx context.Context, archive, address string) error {
	dir, err := os.MkdirTemp("", "registry-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	handler := registry.New(registry.WithBlobHandler(registry.NewDiskBlobHandler(dir)), registry.Logger(log.New(os.Stderr, "", log.LstdFlags)))
	if err := serve(ctx, handler, "127.0.0.1:0", func(ctx context.Context, private string) error { return fill(ctx, private, archive) }); err != nil {
		return fmt.Errorf("load %s: %w", archive, err)
	}
	return serve(ctx, handler, address, func(ctx context.Context, _ string) error {
		<-ctx.Done()
		return nil
	})
}

// serve answers at an address while use, which gets the address, has not returned.
func serve(ctx context.Context, handler http.Handler, address string, use func(ctx context.Context, address string) error) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() {
		err := server.Serve(listener)
		cancel(err)
		ended <- err
	}()
	err = use(ctx, listener.Addr().String())
	if closing := server.Close(); err == nil {
		err = closing
	}
	if serving := <-ended; err == nil && !errors.Is(serving, http.ErrServerClosed) {
		err = serving
	}
	cancel(nil)
	return err
}

// fill pushes the archive's images to the registry at an address.
func fill(ctx context.Context, address, archive string) error {
	open := func() (io.ReadCloser, error) { return os.Open(archive) }
	manifest, err := tarball.LoadManifest(open)
	if err != nil {
		return err
	}
	for _, image := range manifest {
		for _, tag := range image.RepoTags {
			if err := push(ctx, address, open, tag); err != nil {
				return fmt.Errorf("%s: %w", tag, err)
			}
		}
	}
	return nil
}

func push(ctx context.Context, address string, open tarball.Opener, named string) error {
	tag, err := name.NewTag(named)
	if err != nil {
		return err
	}
	image, err := tarball.Image(open, &tag)
	if err == nil {
		image, err = uncompressed(image)
	}
	if err != nil {
		return err
	}
	target, err := name.NewTag(address+"/"+tag.RepositoryStr()+":"+tag.TagStr(), name.Insecure)
	if err != nil {
		return err
	}
	return remote.Write(target, image, remote.WithContext(ctx))
}
