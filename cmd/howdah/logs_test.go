package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/database"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/kit/pgtest"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/rpc"
	"howdah.dev/migrations"
	"howdah.dev/nodeagent"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	logsv1 "howdah.dev/proto/gen/howdah/logs/v1"
	"howdah.dev/services/logs"
)

// logPatience bounds what a test of logs waits for.
const logPatience = 2 * time.Minute

// within polls until try succeeds: what is waited for tells nobody of itself.
func within(t *testing.T, what string, try func() error) {
	t.Helper()
	deadline := time.Now().Add(logPatience)
	for err := try(); err != nil; err = try() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// background runs a part until the function that it returns is called, or the test ends.
func background(t *testing.T, part func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := part(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// containers are those of every pod: one, named main, whose id is made of the pod's.
func containers(_ context.Context, uid string) ([]*runtimeapi.Container, error) {
	return []*runtimeapi.Container{{Id: "container-of-" + uid, Metadata: &runtimeapi.ContainerMetadata{Name: "main"}}}, nil
}

// say appends lines to the log of a pod's container, as a runtime does.
func say(t *testing.T, dir string, p *corev1.Pod, texts ...string) {
	t.Helper()
	folder := filepath.Join(dir, p.Namespace+"_"+p.Name+"_"+string(p.UID), "main")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(folder, "0.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, text := range texts {
		if _, err := fmt.Fprintf(f, "%s stdout F %s\n", time.Now().UTC().Format(time.RFC3339Nano), text); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStandaloneLogs has lines of a pod that is gone found, over mutual TLS from the node and REST from the user.
func TestStandaloneLogs(t *testing.T) {
	t.Parallel()
	nodes := freePort(t)
	admin, address, dir := runStandalone(t, "--logs", "--node-listen", nodes)
	kubeconfig := filepath.Join(dir, "admin", "kubeconfig")
	certified(t, dir, address, "n1", pki.Options{Nodes: []string{"n1"}})
	identity, err := rpc.LoadIdentity(filepath.Join(dir, "n1"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := rpc.Dial("passthrough:///"+nodes, identity.Client("apiserver"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	if _, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var pod *corev1.Pod
	within(t, "a pod", func() (err error) { // the service account is made by a controller
		pod, err = admin.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "speaker", Labels: map[string]string{"app": "speaker"}},
			Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "main", Image: "x"}}},
		}, metav1.CreateOptions{})
		return err
	})
	logDir := t.TempDir()
	collector := nodeagent.NewLogCollector(nodeagent.Config{Logs: logsv1.NewCollectServiceClient(conn), LogDir: logDir, RootDir: t.TempDir()}, containers)
	background(t, collector.Run)
	say(t, logDir, pod, "hello", "these are my last words")
	if err := admin.CoreV1().Pods("default").Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
		t.Fatal(err)
	}
	collector.Leaving(logDir + "/default_speaker_" + string(pod.UID))
	if err := os.RemoveAll(filepath.Join(logDir, "default_speaker_"+string(pod.UID))); err != nil {
		t.Fatal(err)
	}
	within(t, "the last words", func() error {
		out, err := execute(t, "search-logs", "--kubeconfig", kubeconfig, "-n", "default", `"last words"`, "-l", "app=speaker", "-o", "wide")
		if err == nil && !strings.Contains(out, "[default/pod/speaker/main restarts=0 node=n1 stdout] these are my last words\n") {
			err = fmt.Errorf("%q", out)
		}
		return err
	})
	if out, err := execute(t, "search-logs", "--kubeconfig", kubeconfig, "-A", "-o", "raw"); err != nil || out != "hello\nthese are my last words\n" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := execute(t, "search-logs", "--kubeconfig", kubeconfig, "-n", "other"); err != nil || out != "No lines found.\n" {
		t.Errorf("%q, %v", out, err)
	}
	for part, args := range map[string][]string{
		`query: a phrase has no closing "`: {`"open`},
		`unknown output format "xml"`:      {"-o", "xml"},
		"exclude each other":               {"-A", "-n", "x"},
		"is not positive":                  {"--tail", "0"},
	} {
		if out, err := execute(t, append([]string{"search-logs", "--kubeconfig", kubeconfig}, args...)...); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v: %v, %q", args, err, out)
		}
	}
	testWhoSearches(t, admin, kubeconfig)
}

func testWhoSearches(t *testing.T, admin kubernetes.Interface, kubeconfig string) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate.UserName = "jane"
	jane, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	search := func(options string) error {
		return jane.CoreV1().RESTClient().Get().RequestURI("/howdah/v1/logs?" + options).Do(t.Context()).Error()
	}
	for options, want := range map[string]string{
		"namespace=default": `pods is forbidden: User "jane" cannot get resource "pods/log" in API group "" in the namespace "default"`,
		"":                  `pods is forbidden: User "jane" cannot get resource "pods/log" in API group "" at the cluster scope`,
	} {
		if err := search(options); !apierrors.IsForbidden(err) || err.Error() != want {
			t.Errorf("%q: %v, want %s", options, err, want)
		}
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "log-reader"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}}}}
	if _, err := admin.RbacV1().Roles("default").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "log-reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "log-reader"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "jane"}}}
	if _, err := admin.RbacV1().RoleBindings("default").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	within(t, "jane's role", func() error { return search("namespace=default") })
	if err := search(""); !apierrors.IsForbidden(err) {
		t.Errorf("jane searches all: %v", err)
	}
	if err := jane.CoreV1().RESTClient().Post().RequestURI("/howdah/v1/logs").Do(t.Context()).Error(); err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonMethodNotAllowed {
		t.Errorf("POST: %v (%d)", err, http.StatusMethodNotAllowed)
	}
}

// wavering is a service that comes and goes, and whose answers are lost now and then.
type wavering struct {
	mu    sync.Mutex
	up    logsv1.CollectServiceClient // nil while it is away
	calls int
}

func (w *wavering) set(up logsv1.CollectServiceClient) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.up = up
}

func (w *wavering) Push(ctx context.Context, in *logsv1.PushRequest, options ...grpc.CallOption) (*logsv1.PushResponse, error) {
	w.mu.Lock()
	up := w.up
	w.calls++
	lost := w.calls%3 == 0
	w.mu.Unlock()
	if up == nil {
		return nil, status.Error(codes.Unavailable, "away")
	}
	resp, err := up.Push(ctx, in, options...)
	if err == nil && lost {
		return nil, status.Error(codes.Unavailable, "the answer is lost")
	}
	return resp, err
}

// TestLogsSurviveFaults has containers write while the database is killed, the service and the collector end and come again, answers are lost, logs are rotated
// and pods go: every line is stored once, and in order.
func TestLogsSurviveFaults(t *testing.T) {
	t.Parallel()
	db := pgtest.Start(t, pgtest.Config{})
	if err := migrations.Apply(t.Context(), db.URL()); err != nil {
		t.Fatal(err)
	}
	api, apiServer, apiWire := objecttest.New(), rpc.NewServer(nil, nil), rpc.ListenInMemory()
	apiv1.RegisterObjectServiceServer(apiServer, api)
	background(t, func(ctx context.Context) error { return apiServer.ServeUntil(ctx, apiWire) })
	apiConn, err := apiWire.Dial(rpc.User{Name: "howdah:logs"})
	if err != nil {
		t.Fatal(err)
	}
	defer apiConn.Close()
	var pods []*corev1.Pod
	for _, name := range []string{"a", "b", "c"} {
		p, err := object.For(object.NewClient(apiConn, "test"), object.Pod).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{NodeName: "n1"}})
		if err != nil {
			t.Fatal(err)
		}
		pods = append(pods, p)
	}
	service := &wavering{}
	startService := func() (stop func()) {
		s, err := logs.New(logs.Config{DatabaseURL: db.URL(), APIServer: apiConn})
		if err != nil {
			t.Fatal(err)
		}
		server, wire := rpc.NewServer(nil, nil), rpc.ListenInMemory()
		s.Register(server)
		stopRun := background(t, s.Run)
		stopServer := background(t, func(ctx context.Context) error { return server.ServeUntil(ctx, wire) })
		conn, err := wire.Dial(rpc.User{Name: "system:node:n1", Groups: []string{"system:nodes"}})
		if err != nil {
			t.Fatal(err)
		}
		service.set(logsv1.NewCollectServiceClient(conn))
		return func() {
			service.set(nil)
			server.Stop() // as a crash: calls are cut off
			stopServer()
			stopRun()
			_ = conn.Close()
		}
	}
	logDir, root := filepath.Join(t.TempDir(), "pods"), t.TempDir()
	var collector *nodeagent.LogCollector
	startCollector := func() (stop func()) {
		collector = nodeagent.NewLogCollector(nodeagent.Config{Logs: service, LogDir: logDir, RootDir: root}, containers)
		return background(t, collector.Run)
	}
	stopService, stopCollector := startService(), startCollector()

	written := 0
	write := func(lines int) {
		for range lines {
			for _, p := range pods {
				say(t, logDir, p, fmt.Sprintf("%s %06d", p.Name, written))
			}
			written++
		}
	}
	restart := func() {
		ctx, cancel := context.WithTimeout(t.Context(), logPatience)
		defer cancel()
		if err := db.Restart(ctx); err != nil {
			t.Fatal(err)
		}
	}
	rotate := func(p *corev1.Pod) {
		path := filepath.Join(logDir, "ns_"+p.Name+"_"+string(p.UID), "main", "0.log")
		if err := os.Rename(path, path+time.Now().UTC().Format(".20060102-150405.000000000")); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (lines int) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		conn, err := database.Connect(ctx, db.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(ctx))
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM howdah_logs.line").Scan(&lines); err != nil {
			t.Fatal(err)
		}
		return lines
	}
	some := func(least int) {
		within(t, "lines", func() error {
			if n := count(); n < least {
				return fmt.Errorf("%d of %d are stored", n, least)
			}
			return nil
		})
	}
	write(100)
	some(1)
	write(100)
	db.Kill9() // with what it was at
	write(100)
	rotate(pods[0])
	restart()
	write(100)
	some(400)
	stopService()
	write(100)
	rotate(pods[0])
	rotate(pods[1])
	write(100)
	stopCollector()
	write(100)
	stopService, stopCollector = startService(), startCollector()
	some(1500)
	db.Kill9()
	write(100)
	collector.Leaving(filepath.Join(logDir, "ns_c_"+string(pods[2].UID)))
	if err := os.RemoveAll(filepath.Join(logDir, "ns_c_"+string(pods[2].UID))); err != nil {
		t.Fatal(err)
	}
	restart()
	some(3 * written)
	stopCollector()
	stopService()

	conn, err := database.Connect(t.Context(), db.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, p := range pods {
		var texts []string
		err := conn.QueryRow(t.Context(), "SELECT array_agg(text ORDER BY l.position) FROM howdah_logs.line l JOIN howdah_logs.run r ON r.id = l.run WHERE pod = $1", p.Name).Scan(&texts)
		if err != nil {
			t.Fatal(err)
		}
		if len(texts) != written {
			t.Errorf("%s has %d lines of %d", p.Name, len(texts), written)
			continue
		}
		for i, text := range texts {
			if want := fmt.Sprintf("%s %06d", p.Name, i); text != want {
				t.Fatalf("line %d of %s is %q", i, p.Name, text)
			}
		}
	}
}

// TestLogsRole runs the role as its container does, with its own certificate, and asks for its health; the apiserver is away.
func TestLogsRole(t *testing.T) {
	t.Parallel()
	url, dir, address := pgtest.New(t), t.TempDir(), freePort(t)
	for _, args := range [][]string{{"pki", "--out", dir}, {"migrate", "--database-url", url}} {
		if out, err := execute(t, args...); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	root := command()
	root.SetArgs([]string{"logs", "--listen", address, "--metrics-listen", "", "--tls-dir", filepath.Join(dir, "logs"), "--database-url", url, "--apiserver", "passthrough:///127.0.0.1:1", "--max-size", "2Gi", "--log-level", "warn"})
	background(t, root.ExecuteContext)
	within(t, "the role's health", func() error {
		_, err := execute(t, "health", "--address", address, "--tls-dir", filepath.Join(dir, "logs"))
		return err
	})
	for part, args := range map[string][]string{
		"--max-size: \"0\" is no positive quantity": {"logs", "--tls-dir", filepath.Join(dir, "logs"), "--max-size", "0"},
		"database's URL is missing":                 {"logs", "--tls-dir", filepath.Join(dir, "logs")},
		"--logs-max-rate: \"x\" is no quantity":     {"nodeagent", "--tls-dir", filepath.Join(dir, "admin"), "--node-name", "n1", "--logs-max-rate", "x"},
	} {
		if _, err := execute(t, args...); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
