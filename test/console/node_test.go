package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/pki"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	nodev1 "howdah.dev/proto/gen/howdah/node/v1"
)

// markup is what would show itself if it were taken for markup.
const markup = `<img src="x" onerror="window.injected = true"><script>window.injected = true</script>`

// fakeNode serves streams as a node's agent does. Logs are two lines and, where they are followed, those of more. exec is a shell with a
// prompt that echoes, and knows "size", "colour", "markup" and "exit".
type fakeNode struct {
	nodev1.UnimplementedNodeServiceServer
	more chan string
}

// startNode runs a fake node agent for a Node that it registers, and a pod on it.
func (c *cluster) startNode(pod *corev1.Pod) *fakeNode {
	c.t.Helper()
	ctx, name := c.t.Context(), c.namespace
	dir := filepath.Dir(filepath.Dir(shared.process.Kubeconfig()))
	host, _, err := net.SplitHostPort(shared.process.Address)
	c.must("split the address", err)
	c.must("make the node's certificate", pki.Init(dir, pki.Options{
		Nodes: []string{name}, AdminServer: "https://" + shared.process.Address, Hosts: map[string][]string{"gateway": {host}},
	}))
	identity, err := rpc.LoadIdentity(filepath.Join(dir, name))
	c.must("load it", err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	c.must("listen", err)
	n := &fakeNode{more: make(chan string)}
	server := rpc.NewServer(identity.Server(), nil)
	nodev1.RegisterNodeServiceServer(server, n)
	serving, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.ServeUntil(serving, listener) }()
	c.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			c.t.Error(err)
		}
	})

	_, port, err := net.SplitHostPort(listener.Addr().String())
	c.must("split the address", err)
	number, err := strconv.ParseInt(port, 10, 32)
	c.must("read the port", err)
	node, err := c.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	c.must("register the node", err)
	c.t.Cleanup(func() { _ = c.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}) })
	status := fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":"127.0.0.1"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}}}}`, number)
	_, err = c.CoreV1().Nodes().Patch(ctx, node.Name, "application/merge-patch+json", []byte(status), metav1.PatchOptions{}, "status")
	c.must("tell its address", err)
	pod.Spec.NodeName = name
	pod.Spec.AutomountServiceAccountToken = new(bool)
	_, err = c.CoreV1().Pods(c.namespace).Create(ctx, pod, metav1.CreateOptions{})
	c.must("make the pod", err)
	_, err = c.CoreV1().Pods(c.namespace).Patch(ctx, pod.Name, "application/merge-patch+json", []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
	c.must("tell that it runs", err)
	return n
}

// Connect implements NodeService.
func (n *fakeNode) Connect(stream grpc.BidiStreamingServer[nodev1.ConnectRequest, nodev1.ConnectResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	query, err := url.ParseQuery(first.GetOpen().GetQuery())
	if err != nil {
		return err
	}
	err = stream.Send(&nodev1.ConnectResponse{Message: &nodev1.ConnectResponse_Accepted{Accepted: &apiv1.ConnectAccepted{}}})
	if err != nil {
		return err
	}
	say := func(channel uint32, text string) error {
		return stream.Send(&nodev1.ConnectResponse{Message: &nodev1.ConnectResponse_Frame{Frame: &apiv1.ConnectFrame{Channel: channel, Data: []byte(text)}}})
	}
	if first.GetOpen().GetSubresource() == "log" {
		return n.log(stream.Context(), query, say)
	}
	return shell(stream, say)
}

func (n *fakeNode) log(ctx context.Context, query url.Values, say func(uint32, string) error) error {
	if err := say(1, "of "+query.Get("container")+"\n\x1b[31m"+markup+"\x1b[0m\n"); err != nil || query.Get("follow") != "true" {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case line := <-n.more:
			if err := say(1, line+"\n"); err != nil {
				return err
			}
		}
	}
}

// shell reads what is typed until "exit".
func shell(stream grpc.BidiStreamingServer[nodev1.ConnectRequest, nodev1.ConnectResponse], say func(uint32, string) error) error {
	size, line := "", ""
	answers := map[string]func() string{
		"size":   func() string { return size },
		"colour": func() string { return "\x1b[1;31mred\x1b[0m and \x1b[38;2;1;2;3mown\x1b[m" },
		"markup": func() string { return markup },
	}
	if err := say(1, "$ "); err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		frame := m.GetFrame()
		if frame.GetChannel() == 4 {
			size = string(frame.GetData())
			continue
		}
		for _, key := range string(frame.GetData()) {
			switch {
			case key == '\r' && line == "exit":
				return say(3, `{"metadata":{},"status":"Success"}`)
			case key == '\r':
				text := ""
				if answer, ok := answers[line]; ok {
					text = answer()
				}
				line = ""
				err = say(1, "\r\n"+text+"\r\n$ ")
			default:
				line += string(key)
				err = say(1, string(key))
			}
			if err != nil {
				return err
			}
		}
	}
}

func containers(names ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"note": markup}}}
	for _, name := range names {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: "i"})
	}
	return pod
}

func TestLogs(t *testing.T) {
	c := setup(t)
	node := c.startNode(containers("one", "two"))
	c.admin("/object/-/v1/pods/" + c.namespace + "/p/logs")
	c.page.AwaitText(".log", "of one")
	c.page.AwaitText(".log", markup)
	node.more <- "a line that came later"
	c.page.AwaitText(".log div", "a line that came later")
	c.page.Fill("[name=search]", "LATER")
	c.page.AwaitText(".log mark", "later")
	c.page.AwaitText(".table-foot", "1 of 3 lines")
	c.page.Fill("[name=container]", "two")
	c.page.Fill("[name=search]", "")
	c.page.AwaitText(".log", "of two")
	c.page.Run("document.querySelector('[name=follow]').click()")
	c.page.AwaitText(".state", "The end")
	c.untouched()
}

func TestTerminal(t *testing.T) {
	c := setup(t)
	c.startNode(containers("one"))
	c.admin("/object/-/v1/pods/" + c.namespace + "/p/terminal")
	c.page.Click("button", "Connect")
	c.page.AwaitText(".terminal .lines", "$")
	c.page.Await("document.activeElement.classList.contains('keys')")
	c.page.Type("size\r")
	c.page.AwaitText(".terminal .lines", `"Width":`)
	c.page.Type("colour\r")
	c.page.AwaitText(".terminal .bold.fc1", "red")
	c.page.Await(`[...document.querySelectorAll('.terminal span')].some((e) => e.textContent === 'own' && getComputedStyle(e).color === 'rgb(1, 2, 3)')`)
	c.page.Type("markup\r")
	c.page.AwaitText(".terminal .lines", "<img src=")
	c.page.Type("exit\r")
	c.page.AwaitText(".notice", "The command has ended.")
	c.untouched()
}

// untouched fails where a text has become markup.
func (c *cluster) untouched() {
	c.t.Helper()
	if got := c.page.Value("[window.injected, document.querySelectorAll('main img, main script').length]"); got != ",0" {
		c.t.Errorf("a text has become markup: %s", got)
	}
}

// TestTexts shows texts with markup everywhere that the cluster lets one put any.
func TestTexts(t *testing.T) {
	c := setup(t)
	ctx := t.Context()
	c.startNode(containers("one"))
	pod, err := c.CoreV1().Pods(c.namespace).Get(ctx, "p", metav1.GetOptions{})
	c.must("get the pod", err)
	_, err = c.CoreV1().Events(c.namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: c.namespace, Name: "p", UID: pod.UID},
		Reason: "Marked", Message: markup, Type: "Warning",
	}, metav1.CreateOptions{})
	c.must("tell an event", err)
	status := fmt.Sprintf(`{"status":{"message":%q,"conditions":[{"type":"Ready","status":"False","message":%q}]}}`, markup, markup)
	_, err = c.CoreV1().Pods(c.namespace).Patch(ctx, "p", "application/merge-patch+json", []byte(status), metav1.PatchOptions{}, "status")
	c.must("tell its state", err)
	c.admin("/")
	c.page.AwaitText("#warnings tbody", markup)
	c.untouched()
	object := "/object/-/v1/pods/" + c.namespace + "/p"
	for page, shown := range map[string]string{object: ".chips", object + "/events": "tbody", object + "/history": ".history"} {
		c.open(page)
		c.page.AwaitText(shown, "window.injected")
		c.untouched()
	}
	c.open(object + "/edit")
	c.page.Await("document.querySelector('.editor')?.value.includes('window.injected')")
	c.untouched()
	c.open("/list/-/v1/" + `<img src=x onerror="window.injected=true">`)
	c.page.AwaitText(".notice", "The cluster serves no <img")
	c.untouched()
	if link := c.page.Value("import('/console/dom.js').then((dom) => dom.h('a', {href: 'javascript:alert(1)'}).getAttribute('href'))"); link != "#/" {
		t.Errorf("a link leads to %s", link)
	}
}
