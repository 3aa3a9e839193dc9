package volume

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"howdah.dev/nodeagent/internal/podcert"
)

// certificates has a bundle, or says why not, and notes what is asked.
type certificates struct {
	bundle    podcert.Bundle
	err       error
	asked     []at
	forgotten []types.UID
}

func (c *certificates) Bundle(_ context.Context, _ *corev1.Pod, volume string, index int, _ *corev1.PodCertificateProjection) (podcert.Bundle, error) {
	c.asked = append(c.asked, at{volume, index})
	return c.bundle, c.err
}

func (c *certificates) Forget(pod types.UID) { c.forgotten = append(c.forgotten, pod) }

func projection(sources ...corev1.VolumeProjection) corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](0o644), Sources: sources}}
}

// authority is a certificate in PEM as far as volumes look at it.
func authority(text string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(text)}))
}

func bundle(name, signer, label string, text ...string) *certificatesv1beta1.ClusterTrustBundle {
	b := &certificatesv1beta1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"l": label}}}
	b.Spec.SignerName, b.Spec.TrustBundle = signer, strings.Join(text, "")
	return b
}

// tooLong is a selector of many values.
func tooLong() *metav1.LabelSelector {
	var values []string
	for n := range 5000 {
		values = append(values, fmt.Sprintf("%020d", n))
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "l", Operator: metav1.LabelSelectorOpIn, Values: values}}}
}

// TestTrustBundles: pods have the certificates of one bundle, or of those that are selected, each once and with nothing between them.
func TestTrustBundles(t *testing.T) {
	t.Parallel()
	a, b, c := authority("a"), authority("b"), authority("c")
	for name, test := range map[string]struct {
		source corev1.ClusterTrustBundleProjection
		want   []string
		err    string
	}{
		"by name":          {source: corev1.ClusterTrustBundleProjection{Name: ptr.To("one")}, want: []string{a, b}},
		"not there":        {source: corev1.ClusterTrustBundleProjection{Name: ptr.To("two")}, err: `while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "two" not found`},
		"optional by name": {source: corev1.ClusterTrustBundleProjection{Name: ptr.To("two"), Optional: ptr.To(true)}},
		"by signer":        {source: corev1.ClusterTrustBundleProjection{SignerName: ptr.To("x.io/s"), LabelSelector: &metav1.LabelSelector{}}, want: []string{a, b, c}},
		"by label":         {source: corev1.ClusterTrustBundleProjection{SignerName: ptr.To("x.io/s"), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"l": "2"}}}, want: []string{b, c}},
		"no selector":      {source: corev1.ClusterTrustBundleProjection{SignerName: ptr.To("x.io/s"), Optional: ptr.To(true)}},
		"none selected": {
			source: corev1.ClusterTrustBundleProjection{SignerName: ptr.To("x.io/s")}, err: "combination of signerName and labelSelector matched zero ClusterTrustBundles",
		},
		"nothing said": {err: "ClusterTrustBundle projection requires either name or signerName to be set"},
		"selector too long": {
			source: corev1.ClusterTrustBundleProjection{SignerName: ptr.To("x.io/s"), LabelSelector: tooLong()},
			err:    "label selector length (105006) is larger than 102400",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, o, _ := setup(t)
			o.bundles = []*certificatesv1beta1.ClusterTrustBundle{
				bundle("one", "", "", "said before\n", a, "and between\n", b, a), bundle("x.io:s:1", "x.io/s", "1", a, b), bundle("x.io:s:2", "x.io/s", "2", c, b), bundle("y.io:s:1", "y.io/s", "2", a),
			}
			test.source.Path = "ca.pem"
			pod := podWith(projection(corev1.VolumeProjection{ClusterTrustBundle: &test.source}))
			made, err := m.Setup(t.Context(), pod, &corev1.PodStatus{})
			if test.err != "" {
				if want := `MountVolume.SetUp failed for volume "v" : ` + test.err; err == nil || err.Error() != want {
					t.Fatalf("error %v, want %s", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(made.Mounts["v"], "ca.pem")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.SplitAfter(string(data), "-----END CERTIFICATE-----\n")
			got = slices.Sorted(slices.Values(got[:len(got)-1]))
			if !slices.Equal(got, test.want) {
				t.Errorf("has %q, want %q", got, test.want)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
		})
	}
}

// TestOrderOfAuthorities is the same each time it is asked of a manager, and another with another.
func TestOrderOfAuthorities(t *testing.T) {
	t.Parallel()
	var all []string
	for _, text := range strings.Split("abcdefghijklmnopqrst", "") {
		all = append(all, authority(text))
	}
	forth := []*certificatesv1beta1.ClusterTrustBundle{bundle("one", "", "", all...)}
	slices.Reverse(all)
	back := []*certificatesv1beta1.ClusterTrustBundle{bundle("one", "", "", all...)}
	m, _, _ := setup(t)
	other, _, _ := setup(t)
	if string(m.anchors(forth)) != string(m.anchors(back)) {
		t.Error("the order depends on that of the bundle")
	}
	if string(m.anchors(forth)) == string(other.anchors(forth)) {
		t.Error("the order is the same in another life of the agent") // by chance once in 20!
	}
}

// TestCertificateFiles: a pod has its key and certificates in one file and in two, for its user alone; what it waits for is told, and what it has stays.
func TestCertificateFiles(t *testing.T) {
	t.Parallel()
	m, _, _ := setup(t)
	issuer := &certificates{err: errors.New("credential bundle is not issued yet")}
	m.cfg.Certificates = issuer
	pod := podWith(projection(
		corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{}},
		corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{CredentialBundlePath: "both.pem", KeyPath: "key.pem", CertificateChainPath: "chain.pem"}},
	))
	user := int64(os.Getuid())
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: &user}
	if _, err := m.Setup(t.Context(), pod, &corev1.PodStatus{}); err == nil || err.Error() != `MountVolume.SetUp failed for volume "v" : credential bundle is not issued yet` {
		t.Errorf("error %v", err)
	}
	issuer.bundle, issuer.err = podcert.Bundle{Key: []byte("K"), Chain: []byte("C")}, nil
	made, err := m.Setup(t.Context(), pod, &corev1.PodStatus{})
	if err != nil {
		t.Fatal(err)
	}
	const want = "both.pem=KC:600 chain.pem=C:600 key.pem=K:600"
	if got := tree(t, made.Mounts["v"]); got != want {
		t.Errorf("files %s, want %s", got, want)
	}
	if !slices.Equal(issuer.asked, []at{{"v", 1}, {"v", 1}}) {
		t.Errorf("asked for %v", issuer.asked)
	}
	issuer.err = errors.New("denied")
	if err := m.Refresh(t.Context(), pod, &corev1.PodStatus{}); err == nil || tree(t, made.Mounts["v"]) != want {
		t.Errorf("after a refusal, %v: %s", err, tree(t, made.Mounts["v"]))
	}
	if err := m.Cleanup(t.Context(), pod.UID); err != nil || !slices.Equal(issuer.forgotten, []types.UID{pod.UID}) {
		t.Errorf("forgotten %v, %v", issuer.forgotten, err)
	}
}
