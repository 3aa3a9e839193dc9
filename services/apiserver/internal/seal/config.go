package seal

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/utils/clock"
)

// Load reads the EncryptionConfiguration in a file and builds what it describes. It connects to nothing. No error tells a secret.
func Load(path string, clock clock.WithTicker, metrics *Metrics) (*Set, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("error while parsing file: error while loading file: %w", err)
	}
	set, err := Parse(data, clock, metrics)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, path)
	}
	return set, nil
}

// Parse is Load for a file's content, YAML or JSON of apiserver.config.k8s.io/v1.
func Parse(data []byte, clock clock.WithTicker, metrics *Metrics) (*Set, error) {
	if len(data) == 0 {
		return nil, errors.New("error while parsing file: error while loading file: encryption provider configuration file is empty")
	}
	cfg, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("error while parsing file: error decoding encryption provider configuration file: %w", err)
	}
	if errs := validation.ValidateEncryptionConfiguration(cfg, true); len(errs) > 0 {
		return nil, fmt.Errorf("error while parsing file: %w", errs.ToAggregate())
	}
	set := &Set{metrics: metrics}
	var earlier rules
	for i, rc := range cfg.Resources {
		r := &rule{}
		for _, name := range rc.Resources {
			r.resources = append(r.resources, resourceOf(name))
			if err := earlier.masks(name); err != nil {
				set.Close()
				return nil, err
			}
		}
		earlier = append(earlier, rc.Resources...)
		for j, pc := range rc.Providers {
			made, err := set.build(pc, clock)
			if err != nil {
				set.Close()
				return nil, fmt.Errorf("resources[%d].providers[%d]: %w", i, j, err)
			}
			r.providers = append(r.providers, made...)
		}
		set.rules = append(set.rules, r)
	}
	return set, nil
}

func decode(data []byte) (*apiserver.EncryptionConfiguration, error) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	obj, gvk, err := codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("%s", withoutValues(err))
	}
	cfg, ok := obj.(*apiserver.EncryptionConfiguration)
	if !ok {
		return nil, fmt.Errorf("got unexpected config type: %v", gvk)
	}
	return cfg, nil
}

// withoutValues cuts an error of a decoder before it quotes its input.
func withoutValues(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", error found in")
	return text
}

// resourceOf reads "secrets", "pandas.bears.example", "*.", "*.apps" and "*.*".
func resourceOf(name string) schema.GroupResource { return schema.ParseGroupResource(name) }

// rules are the names of resources in earlier entries.
type rules []string

// masks fails where an earlier entry holds for the resource already, so that this one never would.
func (all rules) masks(name string) error {
	resource := resourceOf(name)
	for _, rule := range all {
		by := resourceOf(rule)
		if by.Group == "*" || by.Group == resource.Group && (by.Resource == "*" || by.Resource == resource.Resource) {
			return fmt.Errorf("resource %q is masked by earlier rule %q", name, rule)
		}
	}
	return nil
}

// build makes the providers of one entry: one a key.
func (s *Set) build(pc apiserver.ProviderConfiguration, clock clock.WithTicker) ([]provider, error) {
	switch {
	case pc.AESGCM != nil:
		return keys(pc.AESGCM.Keys, "aesgcm", func(secret []byte) (local, error) { return derived{secret}, nil })
	case pc.AESCBC != nil:
		return keys(pc.AESCBC.Keys, "aescbc", func(secret []byte) (local, error) { return newCBC(secret) })
	case pc.Secretbox != nil:
		return keys(pc.Secretbox.Keys, "secretbox", func(secret []byte) (local, error) { return box{[32]byte(secret)}, nil })
	case pc.Identity != nil:
		return []provider{identity{}}, nil
	case pc.KMS != nil && pc.KMS.APIVersion != "v2":
		return nil, fmt.Errorf("kms %q: KMS %s is not supported, use apiVersion: v2", pc.KMS.Name, pc.KMS.APIVersion)
	case pc.KMS != nil:
		k, err := newKMS(pc.KMS.Name, pc.KMS.Endpoint, pc.KMS.Timeout.Duration, clock, s.metrics)
		if err != nil {
			return nil, err
		}
		s.kms = append(s.kms, k)
		return []provider{k}, nil
	}
	return nil, fmt.Errorf("provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity")
}

func keys(list []apiserver.Key, algorithm string, build func(secret []byte) (local, error)) ([]provider, error) {
	var out []provider
	for _, key := range list {
		secret, err := base64.StdEncoding.DecodeString(key.Secret)
		if err != nil {
			return nil, fmt.Errorf("key %q: its secret is not base64", key.Name)
		}
		made, err := build(secret)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", key.Name, err)
		}
		out = append(out, keyed{made, marker + algorithm + ":v1:" + key.Name + ":"})
	}
	return out, nil
}
