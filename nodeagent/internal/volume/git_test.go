package volume

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// repository serves a repository with two commits of one file, over HTTP, and returns its URL and its first commit.
func repository(t *testing.T) (url, first string) {
	t.Helper()
	root := t.TempDir()
	work := filepath.Join(root, "work")
	git := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git(root, "init", "-q", "work")
	for _, word := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(work, "word"), []byte(word), 0o600); err != nil {
			t.Fatal(err)
		}
		git(work, "add", "word")
		git(work, "commit", "-qm", word)
	}
	git(root, "clone", "-q", "--bare", "work", "site.git")
	git(filepath.Join(root, "site.git"), "update-server-info")
	server := httptest.NewServer(http.FileServer(http.Dir(root)))
	t.Cleanup(server.Close)
	return server.URL + "/site.git", git(work, "rev-parse", "HEAD~1")
}

func TestGitReposAreCloned(t *testing.T) {
	t.Parallel()
	url, first := repository(t)
	for name, test := range map[string]struct {
		source corev1.GitRepoVolumeSource
		file   string
		want   string
	}{
		"the newest":    {corev1.GitRepoVolumeSource{Repository: url}, "site/word", "two"},
		"an older one":  {corev1.GitRepoVolumeSource{Repository: url, Revision: first}, "site/word", "one"},
		"in a folder":   {corev1.GitRepoVolumeSource{Repository: url, Revision: first, Directory: "at/it"}, "at/it/word", "one"},
		"in the volume": {corev1.GitRepoVolumeSource{Repository: url, Directory: "."}, "word", "two"},
	} {
		m, _, _ := setup(t)
		m.cfg.GitRepos, m.cfg.Command = true, Execute
		p := podWith(corev1.VolumeSource{GitRepo: &test.source})
		made, err := m.Setup(t.Context(), p, &corev1.PodStatus{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		file := filepath.Join(made.Mounts["v"], test.file)
		if got, err := os.ReadFile(file); err != nil || string(got) != test.want {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); err != nil {
			t.Errorf("%s, again: %v", name, err)
		}
		if got, _ := os.ReadFile(file); string(got) != "mine" {
			t.Errorf("%s: what the pod has written is now %q", name, got)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(made.Mounts["v"]), ".*.making")); len(left) > 0 {
			t.Errorf("%s: %q are left", name, left)
		}
	}
}

func TestGitReposAreRefused(t *testing.T) {
	t.Parallel()
	url, _ := repository(t)
	here := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", here).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, test := range map[string]struct {
		source corev1.GitRepoVolumeSource
		off    bool
		want   string
	}{
		"by default":            {corev1.GitRepoVolumeSource{Repository: url}, true, "git-repo volume plugin has been disabled; if necessary, it may be re-enabled by the node agent's option --git-repo-volumes"},
		"an option":             {corev1.GitRepoVolumeSource{Repository: "--upload-pack=touch /tmp/x"}, false, `"--upload-pack=touch /tmp/x" is an invalid value for repository`},
		"an option as revision": {corev1.GitRepoVolumeSource{Repository: url, Revision: "--help"}, false, `"--help" is an invalid value for revision`},
		"the node's own":        {corev1.GitRepoVolumeSource{Repository: here}, false, "transport 'file' not allowed"},
		"a program":             {corev1.GitRepoVolumeSource{Repository: "ext::sh -c touch% /tmp/x"}, false, "transport 'ext' not allowed"},
		"no such revision":      {corev1.GitRepoVolumeSource{Repository: url, Revision: "none"}, false, "failed to exec 'git checkout none'"},
		"nothing":               {corev1.GitRepoVolumeSource{Repository: url + "-none"}, false, "failed to exec 'git clone -- "},
	} {
		m, _, _ := setup(t)
		m.cfg.GitRepos, m.cfg.Command = !test.off, Execute
		p := podWith(corev1.VolumeSource{GitRepo: &test.source})
		_, err := m.Setup(t.Context(), p, &corev1.PodStatus{})
		if err == nil || !strings.HasPrefix(err.Error(), `MountVolume.SetUp failed for volume "v" : `) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
		if _, err := os.Stat(m.folder(p, &p.Spec.Volumes[0])); !os.IsNotExist(err) {
			t.Errorf("%s: the next try would take the folder for whole: %v", name, err)
		}
	}
}

// A clone that was cut off by the agent's end is begun anew.
func TestGitRepoIsCutOff(t *testing.T) {
	t.Parallel()
	url, _ := repository(t)
	m, _, _ := setup(t)
	m.cfg.GitRepos, m.cfg.Command = true, Execute
	p := podWith(corev1.VolumeSource{GitRepo: &corev1.GitRepoVolumeSource{Repository: url}})
	dir := m.folder(p, &p.Spec.Volumes[0])
	half := filepath.Join(filepath.Dir(dir), ".v.making", "site")
	if err := os.MkdirAll(half, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "word"), []byte("ha"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Setup(t.Context(), p, &corev1.PodStatus{}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "site", "word")); string(got) != "two" {
		t.Errorf("got %q", got)
	}
}
