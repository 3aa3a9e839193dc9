package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// plain is an image whose layers are not compressed. The archive has them so, and to compress hundreds of megabytes would take longer than the tests that
// ask for them.
type plain struct {
	config, manifest []byte
	layers           map[v1.Hash]plainLayer
}

// uncompressed returns an image with the same configuration, and so the same ID, and plain layers.
func uncompressed(image v1.Image) (v1.Image, error) {
	config, err := image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	digest, size, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	p := &plain{config: config, layers: map[v1.Hash]plainLayer{}}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.DockerManifestSchema2, Config: v1.Descriptor{MediaType: types.DockerConfigJSON, Size: size, Digest: digest}}
	for _, layer := range layers {
		l, err := newPlainLayer(layer)
		if err != nil {
			return nil, err
		}
		p.layers[l.digest] = l
		m.Layers = append(m.Layers, v1.Descriptor{MediaType: types.DockerUncompressedLayer, Size: l.size, Digest: l.digest})
	}
	if p.manifest, err = json.Marshal(m); err != nil {
		return nil, err
	}
	return partial.CompressedToImage(p)
}

func (p *plain) RawConfigFile() ([]byte, error)      { return p.config, nil }
func (p *plain) RawManifest() ([]byte, error)        { return p.manifest, nil }
func (p *plain) MediaType() (types.MediaType, error) { return types.DockerManifestSchema2, nil }
func (p *plain) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	layer, ok := p.layers[h]
	if !ok {
		return nil, fmt.Errorf("the image has no layer %s", h)
	}
	return layer, nil
}

// plainLayer is a layer as it lies in the archive.
type plainLayer struct {
	layer  v1.Layer
	digest v1.Hash
	size   int64
}

func newPlainLayer(layer v1.Layer) (plainLayer, error) {
	digest, err := layer.DiffID()
	if err != nil {
		return plainLayer{}, err
	}
	content, err := layer.Uncompressed()
	if err != nil {
		return plainLayer{}, err
	}
	defer content.Close()
	size, err := io.Copy(io.Discard, content)
	return plainLayer{layer, digest, size}, err
}

func (l plainLayer) Digest() (v1.Hash, error)            { return l.digest, nil }
func (l plainLayer) Compressed() (io.ReadCloser, error)  { return l.layer.Uncompressed() }
func (l plainLayer) Size() (int64, error)                { return l.size, nil }
func (l plainLayer) MediaType() (types.MediaType, error) { return types.DockerUncompressedLayer, nil }
