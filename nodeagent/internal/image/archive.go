package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"
)

// Media types of what archives hold.
const (
	typeIndex          = "application/vnd.oci.image.index.v1+json"
	typeManifestList   = "application/vnd.docker.distribution.manifest.list.v2+json"
	typeManifest       = "application/vnd.oci.image.manifest.v1+json"
	typeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	typeDockerConfig   = "application/vnd.docker.container.image.v1+json"
	typeDockerLayer    = "application/vnd.docker.image.rootfs.diff.tar"
	typeDockerLayerGz  = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// maxJSON bounds the documents that are read into memory.
const maxJSON = 16 << 20

// descriptor names a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      digest.Digest     `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// manifest is an image manifest or an index of them.
type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType,omitempty"`
	Config        *descriptor  `json:"config,omitempty"`
	Layers        []descriptor `json:"layers,omitempty"`
	Manifests     []descriptor `json:"manifests,omitempty"`
}

// archive is an opened image archive: where each of its files lies.
type archive struct {
	file  *os.File
	parts map[string]part
}

type part struct{ offset, size int64 }

// openArchive indexes a tar file, as "docker save" or an OCI layout.
func openArchive(name string) (*archive, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	a := &archive{file: file, parts: map[string]part{}}
	if err := a.index(); err != nil {
		return nil, errors.Join(fmt.Errorf("read archive: %w", err), file.Close())
	}
	return a, nil
}

func (a *archive) index() error {
	links := map[string]string{}
	reader := tar.NewReader(a.file) // it seeks over contents
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := path.Clean(header.Name)
		switch header.Typeflag {
		case tar.TypeReg:
			offset, err := a.file.Seek(0, io.SeekCurrent)
			if err != nil {
				return err
			}
			a.parts[name] = part{offset, header.Size}
		case tar.TypeSymlink:
			links[name] = path.Join(path.Dir(name), header.Linkname)
		case tar.TypeLink:
			links[name] = path.Clean(header.Linkname)
		}
	}
	for name, target := range links {
		if p, ok := a.parts[target]; ok {
			a.parts[name] = p
		}
	}
	return nil
}

func (a *archive) Close() error { return a.file.Close() }

func (a *archive) open(name string) (*io.SectionReader, error) {
	p, ok := a.parts[path.Clean(name)]
	if !ok {
		return nil, fmt.Errorf("the archive has no %s", name)
	}
	return io.NewSectionReader(a.file, p.offset, p.size), nil
}

func (a *archive) read(name string) ([]byte, error) {
	r, err := a.open(name)
	if err != nil {
		return nil, err
	}
	if r.Size() > maxJSON {
		return nil, fmt.Errorf("%s has %d bytes, more than a document may have", name, r.Size())
	}
	return io.ReadAll(r)
}

// blob is content to store: from the archive, or made here.
type blob struct {
	descriptor
	open     func() (io.Reader, error)
	children []digest.Digest
}

// named is an image: a name, and what it stands for.
type namedImage struct {
	name   string
	target descriptor
}

// content returns the archive's images and all blobs that they need, children
// before parents.
func (a *archive) content() ([]blob, []namedImage, error) {
	if _, ok := a.parts["manifest.json"]; ok {
		return a.docker()
	}
	if _, ok := a.parts["index.json"]; ok {
		return a.oci()
	}
	return nil, nil, errors.New("neither manifest.json nor index.json is in the archive")
}

func (a *archive) docker() ([]blob, []namedImage, error) {
	raw, err := a.read("manifest.json")
	if err != nil {
		return nil, nil, err
	}
	var entries []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, nil, fmt.Errorf("manifest.json: %w", err)
	}
	var blobs []blob
	var images []namedImage
	for _, entry := range entries {
		config, err := a.read(entry.Config)
		if err != nil {
			return nil, nil, err
		}
		var parsed struct {
			RootFS struct {
				DiffIDs []digest.Digest `json:"diff_ids"`
			} `json:"rootfs"`
		}
		if err := json.Unmarshal(config, &parsed); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", entry.Config, err)
		}
		if len(parsed.RootFS.DiffIDs) != len(entry.Layers) {
			return nil, nil, fmt.Errorf("%s names %d layers, the archive has %d", entry.Config, len(parsed.RootFS.DiffIDs), len(entry.Layers))
		}
		c := bytesBlob(typeDockerConfig, config)
		m := manifest{SchemaVersion: 2, MediaType: typeDockerManifest, Config: &c.descriptor}
		children := []digest.Digest{c.Digest}
		blobs = append(blobs, c)
		for i, layer := range entry.Layers {
			l, err := a.layer(layer, parsed.RootFS.DiffIDs[i])
			if err != nil {
				return nil, nil, err
			}
			blobs = append(blobs, l)
			m.Layers = append(m.Layers, l.descriptor)
			children = append(children, l.Digest)
		}
		encoded, err := json.Marshal(m)
		if err != nil {
			return nil, nil, err
		}
		top := bytesBlob(typeDockerManifest, encoded)
		top.children = children
		blobs = append(blobs, top)
		for _, tag := range entry.RepoTags {
			images = append(images, namedImage{tag, top.descriptor})
		}
	}
	return blobs, images, nil
}

// layer describes a layer; an uncompressed one has its digest in the image's
// configuration already.
func (a *archive) layer(name string, diffID digest.Digest) (blob, error) {
	r, err := a.open(name)
	if err != nil {
		return blob{}, err
	}
	head, err := bufio.NewReader(io.NewSectionReader(r, 0, 2)).Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return blob{}, err
	}
	d := descriptor{MediaType: typeDockerLayer, Digest: diffID, Size: r.Size()}
	if bytes.Equal(head, []byte{0x1f, 0x8b}) {
		h := sha256.New()
		if _, err := io.Copy(h, r); err != nil {
			return blob{}, err
		}
		d.MediaType, d.Digest = typeDockerLayerGz, digest.NewDigest(digest.SHA256, h)
	}
	return blob{descriptor: d, open: func() (io.Reader, error) { return a.open(name) }}, nil
}

func bytesBlob(mediaType string, data []byte) blob {
	return blob{
		descriptor: descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))},
		open:       func() (io.Reader, error) { return bytes.NewReader(data), nil },
	}
}

func (a *archive) oci() ([]blob, []namedImage, error) {
	raw, err := a.read("index.json")
	if err != nil {
		return nil, nil, err
	}
	var index manifest
	if err := json.Unmarshal(raw, &index); err != nil {
		return nil, nil, fmt.Errorf("index.json: %w", err)
	}
	var blobs []blob
	var images []namedImage
	for _, d := range index.Manifests {
		if err := a.walk(d, 0, &blobs); err != nil {
			return nil, nil, err
		}
		name := d.Annotations["io.containerd.image.name"]
		if name == "" {
			name = d.Annotations["org.opencontainers.image.ref.name"]
		}
		if name != "" {
			images = append(images, namedImage{name, descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size}})
		}
	}
	return blobs, images, nil
}

// walk appends a blob after its children. Children that the archive leaves
// out, as other platforms' images, are left out here too.
func (a *archive) walk(d descriptor, depth int, blobs *[]blob) error {
	if depth > 4 {
		return errors.New("indexes are nested too deeply")
	}
	algorithm, hex, _ := strings.Cut(string(d.Digest), ":")
	name := path.Join("blobs", algorithm, hex)
	if _, ok := a.parts[name]; !ok {
		if depth == 0 {
			return fmt.Errorf("the archive has no %s", name)
		}
		return nil
	}
	b := blob{descriptor: d, open: func() (io.Reader, error) { return a.open(name) }}
	switch d.MediaType {
	case typeIndex, typeManifestList, typeManifest, typeDockerManifest:
		raw, err := a.read(name)
		if err != nil {
			return err
		}
		var m manifest
		if err := json.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		children := append(m.Manifests, m.Layers...)
		if m.Config != nil {
			children = append(children, *m.Config)
		}
		for _, child := range children {
			if err := a.walk(child, depth+1, blobs); err != nil {
				return err
			}
			b.children = append(b.children, child.Digest)
		}
	}
	*blobs = append(*blobs, b)
	return nil
}
