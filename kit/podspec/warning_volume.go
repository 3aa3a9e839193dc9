package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (w *warner) volumes(list []corev1.Volume, path *field.Path) {
	for i := range list {
		v, at := &list[i], path.Index(i)
		for _, old := range []deprecated{
			{"photonPersistentDisk", v.PhotonPersistentDisk != nil, "deprecated in v1.11, non-functional in v1.16+"},
			{"gitRepo", v.GitRepo != nil, "deprecated in v1.11, and disabled by default in v1.33+"},
			{"scaleIO", v.ScaleIO != nil, "deprecated in v1.16, non-functional in v1.22+"},
			{"flocker", v.Flocker != nil, "deprecated in v1.22, non-functional in v1.25+"},
			{"storageOS", v.StorageOS != nil, "deprecated in v1.22, non-functional in v1.25+"},
			{"quobyte", v.Quobyte != nil, "deprecated in v1.22, non-functional in v1.25+"},
			{"glusterfs", v.Glusterfs != nil, "deprecated in v1.25, non-functional in v1.26+"},
			{"cephfs", v.CephFS != nil, "deprecated in v1.28, non-functional in v1.31+"},
			{"rbd", v.RBD != nil, "deprecated in v1.28, non-functional in v1.31+"},
		} {
			w.old(old, at)
		}
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			w.out = append(w.out, ClaimWarnings(&v.Ephemeral.VolumeClaimTemplate.Spec, at.Child("ephemeral", "volumeClaimTemplate", "spec"))...)
		}
	}
	for i := range list {
		w.overlaps(&list[i])
	}
}

// ClaimWarnings tells of sizes that are no whole number of bytes.
func ClaimWarnings(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) []string {
	w := &warner{}
	if q, ok := spec.Resources.Requests[corev1.ResourceStorage]; ok && fractional(q) {
		w.say(path.Child("resources", "requests").Key(string(corev1.ResourceStorage)), fraction, q.String())
	}
	if q, ok := spec.Resources.Limits[corev1.ResourceStorage]; ok && fractional(q) {
		w.say(path.Child("resources", "limits").Key(string(corev1.ResourceStorage)), fraction, q.String())
	}
	return w.out
}

// source is a file of a volume, and what it comes from if that is to be told.
type source struct{ path, from string }

func (s source) String() string {
	if s.from == "" {
		return fmt.Sprintf("%q", s.path)
	}
	return fmt.Sprintf("%q (%s)", s.path, s.from)
}

// overlaps tells of files that hide one another.
func (w *warner) overlaps(v *corev1.Volume) {
	var files []source
	what := ""
	switch {
	case v.Secret != nil:
		what, files = fmt.Sprintf("Secret %q", v.Secret.SecretName), paths(v.Secret.Items, "")
	case v.ConfigMap != nil:
		what, files = fmt.Sprintf("ConfigMap %q", v.ConfigMap.Name), paths(v.ConfigMap.Items, "")
	case v.DownwardAPI != nil:
		what, files = "DownwardAPI", downward(v.DownwardAPI.Items, "")
	case v.Projected != nil:
		what = "Projected"
		for _, s := range v.Projected.Sources {
			switch {
			case s.Secret != nil:
				files = append(files, paths(s.Secret.Items, fmt.Sprintf("Secret %q", s.Secret.Name))...)
			case s.ConfigMap != nil:
				files = append(files, paths(s.ConfigMap.Items, fmt.Sprintf("ConfigMap %q", s.ConfigMap.Name))...)
			case s.DownwardAPI != nil:
				files = append(files, downward(s.DownwardAPI.Items, "DownwardAPI")...)
			case s.ServiceAccountToken != nil:
				files = append(files, source{s.ServiceAccountToken.Path, "ServiceAccountToken"})
			case s.ClusterTrustBundle != nil:
				files = append(files, source{s.ClusterTrustBundle.Path, fmt.Sprintf("ClusterTrustBundle %q", trustBundleName(s.ClusterTrustBundle))})
			case s.PodCertificate != nil:
				files = append(files, certificateFiles(s.PodCertificate)...)
			default:
				files = append(files, source{})
			}
		}
	}
	for i, f := range files {
		if f == (source{}) && v.Projected != nil {
			w.out = append(w.out, fmt.Sprintf("volume %q (Projected) has no sources provided", v.Name))
			continue
		}
		for _, o := range files[:i] {
			if f.path == o.path || strings.HasPrefix(f.path, o.path+"/") || o.path != "" && strings.HasPrefix(o.path, f.path+"/") {
				w.out = append(w.out, fmt.Sprintf("volume %q (%s): overlapping paths: %s with %s", v.Name, what, f, o))
			}
		}
	}
}

func certificateFiles(c *corev1.PodCertificateProjection) []source {
	var out []source
	for _, f := range []source{
		{c.CredentialBundlePath, "PodCertificate credential bundle"}, {c.CertificateChainPath, "PodCertificate chain"}, {c.KeyPath, "PodCertificate key"},
	} {
		if f.path != "" {
			out = append(out, f)
		}
	}
	return out
}

func paths(items []corev1.KeyToPath, from string) []source {
	var out []source
	for _, item := range items {
		out = append(out, source{item.Path, from})
	}
	return out
}

func downward(items []corev1.DownwardAPIVolumeFile, from string) []source {
	var out []source
	for _, item := range items {
		out = append(out, source{item.Path, from})
	}
	return out
}

// deprecated is a source that is not used any more.
type deprecated struct {
	name string
	set  bool
	text string
}

func (w *warner) old(d deprecated, path *field.Path) {
	if d.set {
		w.say(path.Child(d.name), "%s", d.text)
	}
}

// PersistentVolumeWarnings is what to tell the client about a volume that is valid.
func PersistentVolumeWarnings(meta *metav1.ObjectMeta, v *corev1.PersistentVolumeSpec) []string {
	w, path := &warner{}, field.NewPath("spec")
	if _, ok := meta.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		w.say(field.NewPath("metadata", "annotations").Key(corev1.BetaStorageClassAnnotation), `deprecated since v1.8; use "storageClassName" attribute instead`)
	}
	if _, ok := meta.Annotations[corev1.MountOptionAnnotation]; ok {
		w.say(field.NewPath("metadata", "annotations").Key(corev1.MountOptionAnnotation), `deprecated since v1.31; use "mountOptions" attribute instead`)
	}
	if v.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		w.say(path.Child("persistentVolumeReclaimPolicy"), "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.")
	}
	if v.NodeAffinity != nil && v.NodeAffinity.Required != nil {
		for i, t := range v.NodeAffinity.Required.NodeSelectorTerms {
			w.expressions(t.MatchExpressions, path.Child("nodeAffinity", "required", "nodeSelectorTerms").Index(i))
		}
	}
	for _, d := range []deprecated{
		{"cephfs", v.CephFS != nil, "deprecated in v1.28, non-functional in v1.31+"},
		{"photonPersistentDisk", v.PhotonPersistentDisk != nil, "deprecated in v1.11, non-functional in v1.16+"},
		{"rbd", v.RBD != nil, "deprecated in v1.28, non-functional in v1.31+"},
		{"scaleIO", v.ScaleIO != nil, "deprecated in v1.16, non-functional in v1.22+"},
		{"storageOS", v.StorageOS != nil, "deprecated in v1.22, non-functional in v1.25+"},
		{"glusterfs", v.Glusterfs != nil, "deprecated in v1.25, non-functional in v1.26+"},
		{"flocker", v.Flocker != nil, "deprecated in v1.22, non-functional in v1.25+"},
		{"quobyte", v.Quobyte != nil, "deprecated in v1.22, non-functional in v1.25+"},
	} {
		w.old(d, path)
	}
	return w.out
}
