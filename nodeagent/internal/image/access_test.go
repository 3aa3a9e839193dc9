package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/nodeagent/internal/credential"
	"howdah.dev/nodeagent/internal/fakecri"
	"howdah.dev/nodeagent/internal/verify"
)

// dockerconfig is a Secret with a login for private.test.
func dockerconfig(name, uid, user, password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{"private.test":{"username":%q,"password":%q}}}`, user, password)},
	}
}

// reaching is a node whose agent can be started anew, with a registry that lets in those that it knows.
type reaching struct {
	t       *testing.T
	runtime *fakecri.Runtime
	told    *events
	secrets secrets
	clock   *clocktesting.FakeClock
	dir     string
	rules   verify.Rules
	records *verify.Records
	*Puller
}

func newReaching(t *testing.T, o verify.Options) *reaching {
	t.Helper()
	rules, err := o.Rules()
	if err != nil {
		t.Fatal(err)
	}
	r := &reaching{t: t, runtime: fakecri.New(), told: &events{}, secrets: secrets{}, clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), dir: t.TempDir(), rules: rules}
	r.secrets["mine"] = dockerconfig("mine", "1", "me", "hush")
	r.secrets["copy"] = dockerconfig("copy", "2", "me", "hush")
	r.secrets["other"] = dockerconfig("other", "3", "you", "hush")
	r.start()
	return r
}

// start is what an agent does that starts.
func (r *reaching) start() {
	r.t.Helper()
	r.records = verify.New(verify.Config{Dir: r.dir, Rules: r.rules, Clock: r.clock})
	if err := r.records.Load(); err != nil {
		r.t.Fatal(err)
	}
	r.Puller = puller(r.t, r.runtime, r.secrets, r.told, r.clock, r.records)
}

// get has a new pod get an image and returns how: "present", the pulls that it took, or the reason of its failure.
func (r *reaching) get(name string, policy corev1.PullPolicy, secrets ...string) string {
	r.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: types.UID(fmt.Sprint(len(r.told.all)))}}
	for _, s := range secrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: s})
	}
	before := len(r.runtime.Calls())
	want := Want{Reference: name, Policy: policy}
	here := r.Present(r.t.Context(), pod, want)
	_, err := r.Ensure(r.t.Context(), pod, want)
	pulls := slices.Clone(r.runtime.Calls()[before:])
	if problem, ok := errors.AsType[*Problem](err); ok {
		return problem.Reason
	}
	if err != nil {
		return err.Error()
	}
	if here != (len(pulls) == 0) {
		r.t.Errorf("%s: present %v, pulls %q", name, here, pulls)
	}
	if len(pulls) == 0 {
		return "present"
	}
	return strings.ReplaceAll(strings.Join(pulls, ", "), "PullImage "+name, "pull")
}

func (r *reaching) want(what, got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func TestSecretPulledImages(t *testing.T) {
	t.Parallel()
	const app = "private.test/app:1"
	r := newReaching(t, verify.Options{})
	r.want("first", r.get(app, corev1.PullIfNotPresent, "mine"), "pull as me")
	for range 2 {
		r.want("with its secret", r.get(app, corev1.PullIfNotPresent, "mine"), "present")
		r.want("with the same login in another secret", r.get(app, corev1.PullNever, "copy"), "present")
		r.want("without any, never", r.get(app, corev1.PullNever), "ErrImageNeverPull")
		if last := r.told.all[len(r.told.all)-1]; last != `ErrImageNeverPull: Container image "private.test/app:1" is not present with pull policy of Never` {
			t.Errorf("event %q", last)
		}
		r.want("with another login, never", r.get(app, corev1.PullNever, "other"), "ErrImageNeverPull")
		r.start() // an agent that starts knows as much
	}

	r.runtime.OnPull(func(context.Context, string) error { return status.Error(codes.Unknown, "403 Forbidden") })
	r.want("another login that the registry does not take", r.get(app, corev1.PullIfNotPresent, "other"), "ErrImagePull")
	r.want("nor without", r.get(app, corev1.PullIfNotPresent), "ErrImagePull")
	r.want("with its secret, though the registry is gone", r.get(app, corev1.PullIfNotPresent, "mine"), "present")
	r.secrets["mine"] = dockerconfig("mine", "1", "me", "new")
	r.want("with what its secret holds since", r.get(app, corev1.PullIfNotPresent, "mine"), "present")
	r.secrets["mine"] = dockerconfig("mine", "9", "me", "newer")
	r.want("with another secret of that name", r.get(app, corev1.PullIfNotPresent, "mine"), "ErrImagePull")

	r.runtime.OnPull(nil)
	r.want("another login that the registry takes", r.get(app, corev1.PullIfNotPresent, "other"), "pull as you")
	r.want("and then", r.get(app, corev1.PullNever, "other"), "present")
	r.want("and the first still", r.get(app, corev1.PullNever, "copy"), "present")
	r.want("without any login, from a registry that asks for none", r.get(app, corev1.PullIfNotPresent), "pull")
	r.want("and then", r.get(app, corev1.PullNever), "present")
	if last := r.told.all[len(r.told.all)-1]; last != `Pulled: Container image "private.test/app:1" already present on machine and can be accessed by the pod` {
		t.Errorf("event %q", last)
	}
	for _, event := range r.told.all {
		if strings.Contains(event, "hush") {
			t.Errorf("a password is told: %s", event)
		}
	}
	if n := testutil.ToFloat64(r.ensured.WithLabelValues("never", "true", "false")); n != 3 {
		t.Errorf("counted %v images that pods could use", n)
	}
}

func TestPreloadedImages(t *testing.T) {
	t.Parallel()
	for policy, want := range map[verify.Policy]string{
		"": "present present", verify.NeverVerifyPreloadedImages: "present present", verify.NeverVerify: "present present",
		verify.AlwaysVerify: "ErrImageNeverPull ErrImageNeverPull", verify.NeverVerifyAllowlistedImages: "present ErrImageNeverPull",
	} {
		o := verify.Options{Policy: policy}
		if policy == verify.NeverVerifyAllowlistedImages {
			o.Allowlist = []string{"listed.test/*"}
		}
		r := newReaching(t, o)
		r.runtime.AddImage("listed.test/app:1")
		r.runtime.AddImage("other.test/app:1")
		r.want(string(policy), r.get("listed.test/app:1", corev1.PullNever)+" "+r.get("other.test/app:1", corev1.PullNever), want)
	}
	r := newReaching(t, verify.Options{Policy: verify.NeverVerify})
	r.want("pulled", r.get("private.test/app:1", "", "mine"), "pull as me")
	r.want("never verified", r.get("private.test/app:1", ""), "present")
}

// A pull that is not seen to end may have brought its image.
func TestPullsThatEndUnseen(t *testing.T) {
	t.Parallel()
	const app, old = "private.test/app:1", "private.test/old:1"
	r := newReaching(t, verify.Options{})
	r.runtime.AddImage(old)
	r.runtime.OnPull(func(_ context.Context, name string) error {
		r.runtime.AddImage(name) // and the runtime's answer does not arrive
		return status.Error(codes.Unavailable, "connection lost")
	})
	sweep := func() {
		r.records.Sweep([]verify.Image{{ID: "sha256:" + app, Names: []string{app}}, {ID: "sha256:" + old, Names: []string{old}}}, r.records.Mark())
	}
	r.want("lost", r.get(app, "", "mine"), "ErrImagePull")
	r.want("lost, of one that was there", r.get(old, corev1.PullAlways, "mine"), "ErrImagePull")
	for i, then := range []func(){func() {}, r.start, sweep, r.start, sweep} {
		then()
		r.want(fmt.Sprint("what came, ", i), r.get(app, corev1.PullNever, "mine"), "ErrImageNeverPull")
		r.want(fmt.Sprint("what was there before, ", i), r.get(old, corev1.PullNever), "present")
	}
	r.runtime.OnPull(nil)
	r.want("pulled again", r.get(app, "", "mine"), "pull as me")
	r.want("and then", r.get(app, "", "mine"), "present")
}

// Pods that wait for one pull without a login have it recorded once; a pod that leaves does not end it.
func TestSharedPullIsEverybodys(t *testing.T) {
	t.Parallel()
	r := newReaching(t, verify.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	r.runtime.OnPull(func(context.Context, string) error {
		cancel()
		<-release
		return nil
	})
	if _, err := r.Ensure(ctx, &corev1.Pod{}, Want{Reference: "public.test/app:1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("the pod that left: %v", err)
	}
	r.mu.Lock()
	f := r.flights["public.test/app:1"]
	r.mu.Unlock()
	close(release)
	<-f.done
	r.want("another", r.get("public.test/app:1", corev1.PullNever, "other"), "present")
}

// logins are a node's own.
type logins []credential.Login

func (l logins) Logins(_ context.Context, image string) []credential.Login {
	if image != "private.test/app" {
		return nil
	}
	return l
}

// What is pulled with a login of the node is for all its pods; their own logins come before.
func TestNodesOwnLogins(t *testing.T) {
	t.Parallel()
	r := newReaching(t, verify.Options{})
	r.providers = logins{{Server: "private.test", Username: "node", Password: "hush"}}
	r.want("with both", r.get("private.test/app:1", "", "mine"), "pull as me")
	r.want("without its own", r.get("private.test/app:1", corev1.PullNever), "ErrImageNeverPull")
	r.want("without its own, but pulled", r.get("private.test/app:1", ""), "pull as node")
	r.want("and then", r.get("private.test/app:1", corev1.PullNever), "present")
	r.want("of another image", r.get("private.test/other:1", ""), "pull")
}
