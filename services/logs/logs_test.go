package logs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/object"
	"howdah.dev/kit/pgtest"
	"howdah.dev/kit/rpc"
	"howdah.dev/migrations"
	logsv1 "howdah.dev/proto/gen/howdah/logs/v1"
	"howdah.dev/services/apiserver"
)

const patience = 2 * time.Minute

// cluster is a real apiserver and the service, over one database.
type cluster struct {
	t      testing.TB
	admin  *object.Client
	logs   rpc.InMemory
	server *Server
}

func start(t testing.TB, configure ...func(*Config)) *cluster {
	t.Helper()
	url := pgtest.New(t, pgtest.Template{Name: "service", Setup: migrations.Apply})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	api, err := apiserver.New(apiserver.Config{DatabaseURL: url, ServiceAccountKey: key})
	if err != nil {
		t.Fatal(err)
	}
	run(t, api.Run)
	select {
	case <-api.Ready():
	case <-time.After(patience):
		t.Fatal("the apiserver does not become ready")
	}
	wire := serve(t, api)
	c := &cluster{t: t, admin: object.NewClient(dial(t, wire, rpc.User{Name: "admin", Groups: []string{"system:masters"}}), "test")}
	cfg := Config{
		DatabaseURL: url, APIServer: dial(t, wire, rpc.User{Name: "howdah:logs", Groups: []string{"howdah:loggers"}}),
		Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry(),
	}
	for _, change := range configure {
		change(&cfg)
	}
	if c.server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	run(t, c.server.Run)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if !c.server.Ready(ctx) {
		t.Fatal("the service does not become ready")
	}
	c.logs = serve(t, c.server)
	c.eventually("the service's role", func() error { // it is in force some time after the apiserver is ready
		_, err := object.For(object.NewClient(cfg.APIServer, "test"), object.Pod).Get(t.Context(), "default", "none")
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	c.eventually("a service account", func() error {
		_, err := object.For(c.admin, object.ServiceAccount).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}})
		return err
	})
	for _, name := range []string{"n1", "n2"} {
		if _, err := object.For(c.admin, object.Node).Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// eventually polls, as what is waited for tells nobody of itself.
func (c *cluster) eventually(what string, try func() error) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for err := try(); err != nil; err = try() {
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func run(t testing.TB, part func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
}

func serve(t testing.TB, s interface {
	Register(grpc.ServiceRegistrar)
}) rpc.InMemory {
	listener, server := rpc.ListenInMemory(), rpc.NewServer(nil, nil)
	s.Register(server)
	run(t, func(ctx context.Context) error { return server.ServeUntil(ctx, listener) })
	return listener
}

func dial(t testing.TB, wire rpc.InMemory, user rpc.User) *grpc.ClientConn {
	t.Helper()
	conn, err := wire.Dial(user)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (c *cluster) pod(name, node string, labels map[string]string) *corev1.Pod {
	c.t.Helper()
	created, err := object.For(c.admin, object.Pod).Create(c.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "x"}}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return created
}

func (c *cluster) remove(p *corev1.Pod) {
	c.t.Helper()
	if err := object.For(c.admin, object.Pod).Delete(c.t.Context(), p.Namespace, p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
		c.t.Fatal(err)
	}
}

// lines are a run's of the pod, a millisecond apart.
func lines(p *corev1.Pod, id string, texts ...string) *logsv1.Run {
	r := &logsv1.Run{Id: id, Namespace: p.Namespace, Pod: p.Name, PodUid: string(p.UID), Container: "c"}
	now := time.Now().Add(-time.Second)
	for i, text := range texts {
		r.Entries = append(r.Entries, &logsv1.Entry{Position: int64(i + 1), Time: now.Add(time.Duration(i) * time.Millisecond).UnixNano(), Source: logsv1.Source_SOURCE_STDERR, Text: []byte(text)})
	}
	return r
}

func (c *cluster) push(user string, runs ...*logsv1.Run) (*logsv1.PushResponse, error) {
	conn := dial(c.t, c.logs, rpc.User{Name: user, Groups: []string{"system:nodes"}})
	resp, err := logsv1.NewCollectServiceClient(conn).Push(c.t.Context(), &logsv1.PushRequest{Runs: runs})
	return resp, apistatus.FromGRPC(err)
}

func (c *cluster) search(r *logsv1.SearchRequest) (*logsv1.SearchResponse, error) {
	conn := dial(c.t, c.logs, rpc.User{Name: "howdah:gateway", Groups: []string{"howdah:gateways"}})
	resp, err := logsv1.NewSearchServiceClient(conn).Search(c.t.Context(), r)
	return resp, apistatus.FromGRPC(err)
}

func (c *cluster) found(r *logsv1.SearchRequest) string {
	c.t.Helper()
	resp, err := c.search(r)
	if err != nil {
		c.t.Fatal(err)
	}
	var texts []string
	for _, l := range resp.GetLines() {
		texts = append(texts, fmt.Sprintf("%s/%s/%s@%s %s %s", l.GetNamespace(), l.GetPod(), l.GetContainer(), l.GetNode(), l.GetStream(), l.GetText()))
	}
	return strings.Join(texts, "\n")
}

func TestNodesTellOfTheirOwnPods(t *testing.T) {
	t.Parallel()
	c := start(t)
	mine, others := c.pod("mine", "n1", map[string]string{"app": "web"}), c.pod("others", "n2", nil)
	gone := c.pod("gone", "n1", map[string]string{"app": "gone"})
	c.remove(gone)
	again := c.pod("gone", "n2", nil) // of the same name, elsewhere
	theirs := c.pod("theirs", "n2", nil)
	c.remove(theirs)
	stranger := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stranger", UID: "none"}}
	resp, err := c.push("system:node:n1", lines(mine, "a", "first", "second"), lines(others, "b", "no"), lines(gone, "c", "last words"), lines(again, "d", "no"),
		lines(theirs, "e", "no"), lines(stranger, "f", "no"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"2 ", "0 the pod is not bound to node \"n1\"", "1 ", "0 the pod is not bound to node \"n1\"", "0 the pod is not bound to node \"n1\"", "0 the API knows no such pod"} {
		o := resp.GetOutcomes()[i]
		if got := fmt.Sprintf("%d %s", o.GetPosition(), o.GetRefused()); got != want || o.GetRetry() != (i == 5) {
			t.Errorf("run %d: %s, retry %v; want %s", i, got, o.GetRetry(), want)
		}
	}
	want := "default/gone/c@n1 stderr last words\ndefault/mine/c@n1 stderr second\ndefault/mine/c@n1 stderr first"
	if got := c.found(&logsv1.SearchRequest{Namespace: "default", Query: "s"}); strings.Count(got, "\n") != 2 || !strings.Contains(got, "last words") {
		t.Errorf("found:\n%s\nwant, in the order of their times:\n%s", got, want)
	}
	for selector, text := range map[string]string{"app=gone": "last words", "app": "first", "app=web": "second"} {
		if got := c.found(&logsv1.SearchRequest{LabelSelector: selector}); !strings.Contains(got, text) {
			t.Errorf("%s: %q", selector, got)
		}
	}
	if got := testutil.ToFloat64(c.server.metrics.lines.WithLabelValues("refused")); got != 4 {
		t.Errorf("%v lines were refused, want 4", got)
	}
}

func TestStaticPodsAreKnownByTheirMirrors(t *testing.T) {
	t.Parallel()
	c := start(t)
	node, err := object.For(c.admin, object.Node).Get(t.Context(), "", "n1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = object.For(c.admin, object.Pod).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "static-n1", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "hash"}, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: "n1", UID: node.UID, Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "x"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	static := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "static-n1", UID: "hash"}}
	resp, err := c.push("system:node:n1", lines(static, "a", "x"))
	if err != nil || resp.GetOutcomes()[0].GetPosition() != 1 {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestWhoMayCall(t *testing.T) {
	t.Parallel()
	c := start(t)
	for user, groups := range map[string]string{"system:node:n1": "others", "jane": "system:nodes", "system:node:": "system:nodes", "howdah:gateway": "howdah:gateways"} {
		conn := dial(t, c.logs, rpc.User{Name: user, Groups: []string{groups}})
		if _, err := logsv1.NewCollectServiceClient(conn).Push(t.Context(), &logsv1.PushRequest{}); !apierrors.IsForbidden(apistatus.FromGRPC(err)) {
			t.Errorf("%s of %s pushes: %v", user, groups, err)
		}
		if _, err := logsv1.NewSearchServiceClient(conn).Search(t.Context(), &logsv1.SearchRequest{}); apierrors.IsForbidden(apistatus.FromGRPC(err)) == (groups == gatewaysGroup) {
			t.Errorf("%s of %s searches: %v", user, groups, err)
		}
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	c := start(t)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"}}
	change := func(how func(r *logsv1.Run)) *logsv1.Run {
		r := lines(p, "a", "x", "y")
		how(r)
		return r
	}
	for want, run := range map[string]*logsv1.Run{
		`runs[0].id: "" is empty, or stands twice`:                            change(func(r *logsv1.Run) { r.Id = "" }),
		"runs[0].namespace: is empty, or longer than 253 bytes":               change(func(r *logsv1.Run) { r.Namespace = "" }),
		"runs[0].podUid: is empty, or longer than 253 bytes":                  change(func(r *logsv1.Run) { r.PodUid = strings.Repeat("u", 254) }),
		"runs[0].restartCount: -1 is negative":                                change(func(r *logsv1.Run) { r.RestartCount = -1 }),
		"runs[0].entries[0].position: 0 is not more than 0":                   change(func(r *logsv1.Run) { r.Entries[0].Position = 0 }),
		"runs[0].entries[1].position: 1 is not more than 1":                   change(func(r *logsv1.Run) { r.Entries[1].Position = 1 }),
		"2 lines of 9000001 bytes are more than 50000, or than 8388608 bytes": change(func(r *logsv1.Run) { r.Entries[0].Text = make([]byte, 9_000_000) }),
	} {
		if _, err := c.push("system:node:n1", run); !apierrors.IsBadRequest(err) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := c.push("system:node:n1", lines(p, "a"), lines(p, "a")); !apierrors.IsBadRequest(err) {
		t.Errorf("a run that stands twice: %v", err)
	}
	for part, r := range map[string]*logsv1.SearchRequest{
		"labelSelector: ":                       {LabelSelector: "a in"},
		"query: a phrase has no closing":        {Query: `"a`},
		`order: "up" is neither asc nor desc`:   {Order: "up"},
		"limit: 5001 is not between 1 and 5000": {Limit: 5001},
		"limit: -1 is not":                      {Limit: -1},
		`since: "x" is neither`:                 {Since: "x"},
		"continue: it is no token":              {Continue: "x"},
	} {
		if _, err := c.search(r); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %s", err, part)
		}
	}
}

func TestRateIsBounded(t *testing.T) {
	t.Parallel()
	c := start(t, func(cfg *Config) { cfg.Rate = 1 << 10 })
	p := c.pod("loud", "n1", nil)
	if _, err := c.push("system:node:n1", lines(p, "a", strings.Repeat("x", 20<<10))); err != nil {
		t.Fatal(err)
	}
	_, err := c.push("system:node:n1", lines(p, "a", "x", "y"))
	if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok || seconds < 1 || seconds > 11 {
		t.Errorf("%v, %d seconds", err, seconds)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Retention: time.Minute, MaxBytes: 1, Rate: 1})
	for _, part := range []string{"database's URL", "connection to the apiserver", "retention of 1m0s", "room of 1 bytes", "rate of 1 bytes"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("no %q in %v", part, err)
		}
	}
}
