// Package credential asks credential provider plugins for logins to registries: programs of the node that are told an image and answer with what lets
// it be pulled, as Kubernetes defines it.
package credential

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kubeletv1 "k8s.io/kubelet/config/v1"
	providerv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
)

// Options say which plugins a node has; without any there are none.
type Options struct {
	// Config is a file with a CredentialProviderConfig of kubelet.config.k8s.io/v1, or a folder of such.
	Config string
	// BinDir is the folder of the plugins.
	BinDir string
}

// setting is what the options come to.
type setting struct {
	providers []kubeletv1.CredentialProvider
	hash      string // of the files
}

// newCodecs returns what reads the configuration and answers; it takes no field that it does not know.
func newCodecs() (runtime.Decoder, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(kubeletv1.AddToScheme(scheme), providerv1.AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer(), err
}

// read reads and checks the configuration and reports all problems at once.
func (o Options) read(codecs runtime.Decoder) (setting, error) {
	switch {
	case o == Options{}:
		return setting{}, nil
	case o.Config == "" || o.BinDir == "":
		return setting{}, errors.New("credential providers: the configuration and the folder of the plugins belong together")
	}
	files, err := o.files()
	if err != nil {
		return setting{}, fmt.Errorf("credential providers: %w", err)
	}
	var s setting
	var problems []error
	sum := sha256.New()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data))))
		sum.Write(data)
		object, kind, err := codecs.Decode(data, nil, nil)
		config, ok := object.(*kubeletv1.CredentialProviderConfig)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: %w", file, err))
		case !ok:
			problems = append(problems, fmt.Errorf("%s: it is a %s, not a CredentialProviderConfig", file, kind.Kind))
		default:
			s.providers = append(s.providers, config.Providers...)
		}
	}
	s.hash = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	if len(problems) == 0 && len(s.providers) == 0 {
		problems = append(problems, fmt.Errorf("%s has none", o.Config))
	}
	seen := map[string]bool{}
	for i, p := range s.providers {
		for _, problem := range o.check(p) {
			problems = append(problems, fmt.Errorf("provider %d, %q: %w", i+1, p.Name, problem))
		}
		if seen[p.Name] {
			problems = append(problems, fmt.Errorf("provider %d, %q: another one has this name", i+1, p.Name))
		}
		seen[p.Name] = true
	}
	if err := errors.Join(problems...); err != nil {
		return setting{}, fmt.Errorf("credential providers: %w", err)
	}
	return s, nil
}

// Check reports all that is wrong about the options and what they name.
func (o Options) Check() error {
	codecs, err := newCodecs()
	if err != nil {
		return err
	}
	_, err = o.read(codecs)
	return err
}

// files are those of the configuration, in order.
func (o Options) files() ([]string, error) {
	info, err := os.Stat(o.Config)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{o.Config}, nil
	}
	entries, err := os.ReadDir(o.Config)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries { // sorted by name
		if !e.IsDir() && slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(e.Name())) {
			out = append(out, filepath.Join(o.Config, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no file *.json, *.yaml or *.yml", o.Config)
	}
	return out, nil
}

// check reports what is wrong about a provider.
func (o Options) check(p kubeletv1.CredentialProvider) []error {
	var problems []error
	if p.Name == "" || p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/ ") {
		problems = append(problems, errors.New("it is not the name of a program: not empty, . or .., without slashes and spaces"))
	} else if _, err := exec.LookPath(filepath.Join(o.BinDir, p.Name)); err != nil {
		problems = append(problems, err)
	}
	if version := providerv1.SchemeGroupVersion.String(); p.APIVersion != version {
		problems = append(problems, fmt.Errorf("apiVersion: %q is not %s", p.APIVersion, version))
	}
	if len(p.MatchImages) == 0 {
		problems = append(problems, errors.New("matchImages: at least one is needed"))
	}
	for _, text := range p.MatchImages {
		if _, err := parsePattern(text); err != nil {
			problems = append(problems, fmt.Errorf("matchImages: %q: %w", text, err))
		}
	}
	if p.DefaultCacheDuration == nil || p.DefaultCacheDuration.Duration < 0 {
		problems = append(problems, errors.New("defaultCacheDuration: it is needed, and is 0 or more"))
	}
	for _, v := range p.Env {
		if v.Name == "" || strings.ContainsAny(v.Name, "=\x00") || strings.Contains(v.Value, "\x00") {
			problems = append(problems, fmt.Errorf("env: %q cannot be set", v.Name)) // its value may be a secret
		}
	}
	if p.TokenAttributes != nil {
		problems = append(problems, errors.New("tokenAttributes: howdah gives plugins no tokens of pods' service accounts"))
	}
	return problems
}
