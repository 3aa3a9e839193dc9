package request

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	tests := []struct {
		method, url string
		want        Info
		route       string
	}{
		{"GET", "/api/v1/pods", Info{Verb: List, Version: "v1", Resource: "pods"}, "/api/v1/pods"},
		{"GET", "/api/v1/pods/", Info{Verb: List, Version: "v1", Resource: "pods", TrailingSlash: true}, "/api/v1/pods"},
		{"GET", "/api/v1/pods?watch=true", Info{Verb: Watch, Version: "v1", Resource: "pods"}, "/api/v1/watch/pods"},
		{"GET", "/api/v1/pods?watch=1", Info{Verb: Watch, Version: "v1", Resource: "pods"}, "/api/v1/watch/pods"},
		{"GET", "/api/v1/pods?watch", Info{Verb: Watch, Version: "v1", Resource: "pods"}, "/api/v1/watch/pods"},
		{"GET", "/api/v1/pods?watch=False", Info{Verb: List, Version: "v1", Resource: "pods"}, "/api/v1/pods"},
		{"GET", "/api/v1/pods?watch=0", Info{Verb: List, Version: "v1", Resource: "pods"}, "/api/v1/pods"},
		{"GET", "/api/v1/watch/pods", Info{Verb: Watch, Version: "v1", Resource: "pods"}, "/api/v1/watch/pods"},
		{"GET", "/api/v1/watch/namespaces/a/pods", Info{Verb: Watch, Version: "v1", Namespace: "a", Resource: "pods"}, "/api/v1/watch/namespaces/a/pods"},
		{"GET", "/api/v1/watch/namespaces/a/pods/p", Info{Verb: Watch, Version: "v1", Namespace: "a", Resource: "pods", Name: "p"}, "/api/v1/watch/namespaces/a/pods/p"},
		{"GET", "/api/v1/watch/namespaces/a", Info{Verb: Watch, Version: "v1", Resource: "namespaces", Name: "a"}, "/api/v1/watch/%6eamespaces/a"},
		{"POST", "/api/v1/watch/pods", Info{Version: "v1", Resource: "pods"}, ""},
		{"GET", "/api/v1/namespaces", Info{Verb: List, Version: "v1", Resource: "namespaces"}, "/api/v1/%6eamespaces"},
		{"GET", "/api/v1/namespaces/a", Info{Verb: Get, Version: "v1", Resource: "namespaces", Name: "a"}, "/api/v1/%6eamespaces/a"},
		{"GET", "/api/v1/namespaces/a?watch=true", Info{Verb: Get, Version: "v1", Resource: "namespaces", Name: "a"}, "/api/v1/%6eamespaces/a"},
		{"GET", "/api/v1/namespaces/a/status", Info{Verb: Get, Version: "v1", Resource: "namespaces", Name: "a", Subresource: "status"}, "/api/v1/%6eamespaces/a/status"},
		{"PUT", "/api/v1/namespaces/a/finalize", Info{Verb: Update, Version: "v1", Resource: "namespaces", Name: "a", Subresource: "finalize"}, "/api/v1/%6eamespaces/a/finalize"},
		{"DELETE", "/api/v1/namespaces/a", Info{Verb: Delete, Version: "v1", Resource: "namespaces", Name: "a"}, "/api/v1/%6eamespaces/a"},
		{"GET", "/api/v1/namespaces/a/pods", Info{Verb: List, Version: "v1", Namespace: "a", Resource: "pods"}, "/api/v1/namespaces/a/pods"},
		{"GET", "/api/v1/namespaces/namespaces/pods/watch", Info{Verb: Get, Version: "v1", Namespace: "namespaces", Resource: "pods", Name: "watch"}, "/api/v1/namespaces/%6eamespaces/pods/%77atch"},
		{"POST", "/api/v1/namespaces/a/pods", Info{Verb: Create, Version: "v1", Namespace: "a", Resource: "pods"}, "/api/v1/namespaces/a/pods"},
		{"POST", "/api/v1/namespaces/a/pods/p", Info{Version: "v1", Namespace: "a", Resource: "pods", Name: "p"}, ""},
		{"POST", "/api/v1/namespaces/a/pods/p/binding", Info{Verb: Create, Version: "v1", Namespace: "a", Resource: "pods", Name: "p", Subresource: "binding"}, "/api/v1/namespaces/a/pods/p/binding"},
		{"PUT", "/api/v1/namespaces/a/pods", Info{Version: "v1", Namespace: "a", Resource: "pods"}, ""},
		{"PATCH", "/api/v1/nodes/n/status", Info{Verb: Patch, Version: "v1", Resource: "nodes", Name: "n", Subresource: "status"}, "/api/v1/nodes/n/status"},
		{"DELETE", "/api/v1/namespaces/a/pods", Info{Verb: DeleteCollection, Version: "v1", Namespace: "a", Resource: "pods"}, "/api/v1/namespaces/a/pods"},
		{"DELETE", "/api/v1/namespaces/a/pods/p/status", Info{Version: "v1", Namespace: "a", Resource: "pods", Name: "p", Subresource: "status"}, ""},
		{"HEAD", "/api/v1/pods", Info{Version: "v1", Resource: "pods"}, ""},
		{"GET", "/apis/apps/v1/deployments", Info{Verb: List, Group: "apps", Version: "v1", Resource: "deployments"}, "/apis/apps/v1/deployments"},
		{"GET", "/apis/apps/v1/namespaces/a/deployments/d/scale", Info{Verb: Get, Group: "apps", Version: "v1", Namespace: "a", Resource: "deployments", Name: "d", Subresource: "scale"}, "/apis/apps/v1/namespaces/a/deployments/d/scale"},
		{"GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node,x", Info{Verb: Get, Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles", Name: "system:node,x"}, "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node%2Cx"},
		{"GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%20b", Info{Verb: Get, Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles", Name: "a b"}, "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%20b"},
		{"GET", "/api/v1/namespaces/a/pods/p/log", Info{Verb: Connect, Version: "v1", Namespace: "a", Resource: "pods", Name: "p", Subresource: "log"}, ""},
		{"POST", "/api/v1/namespaces/a/pods/p/log", Info{Version: "v1", Namespace: "a", Resource: "pods", Name: "p", Subresource: "log"}, ""},
		{"POST", "/api/v1/namespaces/a/pods/p/exec", Info{Verb: Connect, Version: "v1", Namespace: "a", Resource: "pods", Name: "p", Subresource: "exec"}, ""},
		{"PUT", "/api/v1/namespaces/a/services/https:s:443/proxy/x/y/?z=1", Info{Verb: Connect, Version: "v1", Namespace: "a", Resource: "services", Name: "https:s:443", Subresource: "proxy", Path: "x/y", TrailingSlash: true}, ""},
		{"GET", "/api/v1/nodes/n/proxy/a%2Fb//c", Info{Verb: Connect, Version: "v1", Resource: "nodes", Name: "n", Subresource: "proxy", Path: "a/b//c"}, ""},
		{"GET", "/api/v1/nodes/n/proxy/a%20b", Info{Verb: Connect, Version: "v1", Resource: "nodes", Name: "n", Subresource: "proxy", Path: "a%20b"}, ""},
		{"GET", "/%61pi/v1/%6eamespaces/a%2Fpods", Info{Verb: List, Version: "v1", Namespace: "a", Resource: "pods"}, "/api/v1/namespaces/a/pods"},
		{"GET", "/apis/example.com/v1/namespaces/a/pods/p/log", Info{Verb: Get, Group: "example.com", Version: "v1", Namespace: "a", Resource: "pods", Name: "p", Subresource: "log"}, "/apis/example.com/v1/namespaces/a/pods/p/log"},
		{"GET", "/api", Info{}, ""},
		{"GET", "/api/v1", Info{}, ""},
		{"GET", "/apis/apps/v1", Info{}, ""},
		{"GET", "/version", Info{}, ""},
		{"GET", "/howdah/v1/x/y", Info{}, ""},
		{"GET", "/api/v1/namespaces/a/pods/p/log/more", Info{Version: "v1", Namespace: "a", Resource: "pods", Name: "p", Subresource: "log", Path: "more"}, ""},
		{"GET", "/api/v1/proxy/nodes/n/a/b", Info{Version: "v1", Resource: "nodes", Name: "n", Path: "b"}, ""},
		{"GET", "/api/v1/namespaces//pods", Info{Verb: List, Version: "v1", Resource: "pods", Spaceless: true}, "/api/v1/pods"},
		{"GET", "/api/v1/namespaces//pods/p", Info{Verb: Get, Version: "v1", Resource: "pods", Name: "p", Spaceless: true}, "/api/v1/pods/p"},
		{"GET", "/api/v1/watch/namespaces//pods", Info{Verb: Watch, Version: "v1", Resource: "pods", Spaceless: true}, "/api/v1/watch/pods"},
		{"GET", "/api/v1/namespaces/a/pods//log", Info{Version: "v1", Namespace: "a", Resource: "pods", Subresource: "log", Nameless: true}, ""},
		{"PUT", "/api/v1/namespaces//status", Info{Version: "v1", Resource: "namespaces", Subresource: "status", Nameless: true}, ""},
		{"GET", "/api/v1/nodes/n//status", Info{Version: "v1", Resource: "nodes", Name: "n", Path: "status"}, ""},
		{"GET", "/api/v1/namespaces///pods", Info{}, ""},
		{"GET", "/api/v1/pods/a%2Fb", Info{Verb: Get, Version: "v1", Resource: "pods", Name: "a", Subresource: "b"}, "/api/v1/pods/a/b"},
		{"GET", "/api/v1/watch", Info{Incomplete: true}, ""},
		{"GET", "/apis/apps/v1/proxy/", Info{Incomplete: true}, ""},
		{"GET", "/api/v1//pods", Info{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.url, func(t *testing.T) {
			t.Parallel()
			u, err := url.Parse(tt.url)
			if err != nil {
				t.Fatal(err)
			}
			got := Resolve(tt.method, u)
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(Info{})); diff != "" {
				t.Error(diff)
			}
			if want := tt.want.Resource != ""; got.IsResource() != want {
				t.Errorf("resource: %v", got.IsResource())
			}
			if tt.route != "" && got.Route() != tt.route {
				t.Errorf("route %s, want %s", got.Route(), tt.route)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, verb, query string
		header            http.Header
		want              url.Values
		err               string
	}{
		{name: "list", verb: List,
			query:  "labelSelector=a%3Db&fieldSelector=x&resourceVersion=5&resourceVersionMatch=Exact&limit=10&continue=c&timeoutSeconds=3&unknown=1&watch=0",
			header: http.Header{"Accept": {"application/json;as=Table;v=v1;g=meta.k8s.io", "application/json"}},
			want: url.Values{"labelSelector": {"a=b"}, "fieldSelector": {"x"}, "resourceVersion": {"5"}, "resourceVersionMatch": {"Exact"},
				"limit": {"10"}, "continue": {"c"}, "timeoutSeconds": {"3"}, "accept": {"application/json;as=Table;v=v1;g=meta.k8s.io, application/json"}}},
		{name: "fields of the message are not options", verb: Create, query: "object=x&accept=y&content_type=z&contentType=z&name=n&group=g", want: url.Values{}},
		{name: "snake case is not known", verb: List, query: "label_selector=x", want: url.Values{}},
		{name: "booleans", verb: Watch, query: "allowWatchBookmarks=1&sendInitialEvents=False", want: url.Values{"allowWatchBookmarks": {"true"}, "sendInitialEvents": {"false"}}},
		{name: "a bare boolean is true", verb: Patch, query: "force", want: url.Values{"force": {"true"}}},
		{name: "uninitialized", verb: Create, query: "includeUninitialized=true", want: url.Values{"includeUninitialized": {"true"}}},
		{name: "repeated", verb: Create, query: "dryRun=All&dryRun=Other&fieldManager=m&fieldManager=n&fieldValidation=Strict&pretty=true",
			want: url.Values{"dryRun": {"All", "Other"}, "fieldManager": {"m"}, "fieldValidation": {"Strict"}, "pretty": {"true"}}},
		{name: "delete", verb: Delete, query: "gracePeriodSeconds=0&propagationPolicy=Orphan&orphanDependents=true&dryRun=All",
			want: url.Values{"gracePeriodSeconds": {"0"}, "propagationPolicy": {"Orphan"}, "orphanDependents": {"true"}, "dryRun": {"All"}}},
		{name: "bad limit", verb: List, query: "limit=ten", err: `strconv.ParseInt: parsing "ten": invalid syntax`},
		{name: "the apiserver finds the manager in the agent", verb: Update, header: http.Header{"User-Agent": {"kubectl/v1.36.0 (linux/amd64)"}, "Content-Type": {"application/json"}},
			want: url.Values{"contentType": {"application/json"}}},
		{name: "people read it pretty", verb: Get, header: http.Header{"User-Agent": {"curl/8"}}, want: url.Values{"pretty": {"true"}}},
		{name: "unless they say otherwise", verb: Get, query: "pretty=false", header: http.Header{"User-Agent": {"curl/8"}}, want: url.Values{"pretty": {"false"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			query, err := url.ParseQuery(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Info{Verb: tt.verb}.Options(query, tt.header)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Fatalf("got %v", err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

// FuzzResolve holds that whatever is a resource has a route that resolves to the same.
func FuzzResolve(f *testing.F) {
	for _, seed := range []string{"/api/v1/namespaces/a/pods/p", "/apis/apps/v1/watch/namespaces/watch/x", "/api/v1/namespaces/x/status", "/api/%76/w?watch=1", "/api/v1/a%2fb"} {
		f.Add("GET", seed)
		f.Add("POST", seed)
	}
	f.Fuzz(func(t *testing.T, method, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		info := Resolve(method, u)
		if !info.IsResource() || info.Verb == "" || info.Verb == Connect || info.Group == "." {
			return
		}
		route, err := url.Parse(info.Route())
		if err != nil {
			t.Fatalf("%q: %v", info.Route(), err)
		}
		again := Resolve(method, route)
		info.TrailingSlash, info.Path, info.Spaceless = false, "", false
		info.byPath, again.byPath, info.prefix, again.prefix = false, false, "", ""
		// The route of a watch is a watch path, whatever the query said; a
		// resource inside a namespace never reads as one of the namespace's own.
		if strings.Contains(info.Route(), "%6eamespaces") || strings.Contains(info.Route(), "%77atch") {
			return // escaped on purpose: only the mux reads it so
		}
		if again != info {
			t.Fatalf("%q: %+v, then %q: %+v", text, info, info.Route(), again)
		}
	})
}
