package plugin

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// configuration is an AdmissionConfiguration of apiserver.config.k8s.io/v1.
type configuration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Plugins    []struct {
		Name          string          `json:"name"`
		Path          string          `json:"path"`
		Configuration json.RawMessage `json:"configuration"`
	} `json:"plugins"`
}

// ReadConfig reads an AdmissionConfiguration and the files that it names, relative to its own folder, and returns the
// configurations by plugin. An empty path is none.
func ReadConfig(path string) (map[string][]byte, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("admission configuration: %w", err)
	}
	parsed, err := parseConfig(data, func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(path), name)
		}
		return os.ReadFile(name)
	})
	if err != nil {
		return nil, fmt.Errorf("admission configuration %s: %w", path, err)
	}
	return parsed, nil
}

func parseConfig(data []byte, read func(name string) ([]byte, error)) (map[string][]byte, error) {
	var c configuration
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, err
	}
	switch c.APIVersion {
	case "apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1alpha1", "apiserver.k8s.io/v1alpha1": // the last is how it began
	default:
		return nil, fmt.Errorf("apiVersion %q is not apiserver.config.k8s.io/v1", c.APIVersion)
	}
	if c.Kind != "AdmissionConfiguration" {
		return nil, fmt.Errorf("kind %q is not AdmissionConfiguration", c.Kind)
	}
	out := map[string][]byte{}
	for n, p := range c.Plugins {
		switch {
		case p.Name == "":
			return nil, fmt.Errorf("plugins[%d] has no name", n)
		case out[p.Name] != nil:
			return nil, fmt.Errorf("plugin %s is configured twice", p.Name)
		case p.Path != "" && p.Configuration != nil:
			return nil, fmt.Errorf("plugin %s has both a path and a configuration", p.Name)
		case p.Configuration != nil:
			out[p.Name] = p.Configuration
		case p.Path != "":
			text, err := read(p.Path)
			if err != nil {
				return nil, fmt.Errorf("plugin %s: %w", p.Name, err)
			}
			out[p.Name] = text
		}
	}
	return out, nil
}

// decodeConfig reads a plugin's own configuration; unknown fields are refused. kind is checked, and apiVersion where any are
// given.
func decodeConfig(data []byte, into any, kind string, versions ...string) error {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(data, &head); err != nil {
		return err
	}
	if head.Kind != kind {
		return fmt.Errorf("kind %q is not %s", head.Kind, kind)
	}
	known := len(versions) == 0
	for _, v := range versions {
		known = known || v == head.APIVersion
	}
	if !known {
		return fmt.Errorf("apiVersion %q is not one of %v", head.APIVersion, versions)
	}
	return yaml.UnmarshalStrict(data, into)
}
