package volume

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPlaces says of each kind of volume where it is and how it is measured.
func TestPlaces(t *testing.T) {
	t.Parallel()
	ours := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}}
	folder := func(kind string) string { return filepath.Join("volumes", kind, "v") }
	for name, test := range map[string]struct {
		source  corev1.VolumeSource
		behind  corev1.PersistentVolumeSource
		none    bool
		scratch bool
		folder  string
		disk    string
		claim   string
		driver  string // the volume that is asked for
	}{
		"emptyDir":      {source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, scratch: true, folder: folder("kubernetes.io~empty-dir")},
		"memory":        {source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}, folder: folder("kubernetes.io~empty-dir")},
		"config map":    {source: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}, scratch: true, folder: folder("kubernetes.io~configmap")},
		"secret":        {source: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}, folder: folder("kubernetes.io~secret")},
		"projected":     {source: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}, folder: folder("kubernetes.io~projected")},
		"downward API":  {source: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}, folder: folder("kubernetes.io~downward-api")},
		"node's folder": {source: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}, none: true},
		"image":         {source: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{}}, none: true},
		"inline":        {source: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}, driver: "v"},
		"driver's":      {source: claimed(false), behind: ours, claim: "c", driver: "pv"},
		"local":         {source: claimed(false), behind: local("/disk"), claim: "c", disk: filepath.Join("volumes", localKind, "pv")},
		"claimed folder of the node": {source: claimed(false), none: true,
			behind: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}},
		"unknown claim": {source: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "other"}}, none: true},
	} {
		m, _, _ := setupClaim(t, boundClaim("pv"), volumeOf("pv", test.behind))
		p := podWith(test.source)
		places := m.Places(t.Context(), p)
		if test.none {
			if len(places) != 0 {
				t.Errorf("%s: %+v", name, places)
			}
			continue
		}
		if len(places) != 1 {
			t.Errorf("%s: %d places", name, len(places))
			continue
		}
		got := places[0]
		under := func(path string) string {
			if path == "" {
				return ""
			}
			return filepath.Join(m.cfg.RootDir, "pods", string(p.UID), path)
		}
		if got.Name != "v" || got.Scratch != test.scratch || got.Claim != test.claim || got.Folder != under(test.folder) || got.Disk != under(test.disk) {
			t.Errorf("%s: %+v", name, got)
		}
		if asked := got.Driver != nil; asked != (test.driver != "") || asked && got.Driver.Name != test.driver {
			t.Errorf("%s: the driver is asked for %+v", name, got.Driver)
		}
	}
}
