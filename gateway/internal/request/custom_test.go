package request

import (
	"net/url"
	"testing"
)

func TestMethodsOfCustomResources(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path string
		verb, name   string
		refusal      string
	}{
		{"HEAD", "/apis/example.com/v1/namespaces/a/widgets", List, "", ""},
		{"HEAD", "/apis/example.com/v1/namespaces/a/widgets?watch=1", Watch, "", ""},
		{"HEAD", "/apis/example.com/v1/namespaces/a/widgets/w", Get, "w", ""},
		{"HEAD", "/apis/example.com/v1/namespaces/a/widgets/w/status", Get, "w", ""},
		{"POST", "/apis/example.com/v1/namespaces/a/widgets/w", Create, "", ""},
		{"PUT", "/apis/example.com/v1/namespaces/a/widgets", Update, "", ""},
		{"PATCH", "/apis/example.com/v1/namespaces/a/widgets", Patch, "", ""},
		{"GET", "/apis/example.com/v1/namespaces/a/widgets/w/status/more", Get, "w", ""},
		{"POST", "/apis/example.com/v1/watch/namespaces/a/widgets", Watch, "", ""},
		{"GET", "/apis/example.com/v1/watch/namespaces/a/widgets/w/status", "", "w", `watch is not supported on resources of kind "widgets.example.com"`},
		{"GET", "/apis/example.com/v1/proxy/namespaces/a/widgets/w/status", "", "w", `proxy is not supported on resources of kind "widgets.example.com"`},
		{"DELETE", "/apis/example.com/v1/namespaces/a/widgets/w/status", "", "w", `delete is not supported on resources of kind "widgets.example.com"`},
		{"GET", "/apis/example.com/v1/namespaces/a/widgets//status", "", "", `list is not supported on resources of kind "widgets.example.com"`},
		{"PUT", "/apis/example.com/v1/namespaces/a/widgets//status", Update, "", ""},
		{"POST", "/apis/example.com/v1/namespaces/a/widgets/w//status", Create, "", ""},
		{"PURGE", "/apis/example.com/v1/namespaces/a/widgets/w", "", "w", ` is not supported on resources of kind "widgets.example.com"`},
	} {
		u, err := url.Parse(c.path)
		if err != nil {
			t.Fatal(err)
		}
		info := Resolve(c.method, u)
		if !info.IsResource() || info.Verb != "" {
			t.Errorf("%s %s: %+v", c.method, c.path, info)
		}
		got, err := info.OfCustom(c.method, u)
		refusal := ""
		if err != nil {
			refusal = err.Error()
		}
		if got.Verb != c.verb || got.Name != c.name || refusal != c.refusal {
			t.Errorf("%s %s: %q of %q, %q", c.method, c.path, got.Verb, got.Name, refusal)
		}
	}
}

func TestTwoSlashesAtTheBeginning(t *testing.T) {
	t.Parallel()
	if info := Resolve("GET", &url.URL{Path: "//api/v1/namespaces"}); info.IsResource() {
		t.Errorf("%+v", info)
	}
}

func TestExportIsGone(t *testing.T) {
	t.Parallel()
	for query, refused := range map[string]bool{"export": true, "export=1": true, "export=x": true, "export=false": false, "": false} {
		values, _ := url.ParseQuery(query)
		if _, err := (Info{Verb: Get}).Options(values, nil); (err != nil) != refused {
			t.Errorf("%q: %v", query, err)
		}
		if _, err := (Info{Verb: List}).Options(values, nil); err != nil {
			t.Errorf("a list, %q: %v", query, err)
		}
	}
}
