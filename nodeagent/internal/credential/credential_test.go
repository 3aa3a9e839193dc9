package credential

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	providerv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestMain is the plugin, too: it is started with an answer, and notes what it was asked.
func TestMain(m *testing.M) {
	if answer := os.Getenv("PLUGIN_ANSWER"); answer != "" {
		os.Exit(serve(answer))
	}
	os.Exit(m.Run())
}

func serve(answer string) int {
	question, err := io.ReadAll(os.Stdin)
	var request providerv1.CredentialProviderRequest
	if err != nil || json.Unmarshal(question, &request) != nil || request.Kind != "CredentialProviderRequest" || request.APIVersion != providerv1.SchemeGroupVersion.String() {
		fmt.Fprintln(os.Stderr, "bad question")
		return 2
	}
	notes, err := os.OpenFile(os.Getenv("PLUGIN_NOTES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	fmt.Fprintf(notes, "%s %q %q%q\n", request.Image, os.Args[1:], os.Getenv("PLUGIN_OWN"), os.Getenv("HOWDAH_SECRET"))
	notes.Close()
	switch answer {
	case "fail":
		fmt.Fprint(os.Stdout, "hush")
		fmt.Fprint(os.Stderr, "no metadata server\n", strings.Repeat("x", 2*mostComplaint))
		return 1
	case "hang":
		time.Sleep(time.Hour)
	case "flood":
		fmt.Fprint(os.Stdout, strings.Repeat("x", 2*mostAnswer))
		return 0
	}
	fmt.Print(answer)
	return 0
}

// node is one with plugins in a folder.
type node struct {
	t     *testing.T
	dir   string
	clock *clocktesting.FakeClock
	Options
}

func newNode(t *testing.T, plugins ...string) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir(), clock: clocktesting.NewFakeClock(time.Unix(1000, 0))}
	n.Options = Options{filepath.Join(n.dir, "config.yaml"), filepath.Join(n.dir, "bin")}
	if err := os.Mkdir(n.BinDir, 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range plugins {
		if err := os.Symlink(self, filepath.Join(n.BinDir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func (n *node) write(name, content string) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, name), []byte(content), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// entry is a provider of the configuration.
func (n *node) entry(name, answer string, match ...string) string {
	images, _ := json.Marshal(match)
	text, _ := json.Marshal(answer)
	return fmt.Sprintf(`
- name: %s
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: %s
  defaultCacheDuration: 10m
  args: [get, "--all"]
  env: [{name: PLUGIN_ANSWER, value: %s}, {name: PLUGIN_NOTES, value: %s}, {name: PLUGIN_OWN, value: own}]`, name, images, text, filepath.Join(n.dir, name+".notes"))
}

const head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:"

func (n *node) open() *Providers {
	n.t.Helper()
	p, err := New(n.Options, n.clock, prometheus.NewRegistry())
	if err != nil {
		n.t.Fatal(err)
	}
	return p
}

// asked is what a plugin was asked so far.
func (n *node) asked(plugin string) []string {
	data, _ := os.ReadFile(filepath.Join(n.dir, plugin+".notes"))
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// response is an answer; duration may be empty, and auth is KEY=USER:PASSWORD.
func response(cacheKey, duration string, auth ...string) string {
	r := map[string]any{"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse", "cacheKeyType": cacheKey}
	if duration != "" {
		r["cacheDuration"] = duration
	}
	logins := map[string]any{}
	for _, a := range auth {
		key, login, _ := strings.Cut(a, "=")
		user, password, _ := strings.Cut(login, ":")
		logins[key] = map[string]string{"username": user, "password": password}
	}
	r["auth"] = logins
	data, _ := json.Marshal(r)
	return string(data)
}

func users(logins []Login) string {
	var out []string
	for _, l := range logins {
		out = append(out, l.Username+"@"+l.Server)
	}
	return strings.Join(out, " ")
}

func TestPluginsAreAsked(t *testing.T) {
	t.Setenv("HOWDAH_SECRET", "the agent's")
	n := newNode(t, "one", "two", "three")
	n.write("config.yaml", head+
		n.entry("one", response("Image", "", "*.test=a:1", "r.test/team=b:2", "elsewhere.test=c:3", "https://r.test=d:4"), "*.test")+
		n.entry("two", response("Image", "", "*.test=e:5"), "r.test/team")+
		n.entry("three", response("Image", "", "*.test=f:6"), "*.test:5000", "other.io"))
	p := n.open()
	if got, want := users(p.Logins(t.Context(), "r.test/team/app")), "b@r.test/team d@r.test a@*.test e@*.test"; got != want {
		t.Errorf("logins %q, want %q", got, want)
	}
	if got, want := users(p.Logins(t.Context(), "r.test/app")), "d@r.test a@*.test"; got != want {
		t.Errorf("logins %q, want %q", got, want)
	}
	if got := p.Logins(t.Context(), "docker.io/library/nginx"); len(got) > 0 {
		t.Errorf("logins for nobody's image: %v", got)
	}
	if got := p.Logins(t.Context(), "r.test/team/app"); got[0] != (Login{"r.test/team", "b", "2"}) {
		t.Errorf("login %v", got[0])
	}
	for plugin, want := range map[string][]string{
		"one":   {`r.test/team/app ["get" "--all"] "own"""`, `r.test/app ["get" "--all"] "own"""`},
		"two":   {`r.test/team/app ["get" "--all"] "own"""`},
		"three": {""},
	} {
		if got := n.asked(plugin); !slices.Equal(got, want) {
			t.Errorf("%s was asked %q, want %q", plugin, got, want)
		}
	}
	if n := testutil.CollectAndCount(p.seconds); n != 2 {
		t.Errorf("%d plugins are measured", n)
	}
}

func TestAnswersAreKept(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		key, duration string
		after         time.Duration
		want          int // questions for a.test/x twice, then a.test/y, b.test/x
	}{
		{"Image", "", time.Minute, 3},
		{"Registry", "", time.Minute, 2},
		{"Global", "", time.Minute, 1},
		{"Global", "30s", time.Minute, 2},
		{"Global", "1h", 11 * time.Minute, 1},
		{"Global", "", 11 * time.Minute, 2},
		{"Global", "0s", time.Second, 4},
		{"Sometimes", "", time.Second, 4},
	} {
		n := newNode(t, "one")
		n.write("config.yaml", head+n.entry("one", response(test.key, test.duration, "*.test=a:1"), "*.test"))
		p := n.open()
		p.Logins(t.Context(), "a.test/x")
		n.clock.Step(test.after)
		for _, image := range []string{"a.test/x", "a.test/y", "b.test/x"} {
			p.Logins(t.Context(), image)
		}
		if got := len(n.asked("one")); got != test.want {
			t.Errorf("%s, %q: asked %d times, want %d", test.key, test.duration, got, test.want)
		}
	}
}

func TestPodsShareAQuestion(t *testing.T) {
	t.Parallel()
	n := newNode(t, "one")
	n.write("config.yaml", head+n.entry("one", response("Image", "", "*.test=a:1"), "*.test"))
	p := n.open()
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if got := users(p.Logins(t.Context(), "a.test/x")); got != "a@*.test" {
				t.Errorf("logins %q", got)
			}
		})
	}
	wg.Wait()
	if got := n.asked("one"); len(got) != 1 {
		t.Errorf("asked %q", got)
	}
}

// A plugin that fails leaves the others' logins, and none of its answer gets into a log.
func TestPluginsFail(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	answers := map[string]string{
		"fail": "no metadata server", "flood": "more than 1048576 bytes", "hang": "did not answer within",
		`{"password":"hush`: "cannot be read",
		strings.Replace(response("Image", "", "*.test=a:hush"), "/v1", "/v1beta1", 1): "cannot be read",
		strings.Replace(response("Image", "", "*.test=a:hush"), "Response", "Req", 1): "cannot be read",
		strings.Replace(response("Image", "", "*.test=a:hush"), "auth", "oauth", 1):   "cannot be read",
		response("Often", "", "*.test=a:hush"):                                        "none of Image, Registry, Global",
	}
	for answer, want := range answers {
		log.Reset()
		n := newNode(t, "bad", "good")
		n.write("config.yaml", head+n.entry("bad", answer, "*.test")+n.entry("good", response("Image", "", "*.test=a:1"), "*.test"))
		p := n.open()
		if answer == "hang" {
			p.all[0].plugin.timeout = time.Second
		}
		if got := users(p.Logins(t.Context(), "a.test/x")); got != "a@*.test" {
			t.Errorf("%.10s: logins %q", answer, got)
		}
		if !strings.Contains(log.String(), want) || strings.Contains(log.String(), "hush") || log.Len() > 2*mostComplaint {
			t.Errorf("%.10s: log %q", answer, log.String())
		}
		if n := testutil.ToFloat64(p.errors.WithLabelValues("bad")); n != 1 {
			t.Errorf("%.10s: counted %v", answer, n)
		}
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, image string
		want           bool
	}{
		{"registry.io", "registry.io/a/b", true},
		{"*.registry.io", "a.registry.io/b", true},
		{"*.io", "a.registry.io/b", false},
		{"*.*.io", "a.registry.io/b", true},
		{"k8s.*", "k8s.io/a", true},
		{"app*.k8s.io", "app1.k8s.io/a", true},
		{"app*.k8s.io", "web1.k8s.io/a", false},
		{"registry.io:8080/path", "registry.io:8080/path/a", true},
		{"registry.io:8080/path", "registry.io/path/a", false},
		{"registry.io", "registry.io:8080/path", false},
		{"registry.io/path", "registry.io/a/path", false},
		{"registry.io/*", "registry.io/a", false},
		{"docker.io", "docker.io/library/nginx", true},
	} {
		p, err := parsePattern(test.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.matches(test.image); got != test.want {
			t.Errorf("%s for %s: %v", test.pattern, test.image, got)
		}
	}
	for key, want := range map[string]bool{"https://index.docker.io/v1/": true, "docker.io": true, "index.docker.io": true, "https://quay.io": false, "%": false, "http://docker.io/v2/": true} {
		if got := matchesKey(key, "docker.io/library/nginx"); got != want {
			t.Errorf("key %s: %v", key, got)
		}
	}
}

func TestConfigurations(t *testing.T) {
	t.Parallel()
	n := newNode(t, "one", "two")
	if err := os.WriteFile(filepath.Join(n.BinDir, "text"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	good := n.entry("one", "x", "*.test")
	for name, test := range map[string]struct {
		config string
		want   []string
	}{
		"no file":          {"", []string{"no such file"}},
		"not YAML":         {"{", []string{"config.yaml: "}},
		"another kind":     {strings.Replace(head, "CredentialProviderConfig", "KubeletConfiguration", 1) + good, []string{"no kind"}},
		"an older version": {strings.Replace(head, "/v1", "/v1beta1", 1) + good, []string{"no kind"}},
		"an answer":        {response("Image", ""), []string{"it is a CredentialProviderResponse, not a CredentialProviderConfig"}},
		"no provider":      {head + " []", []string{"has none"}},
		"an unknown field": {head + good + "\n  matches: []", []string{`unknown field "providers[0].matches"`}},
		"twice":            {head + good + good, []string{`provider 2, "one": another one has this name`}},
		"all at once": {head + `
- {name: "../one", apiVersion: credentialprovider.kubelet.k8s.io/v1alpha1, env: [{name: "A=B", value: hush}]}
- {name: three, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: ["[.test", "", "a b.test"], defaultCacheDuration: -1s}
- {name: text, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: ["a.test"], defaultCacheDuration: 0s}
- name: two
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["a.test"]
  defaultCacheDuration: 0s
  tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: true}`, []string{
			`provider 1, "../one": it is not the name of a program`, "v1alpha1\" is not credentialprovider.kubelet.k8s.io/v1", "matchImages: at least one", "defaultCacheDuration: it is needed", `env: "A=B"`,
			`provider 2, "three": `, `matchImages: "["`, `matchImages: ""`, `matchImages: "a b.test"`, "is needed, and is 0 or more", `provider 3, "text": `, "permission denied",
			`provider 4, "two": tokenAttributes: howdah gives plugins no tokens`,
		}},
	} {
		if test.config == "" {
			os.Remove(n.Config)
		} else {
			n.write("config.yaml", test.config)
		}
		err := n.Check()
		if err == nil {
			t.Errorf("%s: it is taken", name)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), strings.Replace(want, `"["`, `"[.test"`, 1)) || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s: %v\nwithout %s", name, err, want)
			}
		}
	}
	for _, o := range []Options{{Config: n.Config}, {BinDir: n.BinDir}} {
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), "belong together") {
			t.Errorf("%v: %v", o, err)
		}
	}
	if p, err := New(Options{}, n.clock, nil); err != nil || len(p.Logins(t.Context(), "a.test/x")) > 0 {
		t.Errorf("without any: %v", err)
	}
}

// The files of a folder make one configuration, in the order of their names.
func TestFolders(t *testing.T) {
	t.Parallel()
	n := newNode(t, "one", "two")
	n.write("b.yml", head+n.entry("two", response("Global", "", "*.test=b:2"), "*.test"))
	n.write("a.yaml", head+n.entry("one", response("Global", "", "*.test=a:1"), "*.test"))
	n.write("c.txt", "no configuration")
	n.Config = n.dir
	if got := users(n.open().Logins(t.Context(), "a.test/x")); got != "a@*.test b@*.test" {
		t.Errorf("logins %q", got)
	}
	n.write("d.json", `{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig","providers":[{"name":"one"}]}`)
	if err := n.Check(); err == nil || !strings.Contains(err.Error(), `provider 3, "one": another one has this name`) {
		t.Errorf("a name twice: %v", err)
	}
	n.Config = n.BinDir
	if err := n.Check(); err == nil || !strings.Contains(err.Error(), "has no file") {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestExample(t *testing.T) {
	t.Parallel()
	n := newNode(t, "ecr-credential-provider", "team-credential-provider")
	n.Config = "../../../examples/config/credential-provider.yaml"
	if err := n.Check(); err != nil {
		t.Error(err)
	}
}
