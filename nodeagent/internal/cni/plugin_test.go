package cni

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"

	"howdah.dev/nodeagent/internal/dump"
	"howdah.dev/nodeagent/internal/route/netnstest"
)

// The test binary is also the plugin, as howdah is.
func TestMain(m *testing.M) {
	if Requested(os.Getenv) {
		Main(os.Args[0])
		return
	}
	os.Exit(m.Run())
}

// caller plays containerd: it executes the plugin in the node's namespace.
type caller struct {
	t    *testing.T
	node *netnstest.Namespace
	conf map[string]any
}

func newCaller(t *testing.T, cidrs ...string) *caller {
	dir := t.TempDir()
	file := filepath.Join(dir, "10-howdah.conflist")
	var prefixes []netip.Prefix
	for _, c := range cidrs {
		prefixes = append(prefixes, netip.MustParsePrefix(c))
	}
	if err := WriteConfig(file, Config{PodCIDRs: prefixes, MTU: 1400, DataDir: filepath.Join(dir, "data")}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Version string           `json:"cniVersion"`
		Name    string           `json:"name"`
		Plugins []map[string]any `json:"plugins"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	conf := list.Plugins[0]
	conf["cniVersion"], conf["name"] = list.Version, list.Name
	node := netnstest.New(t, "node")
	node.Sysctl("ipv4/ip_forward", "1")
	return &caller{t: t, node: node, conf: conf}
}

// call executes one command. The output is that of the plugin, whether it failed or not.
func (r *caller) call(command, container string, ns *netnstest.Namespace, extra map[string]any) (string, error) {
	conf := map[string]any{}
	for _, m := range []map[string]any{r.conf, extra} {
		for k, v := range m {
			conf[k] = v
		}
	}
	data, err := json.Marshal(conf)
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args[0] = "howdah"
	cmd.Stdin = bytes.NewReader(data)
	cmd.Env = []string{"CNI_COMMAND=" + command, "CNI_CONTAINERID=" + container, "CNI_IFNAME=eth0", "CNI_PATH=/"}
	if ns != nil {
		cmd.Env = append(cmd.Env, "CNI_NETNS="+ns.Path())
	}
	var out []byte
	err = r.node.Try(func() (err error) { out, err = cmd.Output(); return err })
	return string(out), err
}

func (r *caller) add(container string, ns *netnstest.Namespace) types100.Result {
	r.t.Helper()
	out, err := r.call("ADD", container, ns, nil)
	if err != nil {
		r.t.Fatalf("ADD: %v: %s", err, out)
	}
	var result types100.Result
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		r.t.Fatalf("ADD answered %q: %v", out, err)
	}
	return result
}

func (r *caller) must(command, container string, ns *netnstest.Namespace, extra map[string]any) {
	r.t.Helper()
	if out, err := r.call(command, container, ns, extra); err != nil {
		r.t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// echo sends a word from one namespace to a listener in another and returns what came back and from whom.
func echo(t *testing.T, from, to *netnstest.Namespace, address string) (string, string) {
	t.Helper()
	var l net.Listener
	to.Do(func() (err error) { l, err = net.Listen("tcp", address); return err })
	defer l.Close()
	peer := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		buf := make([]byte, 32)
		n, _ := c.Read(buf)
		fmt.Fprintf(c, "echo %s", buf[:n])
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		peer <- host
	}()
	var c net.Conn
	from.Do(func() (err error) { c, err = net.DialTimeout("tcp", address, time.Minute); return err })
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprint(c, "hello")
	buf := make([]byte, 32)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n]), <-peer
}

func TestPodsReachEachOtherAndTheirNode(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cidrs []string
		want  [][]string // by pod
		port  string
	}{
		{"ipv4", []string{"10.77.5.0/24"}, [][]string{{"10.77.5.2"}, {"10.77.5.3"}}, "7001"},
		{"dual", []string{"10.77.5.0/24", "fd77:5::/64"}, [][]string{{"10.77.5.2", "fd77:5::2"}, {"10.77.5.3", "fd77:5::3"}}, "7002"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newCaller(t, tt.cidrs...)
			r.node.Sysctl("ipv6/conf/all/forwarding", "1")
			r.node.Address("lo", "192.0.2.11/32")
			r.node.Address("lo", "2001:db8::11/128")
			pods := []*netnstest.Namespace{netnstest.New(t, "a"), netnstest.New(t, "b")}
			for i, pod := range pods {
				result := r.add(fmt.Sprint("c", i), pod)
				var got []string
				for _, ip := range result.IPs {
					got = append(got, ip.Address.IP.String())
				}
				if fmt.Sprint(got) != fmt.Sprint(tt.want[i]) {
					t.Fatalf("addresses %v, want %v", got, tt.want[i])
				}
				if result.Interfaces[1].Sandbox != pod.Path() || result.Interfaces[1].Name != "eth0" {
					t.Errorf("pod interface %+v", result.Interfaces[1])
				}
				r.must("CHECK", fmt.Sprint("c", i), pod, map[string]any{"prevResult": result})
			}
			for i := range tt.want[0] {
				a, b := tt.want[0][i], tt.want[1][i]
				if word, peer := echo(t, pods[0], pods[1], net.JoinHostPort(b, tt.port)); word != "echo hello" || peer != a {
					t.Errorf("pod to pod: %q from %s", word, peer)
				}
				if word, _ := echo(t, r.node, pods[1], net.JoinHostPort(b, tt.port)); word != "echo hello" {
					t.Errorf("node to pod: %q", word)
				}
				host := []string{"192.0.2.11", "2001:db8::11"}[i]
				if word, peer := echo(t, pods[0], r.node, net.JoinHostPort(host, tt.port)); word != "echo hello" || peer != a {
					t.Errorf("pod to node: %q from %s", word, peer)
				}
			}
			pods[0].Do(func() error {
				l, err := netlink.LinkByName("eth0")
				if err == nil && l.Attrs().MTU != 1400 {
					t.Errorf("MTU %d, want 1400", l.Attrs().MTU)
				}
				return err
			})
		})
	}
}

func (r *caller) timings() Timings { return Timings{DataDir: r.conf["dataDir"].(string)} }

func TestAddTellsWhenItWas(t *testing.T) {
	r := newCaller(t, "10.77.8.0/24")
	before := time.Now()
	result := r.add("one", netnstest.New(t, "pod"))
	added, ok := r.timings().Take("one")
	if !ok || added.Began.Before(before) || !added.Ended.After(added.Began) || added.Ended.After(time.Now()) {
		t.Errorf("ADD left %+v, %v", added, ok)
	}
	if len(added.Addresses) != 1 || !result.IPs[0].Address.IP.Equal(added.Addresses[0].AsSlice()) {
		t.Errorf("addresses %v, want %v", added.Addresses, result.IPs)
	}
	if _, ok := r.timings().Take("one"); ok {
		t.Error("the note is there after it was taken")
	}
	if _, ok := r.timings().Take("../ledger"); ok {
		t.Error("a name led out of the folder")
	}
}

func TestDelIsIdempotentAndAddressesRest(t *testing.T) {
	r := newCaller(t, "10.77.6.0/24")
	pod := netnstest.New(t, "pod")
	first := r.add("one", pod)
	if again := r.add("one", pod); again.IPs[0].Address.String() != first.IPs[0].Address.String() {
		t.Errorf("a repeated ADD got %s after %s", again.IPs[0].Address.String(), first.IPs[0].Address.String())
	}
	r.must("DEL", "one", pod, nil)
	if _, ok := r.timings().Take("one"); ok {
		t.Error("DEL left the note of ADD")
	}
	r.must("DEL", "one", pod, nil)
	r.must("DEL", "one", nil, nil) // its namespace is gone
	r.must("DEL", "never-added", nil, nil)
	r.node.Do(func() error {
		links, err := dump.Whole(netlink.LinkList)
		if err == nil && len(links) != 1 {
			t.Errorf("links left: %v", links)
		}
		return err
	})
	if next := r.add("two", pod); next.IPs[0].Address.IP.Equal(first.IPs[0].Address.IP) {
		t.Errorf("address %s was given out again at once", next.IPs[0].Address.IP)
	}
}

func TestGarbageCollection(t *testing.T) {
	r := newCaller(t, "10.77.7.0/24")
	kept, lost := netnstest.New(t, "kept"), netnstest.New(t, "lost")
	keep := r.add("kept", kept)
	r.add("lost", lost)
	r.must("GC", "", nil, map[string]any{"cni.dev/valid-attachments": []map[string]string{{"containerID": "kept", "ifname": "eth0"}}})
	r.must("CHECK", "kept", kept, map[string]any{"prevResult": keep})
	if _, ok := r.timings().Take("lost"); ok {
		t.Error("GC left the lost pod's note of ADD")
	}
	if _, ok := r.timings().Take("kept"); !ok {
		t.Error("GC took the kept pod's note of ADD")
	}
	lost.Do(func() error {
		if _, err := netlink.LinkByName("eth0"); err == nil {
			t.Error("the lost pod still has its interface")
		}
		return nil
	})
}

func TestErrors(t *testing.T) {
	r := newCaller(t, "10.77.8.0/30") // two usable addresses
	pods := []*netnstest.Namespace{netnstest.New(t, "a"), netnstest.New(t, "b"), netnstest.New(t, "c")}
	r.add("a", pods[0])
	r.must("STATUS", "", nil, nil)
	r.add("b", pods[1])
	for _, tt := range []struct {
		name, command string
		extra         map[string]any
		want          string
	}{
		{"full", "ADD", nil, "no free address in 10.77.8.0/30"},
		{"full status", "STATUS", nil, `"code": 50`},
		{"host ports", "ADD", map[string]any{"runtimeConfig": map[string]any{"portMappings": []any{map[string]int{"hostPort": 80}}}}, "hostPorts are served by the node agent"},
		{"no CIDR", "ADD", map[string]any{"podCIDRs": nil}, "podCIDRs is empty"},
		{"bad CIDR", "ADD", map[string]any{"podCIDRs": []string{"10.0.0.0/33"}}, "podCIDRs"},
		{"MTU", "ADD", map[string]any{"mtu": 12}, "mtu is 12"},
		{"version", "ADD", map[string]any{"cniVersion": "0.2.0"}, "incompatible CNI versions"},
		{"check of what was not added", "CHECK", map[string]any{"prevResult": map[string]any{"cniVersion": "1.1.0"}}, "host link"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := r.call(tt.command, "c", pods[2], tt.extra)
			if err == nil || !strings.Contains(out, tt.want) {
				t.Errorf("error %v, output %s\nwant %q", err, out, tt.want)
			}
		})
	}
}

func TestLoopback(t *testing.T) {
	r := newCaller(t, "10.77.9.0/24")
	pod := netnstest.New(t, "pod")
	pod.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetDown(lo)
	})
	link := filepath.Join(t.TempDir(), "loopback")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(link)
	cmd.Stdin = strings.NewReader(`{"cniVersion":"1.0.0","name":"cni-loopback","type":"loopback"}`)
	cmd.Env = []string{"CNI_COMMAND=ADD", "CNI_CONTAINERID=c", "CNI_IFNAME=lo", "CNI_PATH=/", "CNI_NETNS=" + pod.Path()}
	var out []byte
	if err := r.node.Try(func() (err error) { out, err = cmd.CombinedOutput(); return err }); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if word, _ := echo(t, pod, pod, "127.0.0.1:7003"); word != "echo hello" {
		t.Errorf("loopback: %q", word)
	}
}
