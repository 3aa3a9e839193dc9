package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/nodeagent/internal/fakecri"
	"howdah.dev/nodeagent/internal/verify"
)

func TestNormalize(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"nginx":                "docker.io/library/nginx:latest",
		"nginx:1.7.9":          "docker.io/library/nginx:1.7.9",
		"me/app":               "docker.io/me/app:latest",
		"localhost:5000/app:1": "localhost:5000/app:1",
		"registry.k8s.io/pause@sha256:" + strings.Repeat("a", 64): "registry.k8s.io/pause@sha256:" + strings.Repeat("a", 64),
		"UPPER": "", "": "", "a b": "",
	} {
		got, err := Normalize(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
}

type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) Event(_ *corev1.Pod, _, _, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, reason+": "+message)
}

type secrets map[string]*corev1.Secret

func (s secrets) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	if secret, ok := s[name]; ok {
		return secret, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secret"}, name)
}

// puller is one with the records, or with new ones.
func puller(t *testing.T, runtime *fakecri.Runtime, s Secrets, told Events, clk clock.PassiveClock, records Records) *Puller {
	t.Helper()
	if records == nil {
		records = verify.New(verify.Config{Dir: t.TempDir(), Clock: clk})
	}
	return NewPuller(PullerConfig{Images: runtime, Secrets: s, Records: records, Events: told, Clock: clk})
}

func TestEnsure(t *testing.T) {
	t.Parallel()
	runtime, told := fakecri.New(), &events{}
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	login := secrets{"login": {Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{
		corev1.DockerConfigJsonKey: []byte(`{"auths":{"https://private.test":{"auth":"bWU6aHVzaA=="},"other.test":{"username":"x"}}}`)}}}
	p := puller(t, runtime, login, told, clk, nil)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	ensure := func(name string, policy corev1.PullPolicy) string {
		_, err := p.Ensure(t.Context(), pod, Want{Reference: name, Policy: policy})
		if problem, ok := errors.AsType[*Problem](err); ok {
			return problem.Reason
		}
		return fmt.Sprint(err)
	}
	runtime.AddImage("docker.io/library/here:1")
	if got := ensure("here:1", corev1.PullIfNotPresent); got != "<nil>" || len(runtime.Calls()) > 0 {
		t.Errorf("present: %s, %v", got, runtime.Calls())
	}
	for want, present := range map[Want]bool{
		{Reference: "here:1"}: true, {Reference: "here:1", Policy: corev1.PullAlways}: false, {Reference: "there:1"}: false, {Reference: "A B"}: false,
	} {
		if got := p.Present(t.Context(), pod, want); got != present || len(runtime.Calls()) > 0 {
			t.Errorf("%v present: %v", want, got)
		}
	}
	if got := ensure("here:1", corev1.PullAlways); got != "<nil>" || len(runtime.Calls()) != 1 {
		t.Errorf("present, to be pulled always: %s, %v", got, runtime.Calls())
	}
	if got := ensure("there:1", corev1.PullNever); got != "ErrImageNeverPull" {
		t.Errorf("absent, never to be pulled: %s", got)
	}
	if got := ensure("there:1", ""); got != "<nil>" {
		t.Errorf("absent: %s", got)
	}
	if last := told.all[len(told.all)-1]; !strings.HasPrefix(last, `Pulled: Successfully pulled image "there:1" in 0s (0s including waiting). Image size: 1234 bytes.`) {
		t.Errorf("last event %q", last)
	}

	runtime.OnPull(func(context.Context, string) error { return status.Error(codes.Unknown, "no registry") })
	for i, want := range []string{"ErrImagePull", "ImagePullBackOff"} {
		if got := ensure("bad:1", ""); got != want {
			t.Errorf("try %d: %s, want %s", i, got, want)
		}
	}
	if last := told.all[len(told.all)-2]; last != `Failed: Failed to pull image "bad:1": no registry` {
		t.Errorf("event %q", last)
	}
	clk.Step(11 * time.Second)
	if got := ensure("bad:1", ""); got != "ErrImagePull" {
		t.Errorf("after its back-off: %s", got)
	}
	clk.Step(11 * time.Second)
	if got := ensure("bad:1", ""); got != "ImagePullBackOff" {
		t.Errorf("the second back-off is no longer: %s", got)
	}
	if n := testutil.CollectAndCount(p.seconds); n != 1 {
		t.Errorf("pulls of %d sizes are measured, not of one", n)
	}
	p.Forget(pod.UID)
	if got := ensure("bad:1", ""); got != "ErrImagePull" {
		t.Errorf("forgotten: %s", got)
	}

	runtime.OnPull(nil)
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "none"}, {Name: "login"}}
	if got := ensure("private.test/app:1", ""); got != "<nil>" || !slices.Contains(runtime.Calls(), "PullImage private.test/app:1 as me") {
		t.Errorf("with a login: %s, %v", got, runtime.Calls())
	}
}

func TestPodsSharePulls(t *testing.T) {
	t.Parallel()
	runtime := fakecri.New()
	begun, release := make(chan struct{}, 10), make(chan struct{})
	runtime.OnPull(func(context.Context, string) error {
		begun <- struct{}{}
		<-release
		return nil
	})
	p := puller(t, runtime, secrets{}, &events{}, clocktesting.NewFakeClock(time.Now()), nil)
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: fmt.Sprint(i)}}
			if _, err := p.Ensure(t.Context(), pod, Want{Reference: "i:1"}); err != nil {
				t.Error(err)
			}
		})
	}
	<-begun
	waiting := func() int { p.mu.Lock(); defer p.mu.Unlock(); return len(p.flights) }
	if waiting() != 1 {
		t.Errorf("%d pulls at once", waiting())
	}
	close(release)
	wg.Wait()
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		server, image string
		want          bool
	}{
		{"https://index.docker.io/v1/", "nginx", true},
		{"docker.io", "me/app:1", true},
		{"registry.test", "registry.test/app", true},
		{"registry.test", "other.test/app", false},
		{"*.test", "registry.test/app", true},
		{"*.test", "a.b.test/app", false},
		{"registry.test/team", "registry.test/team/app", true},
		{"registry.test/team", "registry.test/teams/app", false},
		{"registry.test:5000", "registry.test:5000/app", true},
	} {
		if got := matches(test.server, test.image); got != test.want {
			t.Errorf("%s for %s: %v", test.server, test.image, got)
		}
	}
}

func archiveOf(t *testing.T, files map[string][]byte) string {
	t.Helper()
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for name, data := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "a.tar")
	if err := os.WriteFile(name, buffer.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// check reads every blob and compares it with its digest.
func check(t *testing.T, file string) []namedImage {
	t.Helper()
	a, err := openArchive(file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	blobs, images, err := a.content()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[digest.Digest]bool{}
	for _, b := range blobs {
		r, err := b.open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if digest.FromBytes(data) != b.Digest || int64(len(data)) != b.Size {
			t.Errorf("%s %s is not what it says", b.MediaType, b.Digest)
		}
		for _, child := range b.children {
			if !seen[child] {
				t.Errorf("%s comes before its child %s", b.Digest, child)
			}
		}
		seen[b.Digest] = true
	}
	for _, image := range images {
		if !seen[image.target.Digest] {
			t.Errorf("%s points nowhere", image.name)
		}
	}
	return images
}

func TestArchives(t *testing.T) {
	t.Parallel()
	layer := []byte("a layer")
	config := encode(t, map[string]any{"rootfs": map[string]any{"type": "layers", "diff_ids": []digest.Digest{digest.FromBytes(layer)}}})
	docker := archiveOf(t, map[string][]byte{
		"l/layer.tar": layer, "c.json": config,
		"manifest.json": encode(t, []map[string]any{{"Config": "c.json", "RepoTags": []string{"x:1", "y:2"}, "Layers": []string{"l/layer.tar"}}}),
	})
	if images := check(t, docker); len(images) != 2 || images[1].name != "y:2" {
		t.Errorf("images %v", images)
	}
	blobName := func(data []byte) string { return "blobs/sha256/" + digest.FromBytes(data).Encoded() }
	describe := func(kind string, data []byte) descriptor {
		return descriptor{MediaType: kind, Digest: digest.FromBytes(data), Size: int64(len(data))}
	}
	c := describe("application/vnd.oci.image.config.v1+json", config)
	m := encode(t, manifest{SchemaVersion: 2, MediaType: typeManifest, Config: &c, Layers: []descriptor{describe("application/vnd.oci.image.layer.v1.tar", layer)}})
	top := describe(typeManifest, m)
	top.Annotations = map[string]string{"io.containerd.image.name": "z:3"}
	oci := archiveOf(t, map[string][]byte{
		blobName(layer): layer, blobName(config): config, blobName(m): m, "index.json": encode(t, manifest{SchemaVersion: 2, Manifests: []descriptor{top}}),
	})
	if images := check(t, oci); len(images) != 1 || images[0].name != "z:3" {
		t.Errorf("images %v", images)
	}
	for name, files := range map[string]map[string][]byte{
		"empty":         {},
		"no layer":      {"c.json": config, "manifest.json": encode(t, []map[string]any{{"Config": "c.json", "Layers": []string{"gone"}}})},
		"no config":     {"manifest.json": encode(t, []map[string]any{{"Config": "c.json"}})},
		"layers differ": {"c.json": config, "manifest.json": encode(t, []map[string]any{{"Config": "c.json"}})},
		"not JSON":      {"manifest.json": []byte("{")},
		"no blob":       {"index.json": encode(t, manifest{Manifests: []descriptor{top}})},
	} {
		a, err := openArchive(archiveOf(t, files))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.content(); err == nil {
			t.Errorf("%s: no error", name)
		}
		a.Close()
	}
}
