package plugin

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/admission"
)

const (
	// provisionedBy marks volumes that a provisioner has made, whose labels are trusted.
	provisionedBy = "pv.kubernetes.io/provisioned-by"
	// toBeProvisioned is what Kubernetes' provisioners write for the disk of a volume that is still being made.
	toBeProvisioned = "placeholder-for-provisioning"
	// zoneSeparator stands between the zones of a disk that is in several.
	zoneSeparator = "__"
)

// PersistentVolumeLabel gives new volumes of clouds the labels of their zone and region, and keeps them to nodes that are there.
// Kubernetes removed it in 1.31, and asked the clouds that were built in. Here, what its configuration, the volume's id or a
// provisioner says is believed; a disk that none of them tells about is refused, as Kubernetes refused it where it knew no cloud.
type PersistentVolumeLabel struct{ places []volumePlace }

// cloud is a kind of volume that the plugin knows.
type cloud struct {
	// source is the field of a volume's spec.
	source string
	// id returns the disk's name there, and whether the volume is of this kind.
	id func(*corev1.PersistentVolumeSource) (string, bool)
	// asks and fails are the words in which a disk is refused whose place nobody knows.
	asks, fails string
	// waits says that a disk that is still being made is left alone.
	waits bool
	// tells returns the place that an id names itself; may be nil.
	tells func(id string) (place, bool)
}

// place is where a disk is.
type place struct{ zone, region string }

var clouds = []cloud{
	{
		source: "awsElasticBlockStore", asks: "AWS EBS volume", fails: "unable to build AWS cloud provider for EBS", waits: true, tells: zoneOfEBS,
		id: func(s *corev1.PersistentVolumeSource) (string, bool) {
			return idOf(s.AWSElasticBlockStore, func(v *corev1.AWSElasticBlockStoreVolumeSource) string { return v.VolumeID })
		},
	}, {
		source: "gcePersistentDisk", asks: "GCE PD volume", fails: "unable to build GCE cloud provider for PD", waits: true,
		id: func(s *corev1.PersistentVolumeSource) (string, bool) {
			return idOf(s.GCEPersistentDisk, func(v *corev1.GCEPersistentDiskVolumeSource) string { return v.PDName })
		},
	}, {
		source: "cinder", asks: "Cinder volume", fails: "unable to build OpenStack cloud provider for Cinder disk", waits: true,
		id: func(s *corev1.PersistentVolumeSource) (string, bool) {
			return idOf(s.Cinder, func(v *corev1.CinderPersistentVolumeSource) string { return v.VolumeID })
		},
	}, {
		source: "azureDisk", asks: "AzureDisk volume", fails: "unable to build Azure cloud provider for AzureDisk", waits: true,
		id: func(s *corev1.PersistentVolumeSource) (string, bool) {
			return idOf(s.AzureDisk, func(v *corev1.AzureDiskVolumeSource) string { return v.DiskName })
		},
	}, {
		source: "vsphereVolume", asks: "vSphere Volume", fails: "unable to build vSphere cloud provider",
		id: func(s *corev1.PersistentVolumeSource) (string, bool) {
			return idOf(s.VsphereVolume, func(v *corev1.VsphereVirtualDiskVolumeSource) string { return v.VolumePath })
		},
	},
}

func idOf[T any](source *T, id func(*T) string) (string, bool) {
	if source == nil {
		return "", false
	}
	return id(source), true
}

// ebsID is an EBS volume's id that names its zone, in the region that the zone's name begins with.
var ebsID = regexp.MustCompile(`^aws://(([a-z]+-)+[0-9]+)([a-z])/`)

func zoneOfEBS(id string) (place, bool) {
	parts := ebsID.FindStringSubmatch(id)
	if parts == nil {
		return place{}, false
	}
	return place{zone: parts[1] + parts[3], region: parts[1]}, true
}

// Name implements admission.Plugin.
func (*PersistentVolumeLabel) Name() string { return "PersistentVolumeLabel" }

// Handles implements admission.Plugin.
func (*PersistentVolumeLabel) Handles(a *admission.Attributes) bool {
	return a.Operation == admission.Create && a.Subresource == "" && a.Is("", "persistentvolumes")
}

// Admit implements admission.Mutator.
func (p *PersistentVolumeLabel) Admit(_ context.Context, a *admission.Attributes) error {
	volume, ok := a.Object.(*corev1.PersistentVolume)
	if !ok {
		return nil
	}
	labels, err := p.labels(volume)
	if err != nil {
		return a.Forbidden(err)
	}
	if len(labels) == 0 {
		return nil
	}
	if volume.Labels == nil {
		volume.Labels = map[string]string{}
	}
	var required []corev1.NodeSelectorRequirement
	for _, l := range labels {
		volume.Labels[l.key] = l.value
		if l.binds {
			values := strings.Split(l.value, zoneSeparator)
			slices.Sort(values)
			required = append(required, corev1.NodeSelectorRequirement{Key: l.key, Operator: corev1.NodeSelectorOpIn, Values: values})
		}
	}
	keepTo(volume, required)
	return nil
}

// label is one that a volume gets; binds says that it is also required of the volume's nodes.
type label struct {
	key, value string
	binds      bool
}

// labels are those that the volume gets; none where it is of no cloud, or still being made.
func (p *PersistentVolumeLabel) labels(volume *corev1.PersistentVolume) ([]label, error) {
	if _, made := volume.Annotations[provisionedBy]; made {
		for _, keys := range [][2]string{
			{corev1.LabelTopologyZone, corev1.LabelTopologyRegion}, {corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion},
		} {
			zone, zoned := volume.Labels[keys[0]]
			region, regional := volume.Labels[keys[1]]
			if zoned && regional {
				return []label{{keys[1], region, true}, {keys[0], zone, true}}, nil
			}
		}
	}
	for _, c := range clouds {
		id, is := c.id(&volume.Spec.PersistentVolumeSource)
		if !is {
			continue
		}
		if c.waits && id == toBeProvisioned {
			return nil, nil
		}
		found, known := p.place(c, id)
		if !known {
			return nil, fmt.Errorf("error querying %s %s: %s", c.asks, id, c.fails)
		}
		return found.labels(), nil
	}
	return nil, nil
}

// place returns where a disk is: the first that the configuration says of it, or else what its id says.
func (p *PersistentVolumeLabel) place(c cloud, id string) (place, bool) {
	for _, one := range p.places {
		if one.source == c.source && one.id.MatchString(id) {
			return one.place, true
		}
	}
	if c.tells == nil {
		return place{}, false
	}
	return c.tells(id)
}

// labels are those of today, which nodes are chosen by, and those of before 1.17, which are there to be read.
func (p place) labels() (out []label) {
	if p.region != "" {
		out = append(out, label{corev1.LabelTopologyRegion, p.region, true}, label{corev1.LabelFailureDomainBetaRegion, p.region, false})
	}
	if p.zone != "" {
		out = append(out, label{corev1.LabelTopologyZone, p.zone, true}, label{corev1.LabelFailureDomainBetaZone, p.zone, false})
	}
	return out
}

// keepTo adds to each of the volume's node selector terms what is required, unless one of them speaks of the same labels already.
func keepTo(volume *corev1.PersistentVolume, required []corev1.NodeSelectorRequirement) {
	if volume.Spec.NodeAffinity == nil {
		volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{}
	}
	if volume.Spec.NodeAffinity.Required == nil {
		volume.Spec.NodeAffinity.Required = &corev1.NodeSelector{}
	}
	selector := volume.Spec.NodeAffinity.Required
	if len(selector.NodeSelectorTerms) == 0 {
		selector.NodeSelectorTerms = []corev1.NodeSelectorTerm{{}}
	}
	for _, term := range selector.NodeSelectorTerms {
		for _, said := range term.MatchExpressions {
			if slices.ContainsFunc(required, func(r corev1.NodeSelectorRequirement) bool { return r.Key == said.Key }) {
				return
			}
		}
	}
	for i := range selector.NodeSelectorTerms {
		term := &selector.NodeSelectorTerms[i]
		term.MatchExpressions = append(term.MatchExpressions, required...)
	}
}
