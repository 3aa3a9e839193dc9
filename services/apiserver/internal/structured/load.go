// Package structured reads the files that configure authentication and authorization, and follows their changes. What may stand
// in them, and what is said of what may not, are Kubernetes' own.
package structured

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
)

// Authentication reads an AuthenticationConfiguration. issuers are the cluster's own, which no other may claim to be.
func Authentication(path string, compiler authenticationcel.Compiler, issuers []string) (*apiserver.AuthenticationConfiguration, error) {
	data, err := os.ReadFile(path)
	cfg := &apiserver.AuthenticationConfiguration{}
	if err == nil {
		cfg, err = decode[*apiserver.AuthenticationConfiguration](data)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to load authentication configuration from file %q: %w", path, err)
	}
	return cfg, Check(cfg, compiler, issuers)
}

// Check says all that is wrong with an AuthenticationConfiguration.
func Check(cfg *apiserver.AuthenticationConfiguration, compiler authenticationcel.Compiler, issuers []string) error {
	if errs := validation.ValidateAuthenticationConfiguration(compiler, cfg, issuers); len(errs) > 0 {
		return fmt.Errorf("invalid authentication configuration: %w", errs.ToAggregate())
	}
	return nil
}

// Authorization reads an AuthorizationConfiguration. known are the types of authorizers that there are; only webhooks may be several.
func Authorization(path string, compiler authorizationcel.Compiler, known []string) (*apiserver.AuthorizationConfiguration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cfg, err := decode[*apiserver.AuthorizationConfiguration](data)
	if err != nil {
		return nil, fmt.Errorf("failed to load AuthorizationConfiguration from file: %w", err)
	}
	errs := validation.ValidateAuthorizationConfiguration(compiler, nil, cfg, sets.New(known...), sets.New(string(apiserver.TypeWebhook)))
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	for _, a := range cfg.Authorizers {
		if want := strings.ToLower(string(a.Type)); a.Type != apiserver.TypeWebhook && a.Name != want {
			return nil, fmt.Errorf("expected name %s for authorizer %s instead of %s", want, a.Type, a.Name)
		}
	}
	return cfg, nil
}

func decode[T runtime.Object](data []byte) (cfg T, err error) {
	if len(data) == 0 {
		return cfg, errors.New("empty config data")
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	obj, err := runtime.Decode(codecs.UniversalDecoder(apiserver.SchemeGroupVersion), data)
	if err != nil {
		return cfg, err
	}
	cfg, ok := obj.(T)
	if !ok {
		return cfg, fmt.Errorf("expected %T, got %T", cfg, obj)
	}
	return cfg, nil
}
