package imagepolicy

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/webhook"
)

// backend denies images that are called bad, and fails while it is told to.
type backend struct {
	asked []imagepolicyv1alpha1.ImageReviewSpec
	err   error
	times int // that it fails; less than 0 for ever
	text  string
}

func (b *backend) Post(_ context.Context, call webhook.Call) ([]byte, error) {
	if call.Target.URL != "https://images.example.com/review" || call.Target.Client.Token != "secret" {
		return nil, errors.New("another target")
	}
	review := &imagepolicyv1alpha1.ImageReview{}
	if err := json.Unmarshal(call.Body, review); err != nil {
		return nil, err
	}
	b.asked = append(b.asked, review.Spec)
	if b.times != 0 {
		b.times--
		return nil, b.err
	}
	if b.text != "" {
		return []byte(b.text), nil
	}
	review.Status.Allowed = true
	for _, c := range review.Spec.Containers {
		if strings.HasPrefix(c.Image, "bad") {
			review.Status.Allowed, review.Status.Reason = false, strings.TrimPrefix(c.Image, "bad")
		}
	}
	return json.Marshal(review)
}

const kubeconfig = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: w, user: u}}],
  clusters: [{name: w, cluster: {server: "https://images.example.com/review"}}], users: [{name: u, user: {token: secret}}]}`

func plugin(t *testing.T, b *backend, more string) (*Plugin, *testingclock.FakeClock) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	clock := testingclock.NewFakeClock(time.Now())
	p, err := New([]byte("imagePolicy: {kubeConfigFile: "+path+", retryBackoff: 1"+more+"}"), b, clock)
	if err != nil {
		t.Fatal(err)
	}
	return p, clock
}

func write(image string, old *corev1.Pod) *admission.Attributes {
	kind := &registry.Kind{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods", Namespaced: true}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", Annotations: map[string]string{"a.image-policy.k8s.io/b": "c", "d": "e"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Image: image}}, InitContainers: []corev1.Container{{Image: "init"}}},
	}
	a := &admission.Attributes{
		Operation: admission.Create, Resource: &registry.Resource{Kind: kind, GVK: kind.GVK, GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}},
		Namespace: "ns", Name: "p", Object: pod, User: &authn.User{Name: "jane"},
	}
	if old != nil {
		a.Operation, a.Old = admission.Update, old
	}
	return a
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	b := &backend{}
	p, clock := plugin(t, b, "")
	ask := func(a *admission.Attributes) error {
		if !p.Handles(a) {
			t.Fatal("a pod is not handled")
		}
		return p.Validate(t.Context(), a)
	}
	if err := ask(write("good", nil)); err != nil {
		t.Error(err)
	}
	if s := b.asked[0]; s.Namespace != "ns" || len(s.Containers) != 2 || len(s.Annotations) != 1 || s.Annotations["a.image-policy.k8s.io/b"] != "c" {
		t.Errorf("asked %+v", s)
	}
	for image, want := range map[string]string{
		"bad":       `pods "p" is forbidden: one or more images rejected by webhook backend`,
		"bad smell": `pods "p" is forbidden: image policy webhook backend denied one or more images:  smell`,
	} {
		if err := ask(write(image, nil)); !apierrors.IsForbidden(err) || err.Error() != want {
			t.Errorf("%s: %v", image, err)
		}
	}
	// Answers are remembered, good ones for longer.
	asked := len(b.asked)
	clock.Step(time.Minute)
	_ = ask(write("good", nil))
	if len(b.asked) != asked {
		t.Error("a good image is asked about again")
	}
	_ = ask(write("bad", nil))
	if len(b.asked) != asked+1 {
		t.Error("a bad image is not asked about again")
	}
	// An update with the same images is nobody's business.
	if err := ask(write("bad", write("bad", nil).Object.(*corev1.Pod))); err != nil {
		t.Error(err)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	broken := apierrors.NewInternalError(errors.New("broken"))
	for name, test := range map[string]struct {
		backend backend
		more    string
		asked   int
		err     string
	}{
		"recovers":    {backend{err: broken, times: 2}, "", 3, ""},
		"stays away":  {backend{err: broken, times: -1}, "", tries, `pods "p" is forbidden: Internal error occurred: broken`},
		"is let pass": {backend{err: broken, times: -1}, ", defaultAllow: true", tries, ""},
		"refuses":     {backend{err: errors.New("no"), times: -1}, "", 1, `pods "p" is forbidden: no`},
		"is garbled":  {backend{text: "<html>"}, "", 1, `pods "p" is forbidden: answer of the image policy webhook: invalid character '<' looking for beginning of value`},
	} {
		p, _ := plugin(t, &test.backend, test.more)
		a := write("good", nil)
		err := p.Validate(t.Context(), a)
		if (err == nil) != (test.err == "") || err != nil && err.Error() != test.err || len(test.backend.asked) != test.asked {
			t.Errorf("%s: %v after %d calls", name, err, len(test.backend.asked))
		}
		if open := a.Object.GetAnnotations()[failedOpenKey] == "true"; open != (name == "is let pass") {
			t.Errorf("%s: failed open: %v", name, open)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	s, err := Read([]byte(`{"imagePolicy": {"kubeConfigFile": "/k", "allowTTL": -1, "denyTTL": 60, "defaultAllow": true}}`))
	if err != nil || s != (Settings{KubeConfigFile: "/k", DenyTTL: time.Minute, RetryBackoff: 500 * time.Millisecond, DefaultAllow: true}) {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{
		"{}": "imagePolicy.kubeConfigFile: Required value", "imagePolicy: {kubeConfigFile: a, what: b}": "unknown field",
		"imagePolicy: {kubeConfigFile: a, allowTTL: 1801}": "valid value is between 1s and 30m0s, got 30m1s",
	} {
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := New(nil, nil, nil); err == nil {
		t.Error("it runs without a configuration")
	}
}
