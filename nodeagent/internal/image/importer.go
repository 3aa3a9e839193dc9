package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	leasesapi "github.com/containerd/containerd/api/services/leases/v1"
	containerdtypes "github.com/containerd/containerd/api/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

const (
	namespace     = "k8s.io" // where CRI keeps its images in containerd
	chunk         = 1 << 20
	importTimeout = 10 * time.Minute
)

// Importer stores image archives in containerd.
type Importer struct {
	content contentapi.ContentClient
	images  imagesapi.ImagesClient
	leases  leasesapi.LeasesClient
	told    func(name string)
}

// NewImporter returns an Importer on containerd's socket. told hears the names of the images.
func NewImporter(conn grpc.ClientConnInterface, told func(name string)) *Importer {
	return &Importer{contentapi.NewContentClient(conn), imagesapi.NewImagesClient(conn), leasesapi.NewLeasesClient(conn), told}
}

// ImportDir imports every *.tar of a folder. Files that fail are reported,
// and do not keep the others out. A folder that is missing is an empty one.
func (i *Importer) ImportDir(ctx context.Context, dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil {
		return err
	}
	var problems []error
	for _, name := range names {
		images, err := i.Import(ctx, name)
		if err != nil {
			problems = append(problems, fmt.Errorf("import %s: %w", name, err))
			continue
		}
		slog.Info("images imported", "file", name, "images", images)
	}
	return errors.Join(problems...)
}

// Import stores the images of one archive and returns their names.
func (i *Importer) Import(ctx context.Context, file string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", namespace)

	a, err := openArchive(file)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	blobs, images, err := a.content()
	if err != nil {
		return nil, err
	}
	// The lease keeps what is stored from being collected before an image
	// refers to it.
	lease, err := i.leases.Create(ctx, &leasesapi.CreateRequest{
		ID:     fmt.Sprintf("howdah-import-%d-%s", os.Getpid(), filepath.Base(file)),
		Labels: map[string]string{"containerd.io/gc.expire": time.Now().Add(importTimeout).UTC().Format(time.RFC3339)},
	})
	if err != nil && status.Code(err) != codes.AlreadyExists {
		return nil, fmt.Errorf("lease: %w", err)
	}
	if id := lease.GetLease().GetID(); id != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "containerd-lease", id)
		defer func() { _, _ = i.leases.Delete(context.WithoutCancel(ctx), &leasesapi.DeleteRequest{ID: id}) }() // else it expires
	}
	for _, b := range blobs {
		if err := i.store(ctx, b); err != nil {
			return nil, fmt.Errorf("store %s: %w", b.Digest, err)
		}
	}
	var names []string
	for _, image := range images {
		name, err := Normalize(image.name)
		if err != nil {
			return nil, fmt.Errorf("image name %q: %w", image.name, err)
		}
		if err := i.name(ctx, name, image.target); err != nil {
			return nil, fmt.Errorf("name %s: %w", name, err)
		}
		i.told(name)
		names = append(names, name)
	}
	return names, nil
}

// store writes one blob unless containerd has it.
func (i *Importer) store(ctx context.Context, b blob) error {
	labels := map[string]string{}
	for n, child := range b.children {
		labels["containerd.io/gc.ref.content."+strconv.Itoa(n)] = child.String()
	}
	info, err := i.content.Info(ctx, &contentapi.InfoRequest{Digest: b.Digest.String()})
	if err == nil && info.GetInfo().GetSize() == b.Size {
		return nil
	}
	r, err := b.open()
	if err != nil {
		return err
	}
	stream, err := i.content.Write(ctx)
	if err != nil {
		return err
	}
	defer stream.CloseSend()
	ref := "howdah-import-" + b.Digest.String()
	buffer := make([]byte, chunk)
	var offset int64
	for {
		n, err := io.ReadFull(r, buffer)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		request := &contentapi.WriteContentRequest{
			Action: contentapi.WriteAction_WRITE, Ref: ref, Total: b.Size, Expected: b.Digest.String(), Offset: offset, Data: buffer[:n],
		}
		if last {
			request.Action, request.Labels = contentapi.WriteAction_COMMIT, labels
		}
		if err := stream.Send(request); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := stream.Recv(); err != nil {
			if status.Code(err) == codes.AlreadyExists || strings.Contains(err.Error(), "already exists") {
				return nil
			}
			return err
		}
		offset += int64(n)
		if last {
			return nil
		}
	}
}

// pinned is CRI's label of images that are not to be removed: what came from a file may be in no registry.
const pinned = "io.cri-containerd.pinned"

// name points an image's name at its manifest. Of CRI's labels it bears that one alone: CRI gives the others to what is new to it, and with them the
// image's ID as a second name, by which it finds the images of volumes.
func (i *Importer) name(ctx context.Context, name string, target descriptor) error {
	image := &imagesapi.Image{
		Name:   name,
		Labels: map[string]string{pinned: "pinned"},
		Target: &containerdtypes.Descriptor{MediaType: target.MediaType, Digest: target.Digest.String(), Size: target.Size},
	}
	old, err := i.images.Get(ctx, &imagesapi.GetImageRequest{Name: name})
	switch {
	case status.Code(err) == codes.NotFound:
		_, err = i.images.Create(ctx, &imagesapi.CreateImageRequest{Image: image})
		return err
	case err != nil:
		return err
	case old.GetImage().GetTarget().GetDigest() == target.Digest.String():
		if old.GetImage().GetLabels()[pinned] != "" {
			return nil
		}
		_, err = i.images.Update(ctx, &imagesapi.UpdateImageRequest{Image: image, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels." + pinned}}})
		return err
	}
	_, err = i.images.Update(ctx, &imagesapi.UpdateImageRequest{Image: image})
	return err
}
