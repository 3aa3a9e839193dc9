package objects

import (
	"encoding/base64"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// configMaps is a table with one kind, and its resource.
func configMaps(t testing.TB) *registry.Resource {
	t.Helper()
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	table, err := registry.NewTable([]*registry.Kind{{
		GVK: gvk, Resource: "configmaps", Namespaced: true,
		New: func() registry.Object { return &corev1.ConfigMap{} }, NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
	}})
	if err != nil {
		t.Fatal(err)
	}
	return table.Find(gvk.GroupVersion().WithResource("configmaps"))
}

// FuzzToken holds that a token is what encodeToken made or is refused, and never leads out of its kind.
func FuzzToken(f *testing.F) {
	for _, seed := range []string{encodeToken(5, "ns/name", 7), encodeToken(-1, "a", 0), "", "x", "e30", "bm90anNvbg", encodeToken(1, "/../../secrets", 0), encodeToken(1, "a//b", 0), encodeToken(1, "a/./b", 0), encodeToken(1, "a\x00", 0)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := decodeToken(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "continue key is not valid: ") {
				t.Fatal(err)
			}
			return
		}
		if got.Revision == 0 || got.Start == "" {
			t.Fatalf("%+v", got)
		}
		for part := range strings.SplitSeq(got.Start, "/") {
			if part == ".." || part == "." {
				t.Fatalf("%q leads elsewhere", got.Start)
			}
		}
		again, err := decodeToken(encodeToken(got.Revision, got.Start, got.Began))
		if err != nil || again != got {
			t.Fatalf("%+v became %+v, %v", got, again, err)
		}
	})
}

// FuzzSelectors holds that selectors are accepted as the library does, and select the same.
func FuzzSelectors(f *testing.F) {
	res := configMaps(f)
	for _, seed := range [][2]string{{"a=b", ""}, {"a in (b,c),!d", "metadata.name=x"}, {"a b", ""}, {"a>5", "metadata.namespace!=x"}, {"", "spec.x=y"}, {"", "metadata.name=a\\,b,metadata.name=c"}, {"a in ()", "="}, {"!", "\\"}, {"a=", "metadata.name=="}} {
		f.Add(seed[0], seed[1])
	}
	set := labels.Set{"a": "b", "x": "7"}
	f.Fuzz(func(t *testing.T, label, field string) {
		query, _, some, err := selectors(res, "ns", label, field)
		if err != nil {
			if !apierrors.IsBadRequest(err) {
				t.Fatal(err)
			}
			_, labelErr := labels.Parse(label)
			parsed, fieldErr := fields.ParseSelector(field)
			if labelErr == nil && fieldErr == nil {
				for _, r := range parsed.Requirements() {
					if r.Field != "metadata.name" && r.Field != "metadata.namespace" {
						return
					}
				}
				t.Fatalf("%q %q: %v", label, field, err)
			}
			return
		}
		want, labelErr := labels.Parse(label)
		if labelErr != nil {
			t.Fatalf("%q is accepted: %v", label, labelErr)
		}
		if got := query.Label == nil || query.Label.Matches(set); got != want.Matches(set) {
			t.Fatalf("%q selects %v", label, got)
		}
		parsed, fieldErr := fields.ParseSelector(field)
		if fieldErr != nil {
			t.Fatalf("%q is accepted: %v", field, fieldErr)
		}
		for _, name := range []string{"x", "c"} {
			values := fields.Set{"metadata.name": name, "metadata.namespace": "ns"}
			got := some && (query.Name == "" || query.Name == name) && (query.Namespace == "" || query.Namespace == "ns") && (query.Field == nil || query.Field.Matches(values))
			if got != parsed.Matches(values) {
				t.Fatalf("%q selects %s: %v", field, name, got)
			}
		}
	})
}

func FuzzDeleteOptions(f *testing.F) {
	for _, seed := range [][5]string{{`{"gracePeriodSeconds":-1}`, "All", "5", "Orphan", "true"}, {"", "x", "x", "x", ""}, {"{", "", "", "", ""}, {"", "", "-9223372036854775808", "", "0"}} {
		f.Add([]byte(seed[0]), seed[1], seed[2], seed[3], seed[4])
	}
	f.Fuzz(func(t *testing.T, body []byte, dryRun, grace, policy, orphan string) {
		var dry []string
		if dryRun != "" {
			dry = []string{dryRun}
		}
		o, err := deleteOptions(codec.Offer{}, body, "application/json", dry, grace, policy, orphan)
		if err != nil {
			if !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
				t.Fatal(err)
			}
			return
		}
		if o.GracePeriodSeconds != nil && *o.GracePeriodSeconds < 0 {
			t.Fatalf("%d", *o.GracePeriodSeconds)
		}
	})
}

// FuzzWarnings holds that what is sent fits into headers.
func FuzzWarnings(f *testing.F) {
	f.Add("text", 3)
	f.Add("line\nbreak", 1)
	f.Add(strings.Repeat("ä", 300), 40)
	f.Add("\x7f", 1)
	f.Fuzz(func(t *testing.T, text string, times int) {
		texts := make([]string, 0, 64)
		for range max(0, min(times, 64)) {
			texts = append(texts, text)
		}
		for _, w := range fitting(texts) {
			if !utf8.ValidString(w) || strings.IndexFunc(w, func(c rune) bool { return c < ' ' || c == 0x7f }) >= 0 {
				t.Fatalf("%q", w)
			}
		}
	})
}

func TestTokensNameNoTypeOfOurs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[1]`:        "continue key is not valid: json: cannot unmarshal array into Go value of type storage.continueToken",
		`"x"`:        "continue key is not valid: json: cannot unmarshal string into Go value of type storage.continueToken",
		`{"rv":"1"}`: "continue key is not valid: json: cannot unmarshal string into Go struct field continueToken.rv of type int64",
	} {
		if _, err := decodeToken(base64.RawURLEncoding.EncodeToString([]byte(text))); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
