package initializers

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const stored = `"{\"pending\":[{\"name\":\"a.example.com\"}]}"`

func TestTaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ media, body, want, wantMedia string }{
		"JSON":       {"application/json", `{"metadata":{"initializers":{"pending":[{"name":"a.example.com"}]},"name":"x"}}`, `{"metadata":{"annotations":{"howdah.dev/initializers":` + stored + `},"name":"x"}}`, "application/json"},
		"YAML":       {"application/yaml", "metadata:\n  annotations: {b: c}\n  initializers: {pending: [{name: a.example.com}]}\n", `{"metadata":{"annotations":{"b":"c","howdah.dev/initializers":` + stored + `}}}`, "application/json"},
		"apply":      {"application/apply-patch+yaml", "metadata: {initializers: {pending: []}}", `{"metadata":{"annotations":{"howdah.dev/initializers":"{\"pending\":[]}"}}}`, "application/apply-patch+yaml"},
		"null":       {"application/json", `{"metadata":{"initializers":null}}`, `{"metadata":{}}`, "application/json"},
		"elsewhere":  {"application/json", `{"metadata":{},"initializers":[ 1 ]}`, `{"metadata":{},"initializers":[ 1 ]}`, "application/json"},
		"protobuf":   {"application/vnd.kubernetes.protobuf", "k8s\x00initializers", "k8s\x00initializers", "application/vnd.kubernetes.protobuf"},
		"broken":     {"application/json", `{"initializers":`, `{"initializers":`, "application/json"},
		"big number": {"application/json", `{"metadata":{"initializers":null,"generation":9007199254740993}}`, `{"metadata":{"generation":9007199254740993}}`, "application/json"},
	} {
		got, media, err := taken([]byte(c.body), c.media)
		if err != nil || string(got) != c.want || media != c.wantMedia {
			t.Errorf("%s: %s %s %v", name, got, media, err)
		}
	}
	if _, _, err := taken([]byte(`{"metadata":{"initializers":{"colour":1}}}`), ""); err == nil {
		t.Error("an unknown field passes")
	}
}

func TestShown(t *testing.T) {
	t.Parallel()
	inside := `{"metadata":{"annotations":{"howdah.dev/initializers":` + stored + `},"name":"x"}}`
	outside := `{"metadata":{"initializers":{"pending":[{"name":"a.example.com"}]},"name":"x"}}`
	for name, c := range map[string]struct{ media, body, want string }{
		"object":   {"application/json", inside + "\n", outside + "\n"},
		"list":     {"application/json", `{"items":[` + inside + `]}`, `{"items":[` + outside + `]}`},
		"table":    {"application/json;as=Table", `{"rows":[{"cells":["x"],"object":` + inside + `}]}`, `{"rows":[{"cells":["x"],"object":` + outside + `}]}`},
		"others":   {"application/json", `{"metadata":{"annotations":{"b":"c","howdah.dev/initializers":` + stored + `}}}`, `{"metadata":{"annotations":{"b":"c"},"initializers":{"pending":[{"name":"a.example.com"}]}}}`},
		"template": {"application/json", `{"spec":{"template":` + inside + `}}`, `{"spec":{"template":` + inside + `}}`},
		"YAML":     {"application/yaml", "metadata:\n  annotations:\n    howdah.dev/initializers: '{\"pending\":[]}'\n", "metadata:\n  initializers:\n    pending: []\n"},
		"indented": {"application/json", "{\n  \"metadata\": {\n    \"annotations\": {\n      \"howdah.dev/initializers\": \"{}\"\n    }\n  }\n}", "{\n  \"metadata\": {\n    \"initializers\": {}\n  }\n}"},
		"protobuf": {"application/vnd.kubernetes.protobuf", "k8s\x00howdah.dev/initializers", "k8s\x00howdah.dev/initializers"},
	} {
		if got := string(shown([]byte(c.body), c.media)); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestPatched(t *testing.T) {
	t.Parallel()
	const jsonPatch, merge, strategic = "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"
	waits := func(names ...string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", ResourceVersion: "7"}}
		state := &Initializers{}
		for _, n := range names {
			state.Pending = append(state.Pending, Initializer{n})
		}
		if len(names) > 0 {
			if err := state.Put(pod); err != nil {
				t.Fatal(err)
			}
		}
		return pod
	}
	for name, c := range map[string]struct {
		media, patch string
		pod          *corev1.Pod
		want         string
		free         bool // not bound to a revision by the translation
	}{
		"strategic": {media: strategic, patch: `{"metadata":{"initializers":{"pending":[{"$patch":"delete","name":"a"}]}},"spec":{}}`, pod: waits("a", "b"),
			want: `{"metadata":{"annotations":{"howdah.dev/initializers":"{\"pending\":[{\"name\":\"b\"}]}"},"resourceVersion":"7"},"spec":{}}`},
		"strategic adds": {media: strategic, patch: `{"metadata":{"initializers":{"pending":[{"name":"b"}]}}}`, pod: waits("a"),
			want: `{"metadata":{"annotations":{"howdah.dev/initializers":"{\"pending\":[{\"name\":\"b\"},{\"name\":\"a\"}]}"},"resourceVersion":"7"}}`},
		"merge": {media: merge, patch: `{"metadata":{"initializers":{"pending":[]},"resourceVersion":"6"}}`, pod: waits("a"), free: true,
			want: `{"metadata":{"annotations":{"howdah.dev/initializers":"{\"pending\":[]}"},"resourceVersion":"6"}}`},
		"merge null": {media: merge, patch: `{"metadata":{"initializers":null}}`, pod: waits("a"),
			want: `{"metadata":{"annotations":{"howdah.dev/initializers":null},"resourceVersion":"7"}}`},
		"operations": {media: jsonPatch, patch: `[{"op":"remove","path":"/metadata/initializers/pending/0"},{"op":"add","path":"/a","value":1}]`, pod: waits("a", "b"),
			want: `[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/a","value":1},{"op":"add","path":"/metadata/annotations/howdah.dev~1initializers","value":"{\"pending\":[{\"name\":\"b\"}]}"}]`},
		"remove": {media: jsonPatch, patch: `[{"op":"remove","path":"/metadata/initializers"},{"op":"test","path":"/metadata/resourceVersion","value":"7"}]`, pod: waits("a"), free: true,
			want: `[{"op":"test","path":"/metadata/resourceVersion","value":"7"},{"op":"remove","path":"/metadata/annotations/howdah.dev~1initializers"}]`},
		"add": {media: jsonPatch, patch: `[{"op":"add","path":"/metadata/initializers","value":{"pending":[{"name":"a"}]}}]`, pod: waits(),
			want: `[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/metadata/annotations","value":{}},{"op":"add","path":"/metadata/annotations/howdah.dev~1initializers","value":"{\"pending\":[{\"name\":\"a\"}]}"}]`},
	} {
		got, speaks, err := patched([]byte(c.patch), c.media, c.pod)
		if err != nil || !speaks || string(got.body) != c.want || got.bound == c.free {
			t.Errorf("%s: %s %v %v %v", name, got.body, got.bound, speaks, err)
		}
	}
	for _, patch := range []string{`[{"op":"add","path":"/spec/initializers","value":1}]`, `{"initializers":1}`, `[`} {
		for _, media := range []string{jsonPatch, merge} {
			if _, speaks, err := patched([]byte(patch), media, waits("a")); speaks || err != nil {
				t.Errorf("%s %s: %v", media, patch, err)
			}
		}
	}
	for patch, want := range map[string]string{
		`[{"op":"test","path":"/metadata/initializers/pending/0/name","value":"b"}]`:   "the server rejected our request",
		`[{"op":"move","from":"/metadata/initializers","path":"/metadata/elsewhere"}]`: "is not supported",
		`[{"op":"add","path":"/metadata/initializers/colour","value":1}]`:              "unknown field",
	} {
		if _, _, err := patched([]byte(patch), jsonPatch, waits("a")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", patch, err)
		}
	}
}

// FuzzBodies holds that what is taken is shown again as it came.
func FuzzBodies(f *testing.F) {
	f.Add(`{"metadata":{"initializers":{"pending":[{"name":"a.b.c"}]}}}`)
	f.Add(`{"metadata":{"annotations":{"howdah.dev/initializers":"x"},"initializers":null}}`)
	f.Fuzz(func(t *testing.T, body string) {
		got, media, err := taken([]byte(body), "application/json")
		if err != nil {
			return
		}
		_ = shown(got, media)
		var was, is struct {
			Metadata struct{ Initializers *Initializers }
		}
		if json.Unmarshal([]byte(body), &was) != nil || was.Metadata.Initializers == nil || !strings.Contains(body, `"metadata":{"initializers":{"pending"`) {
			return
		}
		if json.Unmarshal(shown(got, media), &is) != nil || is.Metadata.Initializers == nil || len(is.Metadata.Initializers.Pending) != len(was.Metadata.Initializers.Pending) {
			t.Errorf("%s became %s", body, shown(got, media))
		}
	})
}
