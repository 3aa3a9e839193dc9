package podcert

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

var start = time.Date(2026, 11, 26, 19, 0, 0, 0, time.UTC)

// bench is a Keeper of a node with one pod, and its API.
type bench struct {
	t      *testing.T
	client *object.Client
	clock  *clocktesting.FakeClock
	keeper *Keeper
	pod    *corev1.Pod
	want   *corev1.PodCertificateProjection

	mu     sync.Mutex
	events []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	_, client := objecttest.Start(t)
	b := &bench{t: t, client: client, clock: clocktesting.NewFakeClock(start)}
	b.want = &corev1.PodCertificateProjection{
		SignerName: "x.io/s", KeyType: "ECDSAP256", MaxExpirationSeconds: ptr.To[int32](7200), UserAnnotations: map[string]string{"x.io/a": "b"}, CredentialBundlePath: "both.pem",
	}
	account, err := object.For(client, object.ServiceAccount).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa"}})
	if err != nil {
		t.Fatal(err)
	}
	b.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "pod-uid"}, Spec: corev1.PodSpec{
		ServiceAccountName: account.Name,
		Volumes:            []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{PodCertificate: b.want}}}}}},
	}}
	b.keeper = b.another(nil)
	return b
}

// another is a Keeper of another life of the agent.
func (b *bench) another(registerer prometheus.Registerer) *Keeper {
	return New(Config{
		Client: b.client, NodeName: "n", Node: func() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-uid"}} },
		Pods: func() []*corev1.Pod { return []*corev1.Pod{b.pod} }, Clock: b.clock, Registerer: registerer,
		Event: func(_ *corev1.Pod, kind, reason, message string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events = append(b.events, kind+" "+reason+" "+message)
		},
	})
}

// bundle asks once, with patience that is at its end.
func (b *bench) bundle() (Bundle, error) {
	b.t.Helper()
	type answer struct {
		Bundle
		err error
	}
	done := make(chan answer, 1)
	go func() {
		got, err := b.keeper.Bundle(b.t.Context(), b.pod, "v", 0, b.want)
		done <- answer{got, err}
	}()
	for {
		select {
		case got := <-done:
			return got.Bundle, got.err
		case <-time.After(time.Millisecond):
			if b.clock.HasWaiters() {
				b.clock.Step(patience)
			}
		}
	}
}

// requests are those that there are.
func (b *bench) requests() []*certificatesv1beta1.PodCertificateRequest {
	b.t.Helper()
	all, _, err := object.For(b.client, object.PodCertificateRequest).List(b.t.Context(), "ns", metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

// end gives the open request its end.
func (b *bench) end(condition string, status certificatesv1beta1.PodCertificateRequestStatus) {
	b.t.Helper()
	for _, r := range b.requests() {
		if len(r.Status.Conditions) > 0 {
			continue
		}
		r = r.DeepCopy()
		status.Conditions = []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: "Why", Message: "because", LastTransitionTime: metav1.NewTime(b.clock.Now())}}
		r.Status = status
		if _, err := object.For(b.client, object.PodCertificateRequest).UpdateStatus(b.t.Context(), r); err != nil {
			b.t.Fatal(err)
		}
		return
	}
	b.t.Fatal("no request is open")
}

// issue signs the open request for two hours, of which the second is for its replacement.
func (b *bench) issue(chain string) {
	b.t.Helper()
	now := b.clock.Now()
	b.end(certificatesv1beta1.PodCertificateRequestConditionTypeIssued, certificatesv1beta1.PodCertificateRequestStatus{
		CertificateChain: chain, BeginRefreshAt: ptr.To(metav1.NewTime(now.Add(time.Hour))), NotAfter: ptr.To(metav1.NewTime(now.Add(2 * time.Hour))),
	})
}

func block(text string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(text)}))
}

// TestLife of a certificate: it is asked for, waited for, given, replaced in time, and told of when that fails.
func TestLife(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	registry := prometheus.NewRegistry()
	b.keeper = b.another(registry)
	states := func(when, want string) {
		t.Helper()
		text := "# HELP kubelet_podcertificate_states Sources of projected volumes that are certificates of pods, by signer and state.\n# TYPE kubelet_podcertificate_states gauge\nkubelet_podcertificate_states{signer_name=\"x.io/s\",state=\"" + want + "\"} 1\n"
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text)); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	if _, err := b.bundle(); !errors.Is(err, errNotIssued) {
		t.Fatalf("before anything is issued: %v", err)
	}
	states("asked", "not_yet_issued")
	all := b.requests()
	if len(all) != 1 {
		t.Fatalf("%d requests", len(all))
	}
	r := all[0]
	account, err := object.For(b.client, object.ServiceAccount).Get(t.Context(), "ns", "sa")
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Spec; !strings.HasPrefix(r.Name, "req-") || s.SignerName != "x.io/s" || s.PodName != "p" || s.PodUID != "pod-uid" || s.NodeName != "n" || s.NodeUID != "node-uid" ||
		s.ServiceAccountName != "sa" || s.ServiceAccountUID != account.UID || *s.MaxExpirationSeconds != 7200 || s.UnverifiedUserAnnotations["x.io/a"] != "b" ||
		len(r.OwnerReferences) != 1 || r.OwnerReferences[0].UID != "pod-uid" || r.OwnerReferences[0].Controller != nil {
		t.Errorf("asked for %+v", r)
	}
	if _, err := b.bundle(); !errors.Is(err, errNotIssued) || len(b.requests()) != 1 {
		t.Errorf("asked again: %v, %d requests", err, len(b.requests()))
	}

	b.issue("words\n" + block("first") + "more words\n" + block("its issuer"))
	first, err := b.bundle()
	if err != nil || string(first.Chain) != block("first")+block("its issuer") || !bytes.Contains(first.Key, []byte("BEGIN PRIVATE KEY")) {
		t.Fatalf("got %s, %v", first.Chain, err)
	}
	states("issued", "fresh")
	b.clock.Step(59 * time.Minute)
	if _, err := b.bundle(); err != nil || len(b.requests()) != 1 {
		t.Errorf("%d requests before it is time, %v", len(b.requests()), err)
	}
	b.clock.Step(6 * time.Minute) // the hour, and the most by which it is put off
	if got, err := b.bundle(); err != nil || len(b.requests()) != 2 || !bytes.Equal(got.Key, first.Key) {
		t.Errorf("when it is due: %d requests, %v, another key: %t", len(b.requests()), err, !bytes.Equal(got.Key, first.Key))
	}
	b.clock.Step(10 * time.Minute)
	if _, err := b.bundle(); err != nil {
		t.Error(err)
	}
	states("late", "overdue_for_refresh")
	b.clock.Step(time.Hour)
	for range 2 {
		if got, err := b.bundle(); err != nil || !bytes.Equal(got.Chain, first.Chain) {
			t.Errorf("when it has ended the pod keeps it: %s, %v", got.Chain, err)
		}
	}
	states("ended", "expired")
	want := []string{"Warning CertificateOverdueForRefresh PodCertificate refresh overdue", "Warning CertificateExpired PodCertificate expired"}
	if !slices.Equal(b.events, want) {
		t.Errorf("events %q, want %q", b.events, want)
	}
	b.issue(block("second"))
	if got, err := b.bundle(); err != nil || string(got.Chain) != block("second") || bytes.Equal(got.Key, first.Key) {
		t.Errorf("the next: %s, %v", got.Chain, err)
	}
	states("replaced", "fresh")
	b.keeper.Forget(b.pod.UID)
	if n, err := testutil.GatherAndCount(registry); err != nil || n != 0 {
		t.Errorf("%d states of a pod that is gone, %v", n, err)
	}
}

// TestRefusals stay, and are told; a request that somebody removes is made again.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]struct{ err, event, state string }{
		"Denied": {`PodCertificateRequest was permanently denied: reason="Why" message="because"`, `was denied, reason="Why", message="because"`, "denied"},
		"Failed": {`PodCertificateRequest was permanently failed: reason="Why" message="because"`, `failed, reason="Why", message="because"`, "failed"},
	} {
		b := newBench(t)
		if _, err := b.bundle(); !errors.Is(err, errNotIssued) {
			t.Fatal(err)
		}
		b.end(condition, certificatesv1beta1.PodCertificateRequestStatus{})
		for range 2 {
			if _, err := b.bundle(); err == nil || err.Error() != want.err {
				t.Errorf("%s: %v, want %s", condition, err, want.err)
			}
		}
		if len(b.events) != 1 || !strings.HasPrefix(b.events[0], "Warning "+condition+" PodCertificateRequest ns/req-") || !strings.HasSuffix(b.events[0], want.event) {
			t.Errorf("%s: events %q", condition, b.events)
		}
		if n := b.keeper.count(); n[[2]string{"x.io/s", want.state}] != 1 {
			t.Errorf("%s: states %v", condition, n)
		}
	}
	b := newBench(t)
	if _, err := b.bundle(); !errors.Is(err, errNotIssued) {
		t.Fatal(err)
	}
	old := b.requests()[0]
	if err := object.For(b.client, object.PodCertificateRequest).Delete(t.Context(), "ns", old.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.bundle(); !errors.Is(err, errNotIssued) {
		t.Fatal(err)
	}
	if all := b.requests(); len(all) != 1 || all[0].UID == old.UID {
		t.Errorf("after its removal there are %d requests", len(all))
	}
}

// TestWhatIsHeldServesWithoutTheAPI: a container that starts again has the certificate that its pod has.
func TestWhatIsHeldServesWithoutTheAPI(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, err := b.bundle(); !errors.Is(err, errNotIssued) {
		t.Fatal(err)
	}
	b.issue(block("first"))
	if _, err := b.bundle(); err != nil {
		t.Fatal(err)
	}
	b.clock.Step(2 * time.Hour)
	b.keeper.cfg.Node = func() *corev1.Node { return nil } // another cannot be asked for
	if got, err := b.bundle(); err != nil || string(got.Chain) != block("first") {
		t.Errorf("got %s, %v", got.Chain, err)
	}
}

// TestAnswerIsTakenAtOnce: who waits hears of the signer's answer, and does not wait for the end of its patience.
func TestAnswerIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- b.keeper.Run(ctx) }()
	defer func() { cancel(); <-ran }()
	done := make(chan error, 1)
	go func() {
		_, err := b.keeper.Bundle(t.Context(), b.pod, "v", 0, b.want)
		done <- err
	}()
	made, err := object.For(b.client, object.PodCertificateRequest).Watch(ctx, "ns", metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Stop()
	<-made.ResultChan()
	b.issue(block("first"))
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("still waiting") // the clock stands still
	}
}

// TestKeys are of every type that the API lets pass, and prove that whoever asks has them.
func TestKeys(t *testing.T) {
	t.Parallel()
	for kind := range makers {
		key, proof, err := newKey(kind)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		request, err := x509.ParseCertificateRequest(proof)
		if err != nil || request.CheckSignature() != nil || request.Subject.String() != "" {
			t.Errorf("%s: request of %s, %v", kind, request.Subject, err)
			continue
		}
		issuer, _ := pem.Decode(key)
		parsed, err := x509.ParsePKCS8PrivateKey(issuer.Bytes)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1)}
		der, err := x509.CreateCertificate(nil, template, template, request.PublicKey, parsed)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if _, err := tls.X509KeyPair(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, _, err := newKey("DSA"); err == nil || err.Error() != `unknown key type "DSA"` {
		t.Errorf("DSA: %v", err)
	}
}

// TestWhatIsMissing is told, and tried again by whoever asks.
func TestWhatIsMissing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.pod.Spec.ServiceAccountName = "gone"
	if _, err := b.bundle(); !apierrors.IsNotFound(err) || !strings.HasPrefix(err.Error(), "while fetching service account: ") {
		t.Errorf("without its account: %v", err)
	}
	b.pod.Spec.ServiceAccountName = "sa"
	b.keeper.cfg.Node = func() *corev1.Node { return nil }
	if _, err := b.bundle(); err == nil || err.Error() != `while getting node object from local cache: node "n" not found` {
		t.Errorf("without its node: %v", err)
	}
	if n := len(b.requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}
