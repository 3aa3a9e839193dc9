package codec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Bodies may nest as deep as decoders go, and are refused beyond with their texts.
func TestDepth(t *testing.T) {
	t.Parallel()
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	nested := func(n int) []byte {
		return []byte(`{"apiVersion":"v1","kind":"ConfigMap","x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`)
	}
	body := func(contentType string) func([]byte) error {
		return func(data []byte) error {
			_, err := Body{Data: data, ContentType: contentType, Validation: Ignore}.Into(&corev1.ConfigMap{}, gvk)
			return err
		}
	}
	patch := func(kind types.PatchType) func([]byte) error {
		return func(data []byte) error {
			_, err := Patch(kind, data, &corev1.ConfigMap{}, &corev1.ConfigMap{}, gvk, nil, false)
			return err
		}
	}
	const deep, deepYAML = "invalid character '[' exceeded max depth", "yaml: exceeded max depth of 10000"
	for name, c := range map[string]struct {
		decode func([]byte) error
		text   string
	}{
		"JSON": {body("application/json"), "the object provided is unrecognized (must be of type ConfigMap): " + unparsed + deep + " ("},
		"YAML": {body("application/yaml"), "the object provided is unrecognized (must be of type ConfigMap): " + deepYAML + " ("},
		"options": {func(data []byte) error {
			return Offer{}.Options([]byte(strings.ReplaceAll(string(data), "ConfigMap", "DeleteOptions")), "application/json", &metav1.DeleteOptions{})
		}, unparsed + deep},
		"merge patch":     {patch(types.MergePatchType), "error decoding patch: " + deep},
		"strategic patch": {patch(types.StrategicMergePatchType), deep},
		"apply": {func(data []byte) error {
			_, _, err := Configuration(data, gvk, Ignore)
			return err
		}, "error decoding YAML: error converting YAML to JSON: " + deepYAML},
	} {
		if err := c.decode(nested(9_900)); err != nil {
			t.Errorf("%s: %.200v", name, err)
		}
		if err := c.decode(nested(20_000)); err == nil || !strings.HasPrefix(err.Error(), c.text) {
			t.Errorf("%s, too deep: %.200v", name, err)
		}
	}
}
