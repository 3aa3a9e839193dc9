package netpol

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"howdah.dev/nodeagent/bpf"
	"howdah.dev/nodeagent/internal/pinned"

	"howdah.dev/nodeagent/internal/route/netnstest"
)

const letIn = `{metadata: {name: let-in}, spec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: client}}}], ports: [{port: 80}]}]}}`

func webAndClients(n *node) (web, client, stranger *machine) {
	web = n.pod(podObject("default", "web", 2, map[string]string{"app": "web"}))
	client = n.pod(podObject("default", "client", 3, map[string]string{"app": "client"}))
	stranger = n.pod(podObject("default", "stranger", 4, nil))
	web.Echo(n.t, "tcp", ":80", "web")
	return web, client, stranger
}

// The agent goes and comes back. Between its lives its rules hold, and so they do while it comes back; what changed meanwhile is put right.
func TestRestart(t *testing.T) {
	for _, tt := range []struct {
		name       string
		withoutTCX bool
	}{{"tcx", false}, {"tc", true}} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.config = func(c *Config) { c.WithoutTCX = tt.withoutTCX }
			web, client, stranger := webAndClients(n)
			n.start(namespaceObject("default", nil), policyObject(t, letIn))
			n.passes(client.Namespace, "tcp", "10.77.0.2:80", "let in")
			n.stopped(stranger.Namespace, "tcp", "10.77.0.2:80", "not let in")
			c, err := client.Dial("tcp", "10.77.0.2:80", 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			before := n.state()
			n.stop()
			n.passes(client.Namespace, "tcp", "10.77.0.2:80", "let in, without an agent")
			n.stopped(stranger.Namespace, "tcp", "10.77.0.2:80", "not let in, without an agent")

			// While the new one comes, a stranger asks without a pause.
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			var let atomic.Bool
			go func() {
				defer close(done)
				for ctx.Err() == nil {
					if _, err := stranger.Ask("tcp", "10.77.0.2:80", 20*time.Millisecond); err == nil {
						let.Store(true)
					}
				}
			}()
			n.start(namespaceObject("default", nil), policyObject(t, letIn))
			if after := n.state(); after != before {
				t.Errorf("the same rules are written anew:\n%s\nbefore:\n%s", after, before)
			}
			n.stop()
			n.start(namespaceObject("default", nil), policyObject(t, strings.Replace(letIn, "app: client", "app: other", 1)))
			n.stop()
			n.start(namespaceObject("default", nil), policyObject(t, letIn))
			cancel()
			<-done
			if let.Load() {
				t.Error("a stranger was let in while the agent restarted")
			}
			if _, err := netnstest.Talk(c, 20*time.Second); err != nil {
				t.Errorf("an open connection, over restarts: %v", err)
			}
			n.remove(policyObject(t, letIn))
			n.passes(stranger.Namespace, "tcp", "10.77.0.2:80", "without policies")

			// A pod's end takes away what was its own.
			n.apply(policyObject(t, letIn))
			n.ns.Do(func() error {
				link, err := netlink.LinkByName(linkOf(web.sandbox))
				return errors.Join(err, netlink.LinkDel(link))
			})
			n.remove(web.object)
			if left := n.state(); strings.Contains(left, ": isolated") || strings.Count(left, "interface") != 4 {
				t.Errorf("left after the pod's end:\n%s", left)
			}
			if n.e.Stands(web.sandbox) {
				t.Error("the sandbox is still known")
			}
		})
	}
}

// state is what the pinned maps hold.
func (n *node) state() string { return n.dump() }

// A new pod waits until its rules are in force, and no longer.
func TestIsolate(t *testing.T) {
	n := newNode(t)
	_, client, stranger := webAndClients(n)
	n.start(namespaceObject("default", nil), policyObject(t, letIn))
	late := n.pod(podObject("default", "late", 5, map[string]string{"app": "web"}))
	late.Echo(t, "tcp", ":80", "late")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := n.e.Isolate(ctx, late.object, late.sandbox); err != nil { // the enforcer hears of the pod by this alone
		t.Fatal(err)
	}
	n.stopped(stranger.Namespace, "tcp", "10.77.0.5:80", "a new pod, as soon as it may run")
	n.passes(client.Namespace, "tcp", "10.77.0.5:80", "a new pod, from whom it lets in")
	if err := n.e.Isolate(ctx, onHost(late.object), "without an interface"); err != nil {
		t.Errorf("a sandbox that has no interface: %v", err)
	}
}

// Where the programs cannot be loaded, pods of no policy run, and others do not.
func TestIsolateWithoutPrograms(t *testing.T) {
	t.Parallel()
	e, err := New(Config{Pins: t.TempDir(), Link: linkOf}) // which is on no bpffs
	if err != nil {
		t.Fatal(err)
	}
	e.Update(t.Context(), policyObject(t, letIn))
	e.Synced()
	if err := e.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "is not on a bpf file system") {
		t.Fatalf("it runs: %v", err)
	}
	if err := e.Isolate(t.Context(), podObject("default", "other", 2, nil), "a"); err != nil {
		t.Errorf("a pod of no policy: %v", err)
	}
	if err := e.Isolate(t.Context(), podObject("default", "web", 3, map[string]string{"app": "web"}), "b"); err == nil {
		t.Error("a pod that a policy is about may run")
	}
}

// faulty fails every fifth write.
type faulty[K comparable, V any] struct {
	pinned.Map[K, V]
	writes *atomic.Int64
	armed  *atomic.Bool
}

func (f faulty[K, V]) fail() error {
	if f.armed.Load() && f.writes.Add(1)%5 == 0 {
		return errors.New("injected")
	}
	return nil
}

func (f faulty[K, V]) Put(key K, value V) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.Map.Put(key, value)
}

func (f faulty[K, V]) Delete(key K) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.Map.Delete(key)
}

// Writes fail, and are made again: in the end the maps hold what they hold without faults.
func TestFaults(t *testing.T) {
	n := newNode(t)
	var writes atomic.Int64
	var armed atomic.Bool
	n.wrap = func(m Maps) Maps {
		m.Subjects = faulty[uint32, bpf.PolicySubject]{m.Subjects, &writes, &armed}
		m.Peers = faulty[bpf.PolicyPeerKey, bpf.PolicyBits]{m.Peers, &writes, &armed}
		m.Ports = faulty[bpf.PolicyPortKey, bpf.PolicyBits]{m.Ports, &writes, &armed}
		m.Own = faulty[bpf.PolicyAddress, uint8]{m.Own, &writes, &armed}
		return m
	}
	_, client, stranger := webAndClients(n)
	armed.Store(true)
	n.start(namespaceObject("default", nil), policyObject(t, letIn))
	for i := range 3 {
		n.apply(podObject("default", sprintf("more%d", i), 100+i, map[string]string{"app": "client"}))
		n.apply(policyObject(t, strings.Replace(letIn, "port: 80", sprintf("port: %d, endPort: 90", 70+i), 1)))
		n.passes(client.Namespace, "tcp", "10.77.0.2:80", "let in")
		n.stopped(stranger.Namespace, "tcp", "10.77.0.2:80", "not let in")
	}
	n.remove(policyObject(t, letIn))
	armed.Store(false)
	n.settled()
	if left := n.state(); strings.Contains(left, "isolated, set") {
		t.Errorf("left in the maps:\n%s", left)
	}
	if failed := writes.Load() / 5; failed < 5 {
		t.Errorf("only %d writes failed", failed)
	}
}
