package plugin

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// volumeLabelVersion and volumeLabelKind are those of the plugin's configuration, which is howdah's own.
const (
	volumeLabelVersion = "persistentvolumelabel.admission.howdah.dev/v1alpha1"
	volumeLabelKind    = "Configuration"
)

// volumePlace says where the disks of a cloud are whose ids it matches.
type volumePlace struct {
	source string
	id     *regexp.Regexp
	place
}

// NewPersistentVolumeLabel reads the plugin's configuration; without one, only volumes that say themselves where they are get labels.
func NewPersistentVolumeLabel(config []byte) (*PersistentVolumeLabel, error) {
	p := &PersistentVolumeLabel{}
	if config == nil {
		return p, nil
	}
	var c struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Volumes    []struct {
			// Source is the field of a volume's spec.
			Source string `json:"source"`
			// ID is the disk's name in its cloud; * stands for anything.
			ID     string `json:"id"`
			Zone   string `json:"zone"`
			Region string `json:"region"`
		} `json:"volumes"`
	}
	if err := yaml.UnmarshalStrict(config, &c); err != nil {
		return nil, err
	}
	if c.APIVersion != volumeLabelVersion || c.Kind != volumeLabelKind {
		return nil, fmt.Errorf("%s of %q is not %s of %s", c.Kind, c.APIVersion, volumeLabelKind, volumeLabelVersion)
	}
	var errs field.ErrorList
	for i, v := range c.Volumes {
		path := field.NewPath("volumes").Index(i)
		if !slices.ContainsFunc(clouds, func(known cloud) bool { return known.source == v.Source }) {
			errs = append(errs, field.NotSupported(path.Child("source"), v.Source, sourcesOfClouds()))
		}
		if v.ID == "" {
			errs = append(errs, field.Required(path.Child("id"), ""))
		}
		if v.Zone == "" && v.Region == "" {
			errs = append(errs, field.Required(path.Child("zone"), "or a region"))
		}
		errs = append(errs, labelValue(path.Child("region"), v.Region)...)
		errs = append(errs, labelValue(path.Child("zone"), v.Zone)...)
		if v.Zone != "" && slices.Contains(strings.Split(v.Zone, zoneSeparator), "") {
			errs = append(errs, field.Invalid(path.Child("zone"), v.Zone, "one of the zones has no name"))
		}
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(v.ID), `\*`, ".*") + "$"
		p.places = append(p.places, volumePlace{v.Source, regexp.MustCompile(pattern), place{v.Zone, v.Region}})
	}
	return p, errs.ToAggregate()
}

func sourcesOfClouds() (names []string) {
	for _, c := range clouds {
		names = append(names, c.source)
	}
	return names
}

func labelValue(path *field.Path, value string) (errs field.ErrorList) {
	for _, problem := range validation.IsValidLabelValue(value) {
		errs = append(errs, field.Invalid(path, value, problem))
	}
	return errs
}
