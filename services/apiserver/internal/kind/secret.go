package kind

import (
	"crypto/tls"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

func secret(now func() time.Time) *registry.Kind {
	return &registry.Kind{
		GVK:      corev1.SchemeGroupVersion.WithKind("Secret"),
		Resource: "secrets", Singular: "secret", Namespaced: true,
		New:     func() registry.Object { return &corev1.Secret{} },
		NewList: func() runtime.Object { return &corev1.SecretList{} },

		Default: typed.Do(defaultSecret),
		// An update that names no type means the one it has.
		PrepareUpdate: typed.Change(func(s, old *corev1.Secret) {
			if s.Type == "" {
				s.Type = old.Type
			}
		}),
		Warnings: typed.Warn(func(s, _ *corev1.Secret) []string {
			if s.Type == corev1.SecretTypeTLS {
				if _, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err != nil {
					return []string{err.Error()}
				}
			}
			return nil
		}),
		Validate:       typed.Check(validateSecret),
		ValidateUpdate: typed.CheckChange(validateSecretUpdate),

		SelectableFields: typed.Get(func(s *corev1.Secret) fields.Set {
			return fields.Set{"type": string(s.Type)}
		}),
		StoredAt: map[string][]int{"type": {3}}, // of k8s.io/api/core/v1/generated.proto
		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.String("Type", corev1.Secret{}.SwaggerDoc()["type"]),
			column.String("Data", corev1.Secret{}.SwaggerDoc()["data"]),
			column.Age(),
		},
		Cells: typed.Get(func(s *corev1.Secret) []any {
			return []any{s.Name, string(s.Type), int64(len(s.Data)), column.Since(now(), s.CreationTimestamp.Time)}
		}),
	}
}

// defaultSecret also folds the write-only stringData into data.
func defaultSecret(s *corev1.Secret) {
	if s.Type == "" {
		s.Type = corev1.SecretTypeOpaque
	}
	emptyNulls(s.Data)
	if len(s.StringData) == 0 {
		s.StringData = nil
		return
	}
	if s.Data == nil {
		s.Data = make(map[string][]byte, len(s.StringData))
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

// emptyNulls makes bytes of none that were sent as null, as the stored form reads.
func emptyNulls(data map[string][]byte) {
	for key, value := range data {
		if value == nil {
			data[key] = []byte{}
		}
	}
}

func validateSecret(s *corev1.Secret) field.ErrorList {
	var errs field.ErrorList
	data := field.NewPath("data")
	size := 0
	for key, value := range s.Data {
		errs = append(errs, check.Each(validation.IsConfigMapKey(key), key, data.Key(key))...)
		size += len(value)
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(data, "", corev1.MaxSecretSize))
	}
	missing := func(key string) bool {
		_, ok := s.Data[key]
		return !ok
	}
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		if s.Annotations[corev1.ServiceAccountNameKey] == "" {
			path := field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey)
			errs = append(errs, field.Required(path, ""))
		}
	case corev1.SecretTypeDockercfg:
		errs = append(errs, jsonKey(s, corev1.DockerConfigKey)...)
	case corev1.SecretTypeDockerConfigJson:
		errs = append(errs, jsonKey(s, corev1.DockerConfigJsonKey)...)
	case corev1.SecretTypeBasicAuth:
		if missing(corev1.BasicAuthUsernameKey) && missing(corev1.BasicAuthPasswordKey) {
			errs = append(errs,
				field.Required(data.Key(corev1.BasicAuthUsernameKey), ""),
				field.Required(data.Key(corev1.BasicAuthPasswordKey), ""))
		}
	case corev1.SecretTypeSSHAuth:
		if len(s.Data[corev1.SSHAuthPrivateKey]) == 0 {
			errs = append(errs, field.Required(data.Key(corev1.SSHAuthPrivateKey), ""))
		}
	case corev1.SecretTypeTLS:
		for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
			if missing(key) {
				errs = append(errs, field.Required(data.Key(key), ""))
			}
		}
	}
	return errs
}

// jsonKey wants one key, with JSON in it. Its value is not shown.
func jsonKey(s *corev1.Secret, key string) field.ErrorList {
	path := field.NewPath("data").Key(key)
	value, ok := s.Data[key]
	if !ok {
		return field.ErrorList{field.Required(path, "")}
	}
	if err := json.Unmarshal(value, &map[string]any{}); err != nil {
		return field.ErrorList{field.Invalid(path, "<secret contents redacted>", err.Error())}
	}
	return nil
}

func validateSecretUpdate(s, old *corev1.Secret) field.ErrorList {
	errs := check.Same(s.Type, old.Type, field.NewPath("type"))
	return append(errs, immutableData(s.Immutable, old.Immutable,
		part{"data", equality.Semantic.DeepEqual(s.Data, old.Data)})...)
}
