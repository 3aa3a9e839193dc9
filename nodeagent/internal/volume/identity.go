package volume

import (
	"cmp"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"os"
	"slices"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/podcert"
)

// longestSelector is how long, in bytes, a selector of trust bundles may be.
const longestSelector = 100 << 10

// Certificates gets keys and certificates for pods.
type Certificates interface {
	// Bundle returns those of a source of a pod's volume, by its place among the volume's sources. It asks for what is not there or is due.
	Bundle(ctx context.Context, pod *corev1.Pod, volume string, index int, want *corev1.PodCertificateProjection) (podcert.Bundle, error)
	// Forget drops what there is of a pod.
	Forget(pod types.UID)
}

// at is the place of a source: a volume, and the index among its sources.
type at struct {
	volume string
	index  int
}

// certificateFiles are the files of a key and its certificates, in one and in two as the source wants.
func (m *Manager) certificateFiles(ctx context.Context, pod *corev1.Pod, at at, source *corev1.PodCertificateProjection, fileMode os.FileMode) (Files, error) {
	b, err := m.cfg.Certificates.Bundle(ctx, pod, at.volume, at.index, source)
	if err != nil {
		return nil, err
	}
	files := Files{}
	for path, data := range map[string][]byte{
		source.CredentialBundlePath: slices.Concat(b.Key, b.Chain), source.KeyPath: b.Key, source.CertificateChainPath: b.Chain,
	} {
		if path != "" {
			files[path] = owned(pod, data, fileMode)
		}
	}
	return files, nil
}

// trustFile is the file of the certificates of authorities that a source selects.
func (m *Manager) trustFile(ctx context.Context, pod *corev1.Pod, source *corev1.ClusterTrustBundleProjection, fileMode os.FileMode) (Files, error) {
	bundles, err := m.trustBundles(ctx, source)
	if err != nil {
		return nil, err
	}
	return Files{source.Path: owned(pod, m.anchors(bundles), fileMode)}, nil
}

// trustBundles are those that a source selects. None is an error where the source is not optional.
func (m *Manager) trustBundles(ctx context.Context, source *corev1.ClusterTrustBundleProjection) ([]*certificatesv1beta1.ClusterTrustBundle, error) {
	switch {
	case source.Name != nil:
		b, err := m.cfg.Objects.TrustBundle(ctx, *source.Name)
		switch {
		case apierrors.IsNotFound(err) && is(source.Optional):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("while getting ClusterTrustBundle: %w", err)
		}
		return []*certificatesv1beta1.ClusterTrustBundle{b}, nil
	case source.SignerName == nil:
		return nil, errors.New("ClusterTrustBundle projection requires either name or signerName to be set")
	}
	selector, err := metav1.LabelSelectorAsSelector(source.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("while parsing label selector: %w", err)
	}
	if n := len(selector.String()); n > longestSelector {
		return nil, fmt.Errorf("label selector length (%d) is larger than %d", n, longestSelector)
	}
	var bundles []*certificatesv1beta1.ClusterTrustBundle
	if selector != labels.Nothing() { // as that of a source without a selector is
		if bundles, err = m.cfg.Objects.TrustBundles(ctx, *source.SignerName, selector.String()); err != nil {
			return nil, fmt.Errorf("while listing ClusterTrustBundles matching label selector %v: %w", source.LabelSelector, err)
		}
	}
	if len(bundles) == 0 && !is(source.Optional) {
		return nil, errors.New("combination of signerName and labelSelector matched zero ClusterTrustBundles")
	}
	return bundles, nil
}

// anchors are the certificates of bundles, each once, in PEM without anything else. Their order means nothing: it is the same while the agent runs, so
// that files are not written anew, and another after that, so that nobody relies on it.
func (m *Manager) anchors(bundles []*certificatesv1beta1.ClusterTrustBundle) []byte {
	found := map[string]uint64{}
	for _, b := range bundles {
		for rest := []byte(b.Spec.TrustBundle); ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			found[string(block.Bytes)] = maphash.Bytes(m.seed, block.Bytes)
		}
	}
	out := []byte{}
	for _, der := range slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		return cmp.Or(cmp.Compare(found[a], found[b]), cmp.Compare(a, b))
	}) {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)})...)
	}
	return out
}
