package stream

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/utils/clock"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	"howdah.dev/nodeagent/internal/fakecri"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	nodev1 "howdah.dev/proto/gen/howdah/node/v1"
)

// refusal opens a stream as user and returns the Status that refuses it.
func refusal(t *testing.T, user rpc.User, open *apiv1.ConnectOpen) metav1.Status {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}}}
	s := New(Config{Runtime: fakecri.New(), Clock: clock.RealClock{}, Pod: func(namespace, name string) (*corev1.Pod, bool) { return pod, namespace == "ns" && name == "p" }})
	listener := rpc.ListenInMemory()
	server := rpc.NewServer(nil, nil)
	nodev1.RegisterNodeServiceServer(server, s)
	go func() { _ = server.Server.Serve(listener) }()
	defer server.Stop()
	conn, err := listener.Dial(user)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := nodev1.NewNodeServiceClient(conn).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&nodev1.ConnectRequest{Message: &nodev1.ConnectRequest_Open{Open: open}}); err != nil && !errors.Is(err, io.EOF) { // the end of one that is refused unread: Recv tells why
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if err == nil {
		t.Fatalf("accepted: %v", m)
	}
	return apistatus.Of(apistatus.FromGRPC(err))
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	apiserver := rpc.User{Name: "apiserver", Groups: []string{Callers}}
	open := func(name, subresource, query string) *apiv1.ConnectOpen {
		return &apiv1.ConnectOpen{Version: "v1", Resource: "pods", Namespace: "ns", Name: name, Subresource: subresource, Query: query}
	}
	for name, test := range map[string]struct {
		user    rpc.User
		open    *apiv1.ConnectOpen
		code    int32
		message string
	}{
		"a node":            {rpc.User{Name: "system:node:x", Groups: []string{"system:nodes"}}, open("p", "log", ""), http.StatusForbidden, "pods is forbidden: only apiservers may open streams on a node"},
		"no such pod":       {apiserver, open("q", "log", ""), http.StatusNotFound, `pods "q" not found`},
		"which container":   {apiserver, open("p", "log", ""), http.StatusBadRequest, "a container name must be specified for pod p, choose one of: [a b]"},
		"no such container": {apiserver, open("p", "log", "container=c"), http.StatusBadRequest, "container c is not valid for pod p"},
		"waiting":           {apiserver, open("p", "log", "container=a"), http.StatusBadRequest, `container "a" in pod "p" is waiting to start: ContainerCreating`},
		"no previous":       {apiserver, open("p", "log", "container=a&previous=true"), http.StatusBadRequest, `previous terminated container "a" in pod "p" not found`},
		"bad tail":          {apiserver, open("p", "log", "container=a&tailLines=x"), http.StatusBadRequest, `tailLines: "x" is not a number of 0 or more`},
		"no streams":        {apiserver, open("p", "exec", "container=a&command=x"), http.StatusBadRequest, "you must specify at least 1 of stdin, stdout, stderr"},
		"not running":       {apiserver, open("p", "exec", "container=a&command=x&stdout=true"), http.StatusInternalServerError, `unable to upgrade connection: container not found ("a")`},
		"not running still": {apiserver, open("p", "attach", "container=a&stdout=true"), http.StatusInternalServerError, "unable to upgrade connection: container a not found in pod p_ns"},
		"no sandbox":        {apiserver, open("p", "portforward", ""), http.StatusBadRequest, "unable to forward port because pod is not running. Current status="},
		"no address":        {apiserver, open("p:80", "proxy", ""), http.StatusServiceUnavailable, "pod p has no address"},
		"bad port":          {apiserver, open("p:0", "proxy", ""), http.StatusBadRequest, "invalid port 0"},
		"what":              {apiserver, open("p", "other", ""), http.StatusBadRequest, `a pod has no stream "other"`},
	} {
		got := refusal(t, test.user, test.open)
		if got.Code != test.code || got.Message != test.message {
			t.Errorf("%s: %d %q, want %d %q", name, got.Code, got.Message, test.code, test.message)
		}
	}
}

func TestLogOptions(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	query, err := url.ParseQuery("follow=true&tailLines=5&sinceSeconds=60&timestamps=true&limitBytes=9&stream=Stderr")
	if err != nil {
		t.Fatal(err)
	}
	o, err := logOptions(query, now)
	if err != nil || !o.Follow || *o.Tail != 5 || *o.Limit != 9 || !o.Timestamps || o.Stream != "Stderr" || !o.Since.Equal(now.Add(-time.Minute)) {
		t.Errorf("options %v, %v", o, err)
	}
	if _, err := logOptions(url.Values{"sinceTime": {"yesterday"}}, now); err == nil {
		t.Error("a time that is none was taken")
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	if s := outcomeOf(nil); s.Status != metav1.StatusSuccess {
		t.Errorf("success: %v", s)
	}
	s := outcomeOf(utilexec.CodeExitError{Err: errors.New("command terminated with exit code 3"), Code: 3})
	if s.Reason != "NonZeroExitCode" || s.Details.Causes[0].Type != "ExitCode" || s.Details.Causes[0].Message != "3" {
		t.Errorf("exit code: %v", s)
	}
	if s := outcomeOf(errors.New("broken")); s.Code != http.StatusInternalServerError || s.Message != "broken" {
		t.Errorf("failure: %v", s)
	}
}

func TestSplitTarget(t *testing.T) {
	t.Parallel()
	for target, want := range map[string][3]string{"p": {"http", "p", ""}, "p:80": {"http", "p", "80"}, "https:p:web": {"https", "p", "web"}, ":p:1": {"http", "p", "1"}} {
		scheme, name, port, err := splitTarget(target)
		if err != nil || [3]string{scheme, name, port} != want {
			t.Errorf("%s: %s, %s, %s, %v", target, scheme, name, port, err)
		}
	}
}
