package imagepolicy

import (
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/yaml"
)

// Settings are how the webhook is asked.
type Settings struct {
	KubeConfigFile string
	// AllowTTL and DenyTTL are how long answers are remembered; 0 not at all.
	AllowTTL, DenyTTL time.Duration
	// RetryBackoff is the first pause before the webhook is asked again.
	RetryBackoff time.Duration
	// DefaultAllow lets pods pass where the webhook cannot be asked.
	DefaultAllow bool
}

// Read reads the configuration, YAML or JSON, in Kubernetes' form: TTLs are in seconds, the pause in milliseconds; 0 is the default,
// -1 switches remembering off.
func Read(data []byte) (Settings, error) {
	var c struct {
		ImagePolicy *struct {
			KubeConfigFile string `json:"kubeConfigFile"`
			AllowTTL       int64  `json:"allowTTL"`
			DenyTTL        int64  `json:"denyTTL"`
			RetryBackoff   int64  `json:"retryBackoff"`
			DefaultAllow   bool   `json:"defaultAllow"`
		} `json:"imagePolicy"`
	}
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return Settings{}, err
	}
	if c.ImagePolicy == nil || c.ImagePolicy.KubeConfigFile == "" {
		return Settings{}, errors.New("imagePolicy.kubeConfigFile: Required value")
	}
	s := Settings{KubeConfigFile: c.ImagePolicy.KubeConfigFile, DefaultAllow: c.ImagePolicy.DefaultAllow}
	var problems []error
	bounded := func(name string, value int64, unit, standard, least, most time.Duration) time.Duration {
		d := time.Duration(value) * unit
		switch {
		case value == 0:
			return standard
		case d < least || d > most:
			problems = append(problems, fmt.Errorf("valid value is between %v and %v, got %v: %s", least, most, d, name))
		}
		return d
	}
	s.RetryBackoff = bounded("retryBackoff", c.ImagePolicy.RetryBackoff, time.Millisecond, 500*time.Millisecond, time.Millisecond, 5*time.Minute)
	if c.ImagePolicy.AllowTTL != -1 {
		s.AllowTTL = bounded("allowTTL", c.ImagePolicy.AllowTTL, time.Second, 5*time.Minute, time.Second, 30*time.Minute)
	}
	if c.ImagePolicy.DenyTTL != -1 {
		s.DenyTTL = bounded("denyTTL", c.ImagePolicy.DenyTTL, time.Second, 30*time.Second, time.Second, 30*time.Minute)
	}
	return s, errors.Join(problems...)
}
