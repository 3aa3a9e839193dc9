package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/kit/config"
	"howdah.dev/kit/nodecert"
	"howdah.dev/kit/object"
	"howdah.dev/kit/rpc"
)

// joinable is a standalone that takes nodes, with the command line of its administrator and of its machines.
type joinable struct {
	t          *testing.T
	admin      kubernetes.Interface
	address    string // of the gateway
	nodes      string // of the API server, for nodes
	kubeconfig string
}

func startJoinable(t *testing.T) *joinable {
	t.Helper()
	nodes := freePort(t)
	admin, address, dir := runStandalone(t, "--node-listen", nodes)
	return &joinable{t, admin, address, nodes, filepath.Join(dir, "admin", "kubeconfig")}
}

// token runs howdah token.
func (j *joinable) token(args ...string) string {
	j.t.Helper()
	out, err := execute(j.t, append([]string{"token", "--kubeconfig", j.kubeconfig}, args...)...)
	if err != nil {
		j.t.Fatalf("howdah token %v: %v", args, err)
	}
	return strings.TrimSpace(out)
}

// command is the one by which machines join, of a token with the flags given.
func (j *joinable) command(args ...string) []string {
	j.t.Helper()
	j.awaitInfo()
	out, err := execute(j.t, append([]string{"token", "--kubeconfig", j.kubeconfig, "create", "--print-join-command"}, args...)...)
	if err != nil {
		j.t.Fatalf("there is no command: %v", err)
	}
	fields := strings.Fields(out)
	if len(fields) != 7 || fields[0] != "howdah" || fields[1] != "join" || fields[2] != j.address || fields[3] != "--token" || fields[5] != "--discovery-token-ca-cert-hash" {
		j.t.Fatalf("the command is %q", out)
	}
	return fields[1:]
}

// awaitInfo waits for cluster-info, which the standalone makes once it is ready.
func (j *joinable) awaitInfo() {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(j.t.Context(), time.Minute)
	defer cancel()
	w, err := j.admin.CoreV1().ConfigMaps(metav1.NamespacePublic).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=cluster-info"})
	if err != nil {
		j.t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != watch.Added {
		j.t.Fatalf("no cluster-info after a minute: %v", e)
	}
}

// on is a command as it is run on a machine for tests, which need not be able to run pods.
func on(command []string, dir, node string, more ...string) []string {
	return slices.Concat(command, []string{"--tls-dir", dir, "--node-name", node, "--ignore-preflight-errors", "IsPrivilegedUser,CRI,BPF,Port-7443,Port-10250"}, more)
}

// files are the names in a folder.
func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestJoin grows a cluster as its users do: a token, a machine that joins by it, the node's life by its certificate, and its end.
func TestJoin(t *testing.T) {
	j, dir := startJoinable(t), filepath.Join(t.TempDir(), "node")
	ctx := t.Context()
	command := j.command("--description", "a test")

	out, err := execute(t, on(command, dir, "n9", "--dry-run")...)
	if err != nil || !strings.Contains(out, "HOWDAH_APISERVER=dns:///"+j.nodes+"\n") || len(files(t, dir)) != 0 {
		t.Fatalf("--dry-run: %v, %v\n%s", err, files(t, dir), out)
	}
	if out, err = execute(t, on(command, dir, "n9", "--node-ip", "192.0.2.9")...); err != nil {
		t.Fatalf("join: %v\n%s", err, out)
	}
	if got := files(t, dir); !slices.Equal(got, []string{"ca.crt", "node.pem", "nodeagent.env", "tls.crt", "tls.key"}) {
		t.Errorf("the folder has %v", got)
	}

	// The folder is all that the agent needs.
	agent := nodeagentCommand()
	if err := config.FromFile(agent.Flags(), filepath.Join(dir, "nodeagent.env")); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"apiserver": "dns:///" + j.nodes, "node-name": "n9", "node-ip": "192.0.2.9", "rotate-certificates": "true",
		"cluster-cidr": "[10.244.0.0/16]", "service-cidr": "[10.96.0.0/16]", "cluster-domain": "cluster.local", "cri": criSocket,
	} {
		if got := agent.Flags().Lookup(flag).Value.String(); got != want {
			t.Errorf("--%s is %q, want %q", flag, got, want)
		}
	}
	id, err := rpc.LoadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := rpc.Dial("dns:///"+j.nodes, id.Client("apiserver"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	nodes := object.For(object.NewClient(conn, "kubelet"), object.Node)
	made, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n9"}})
	if err != nil {
		t.Fatalf("the node does not come to be: %v", err)
	}
	if _, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n8"}}); !apierrors.IsForbidden(err) {
		t.Errorf("it makes another node: %v", err)
	}
	renews(t, j.address, dir)

	// What is done already is left.
	before, err := os.ReadFile(filepath.Join(dir, "node.pem"))
	if err != nil {
		t.Fatal(err)
	}
	out, err = execute(t, on(command, dir, "n9")...)
	after, err2 := os.ReadFile(filepath.Join(dir, "node.pem"))
	if err != nil || err2 != nil || !strings.Contains(out, "is the node n9 already") || string(after) != string(before) {
		t.Errorf("again: %v, %v\n%s", err, err2, out)
	}
	if _, err = execute(t, on(command, dir, "n7")...); err == nil || !strings.Contains(err.Error(), "howdah reset") {
		t.Errorf("as another node: %v", err)
	}

	// Another machine may take the name of a node that is not there any more, and not that of one that is.
	other := filepath.Join(t.TempDir(), "other")
	for { // the controllers write to the node, too; with the taints that it had before, a node is refused as one that changes them
		made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if _, err = nodes.UpdateStatus(ctx, made); !apierrors.IsConflict(err) && !apierrors.IsForbidden(err) {
			break
		}
		if made, err = nodes.Get(ctx, "", "n9"); err != nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err = execute(t, on(command, other, "n9")...); err == nil || !strings.Contains(err.Error(), `a node with the name "n9" and status Ready exists`) {
		t.Errorf("a name that is taken: %v", err)
	}

	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err = execute(t, "reset", "--tls-dir", dir, "--dry-run"); err != nil || !strings.Contains(out, "would remove "+filepath.Join(dir, "node.pem")) || len(files(t, dir)) != 6 {
		t.Errorf("reset --dry-run: %v\n%s", err, out)
	}
}

// TestAddonsTellWhatNodesNeed holds that howdah addons makes what machines join by, where the control plane is not a standalone's, and that a node knows of it.
func TestAddonsTellWhatNodesNeed(t *testing.T) {
	j := startJoinable(t)
	j.command() // the standalone has made its own
	id, err := rpc.LoadIdentity(filepath.Dir(j.kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := rpc.Dial("dns:///"+j.nodes, id.Client("apiserver"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// What the command does with its flags; as a whole it would be a second role in this process, which has one log.
	var joining joiningFlags
	flags := pflag.NewFlagSet("addons", pflag.ContinueOnError)
	joining.flags(flags)
	if err := flags.Parse([]string{"--join-server", "https://" + j.address, "--node-apiserver", "dns:///localhost:" + j.nodes[strings.LastIndex(j.nodes, ":")+1:], "--load-balancer-cidr", "192.0.2.64/26"}); err != nil {
		t.Fatal(err)
	}
	cluster, err := joining.cluster(id, "dns:///apiserver:7443", "10.96.0.10")
	if err != nil {
		t.Fatal(err)
	}
	client := object.NewClient(conn, "howdah-addons")
	if err := bootstrap.UntilDone(t.Context(), time.Second, func(ctx context.Context) error { return bootstrap.Ensure(ctx, client, *cluster) }); err != nil {
		t.Fatal(err)
	}
	config, err := j.admin.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "howdah-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config.Data["max-pods"] = "50"
	if _, err := j.admin.CoreV1().ConfigMaps("kube-system").Update(t.Context(), config, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "node")
	if out, err := execute(t, on(j.command(), dir, "n5")...); err != nil {
		t.Fatalf("join: %v\n%s", err, out)
	}
	settings, err := os.ReadFile(filepath.Join(dir, "nodeagent.env"))
	for _, want := range []string{"HOWDAH_APISERVER=dns:///localhost:", "HOWDAH_CLUSTER_DNS=10.96.0.10\n", "HOWDAH_LOAD_BALANCER_CIDR=192.0.2.64/26\n", "HOWDAH_MAX_PODS=50\n"} {
		if err != nil || !strings.Contains(string(settings), want) {
			t.Errorf("the settings lack %q (%v):\n%s", want, err, settings)
		}
	}

	config.Data["max-pod"] = "60"
	config.ResourceVersion = ""
	if _, err := j.admin.CoreV1().ConfigMaps("kube-system").Update(t.Context(), config, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if out, err := execute(t, on(j.command(), filepath.Join(t.TempDir(), "node"), "n6")...); err == nil || !strings.Contains(err.Error(), `"max-pod" is no setting`) {
		t.Errorf("a setting that is none: %v\n%s", err, out)
	}
	for want, bad := range map[string]joiningFlags{"is not https://host:port": {server: "http://x"}, "--tls-dir is empty": {server: "https://x:6443"}} {
		if _, err := bad.cluster(nil, "", ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", bad, err, want)
		}
	}
	if cluster, err := (&joiningFlags{}).cluster(nil, "", ""); cluster != nil || err != nil {
		t.Errorf("without a server: %v, %v", cluster, err)
	}
}

// renews asks for another certificate by that of the folder, as the agent does before it ends.
func renews(t *testing.T, address, dir string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://" + address, TLSClientConfig: rest.TLSClientConfig{
		CAFile: filepath.Join(dir, "ca.crt"), CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	key, err := nodecert.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	asked, err := nodecert.NewRequest("n9", key)
	if err != nil {
		t.Fatal(err)
	}
	requests := client.CertificatesV1().CertificateSigningRequests()
	asked, err = requests.Create(t.Context(), asked, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := requests.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + asked.Name, ResourceVersion: asked.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for limit := time.After(time.Minute); ; {
		select {
		case e := <-w.ResultChan():
			r, ok := e.Object.(*certificatesv1.CertificateSigningRequest)
			if !ok {
				t.Fatalf("the watch ends with %v", e)
			}
			if certificate, err := nodecert.Answer(r); err != nil {
				t.Fatal(err)
			} else if len(certificate) > 0 {
				return
			}
		case <-limit:
			t.Fatal("a node's own request is not approved and signed")
		}
	}
}

// TestJoinIsRefused holds that a machine trusts, and is trusted, by the right token and hash alone, and is told why not.
func TestJoinIsRefused(t *testing.T) {
	j := startJoinable(t)
	good := j.command()
	token := good[3]
	first := filepath.Join(t.TempDir(), "first")
	if out, err := execute(t, on(good, first, "first")...); err != nil { // from here on cluster-info is signed
		t.Fatalf("join: %v\n%s", err, out)
	}
	with := func(position int, value string) []string {
		c := slices.Clone(good)
		c[position] = value
		return c
	}
	signing := j.command("--usages", "signing", "--groups=")
	workers := j.command("--groups", "system:bootstrappers:workers")
	expired := j.token("create", "--ttl", "1ns")
	id, _, _ := strings.Cut(token, ".")
	kubeconfig, err := os.ReadFile(j.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := t.TempDir()
	if _, err := execute(t, "pki", "--out", foreign); err != nil {
		t.Fatal(err)
	}
	const once = "--discovery-timeout=0"
	for name, tt := range map[string]struct {
		args []string
		want string // a part of the error; empty: it joins
	}{
		"another authority": {on(with(5, "sha256:"+strings.Repeat("ab", 32)), "", "", once), "which is none of those given"},
		"another secret":    {on(with(3, id+".0123456789abcdef"), "", "", once), "does not match: another secret, or another cluster"},
		"an unknown token":  {on(with(3, "zzzzzz.0123456789abcdef"), "", "", once), `token id "zzzzzz" is invalid for this cluster or it has expired`},
		"an expired token":  {on(with(3, expired), "", "", once), "is invalid for this cluster or it has expired"},
		"for signing alone": {on(signing, "", ""), "does not take the token for authentication"},
		"not for nodes":     {on(workers, "", ""), "the token is not one by which nodes join"},
		"nobody there":      {on(with(1, freePort(t)), "", "", once), "connection refused"},
		"by a file of another cluster": {on([]string{"join", j.address, "--token", token, "--discovery-file", filepath.Join(foreign, "admin", "kubeconfig")}, "", ""),
			"unknown authority"},
		"by the token alone": {on([]string{"join", j.address, "--token", token, "--discovery-token-unsafe-skip-ca-verification"}, "", ""), ""},
		"by a file":          {on([]string{"join", "--token", token, "--discovery-file", file}, "", ""), ""},
	} {
		dir := filepath.Join(t.TempDir(), "node")
		node := strings.ReplaceAll(name, " ", "-")
		for i, arg := range tt.args {
			if arg == "" && tt.args[i-1] == "--tls-dir" {
				tt.args[i] = dir
			} else if arg == "" && tt.args[i-1] == "--node-name" {
				tt.args[i] = node
			}
		}
		out, err := execute(t, tt.args...)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q\n%s", name, err, tt.want, out)
		}
		if got := files(t, dir); err != nil && len(got) > 0 {
			t.Errorf("%s leaves %v", name, got)
		}
		if err != nil && (strings.Contains(err.Error(), tt.args[3]) || strings.Contains(err.Error(), "0123456789abcdef")) {
			t.Errorf("%s: the error has the secret: %v", name, err)
		}
	}
}

// TestTokens creates, lists and deletes tokens.
func TestTokens(t *testing.T) {
	j := startJoinable(t)
	const first = "abcdef.0123456789abcdef"
	if got := j.token("create", first, "--ttl", "0", "--description", "for ever"); got != first {
		t.Errorf("%q", got)
	}
	second := j.token("create", "--ttl", "2h", "--usages", "authentication", "--groups", "system:bootstrappers:a,system:bootstrappers:b")
	list := j.token("list")
	lines := strings.Split(list, "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "TOKEN ") {
		t.Fatalf("%s", list)
	}
	for token, want := range map[string][]string{
		first:  {"<forever>", "<never>", "authentication,signing", "for ever", "system:bootstrappers:kubeadm:default-node-token"},
		second: {"1h", "authentication", "<none>", "system:bootstrappers:a,system:bootstrappers:b"},
	} {
		i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, token+" ") })
		if i < 0 {
			t.Fatalf("%s lacks a token", list)
		}
		for _, part := range want {
			if !strings.Contains(lines[i], part) {
				t.Errorf("%s lacks %q", lines[i], part)
			}
		}
	}
	var printed struct {
		Token, Expires string
		Usages, Groups []string
	}
	decoder := json.NewDecoder(strings.NewReader(j.token("list", "-o", "json")))
	for decoder.More() {
		if err := decoder.Decode(&printed); err != nil {
			t.Fatal(err)
		}
		if printed.Token == second && (printed.Expires == "" || !slices.Equal(printed.Usages, []string{"authentication"}) || len(printed.Groups) != 2) {
			t.Errorf("%+v", printed)
		}
	}
	if yaml := j.token("list", "-o", "yaml"); strings.Count(yaml, "kind: BootstrapToken") != 2 {
		t.Errorf("%s", yaml)
	}
	if out := j.token("delete", "abcdef", second); strings.Count(out, "deleted") != 2 {
		t.Errorf("%s", out)
	}
	if list := j.token("list"); strings.Contains(list, "\n") {
		t.Errorf("after the deletion: %s", list)
	}
	j.token("create", first)
	for want, args := range map[string][]string{
		`a token with id "abcdef" already exists`:   {"create", first},
		"is not of the form":                        {"create", "abcdef"},
		"less than nothing":                         {"create", "--ttl", "-1h"},
		`usage "encryption" is none of`:             {"create", "--usages", "encryption"},
		`group "system:masters" is not of the form`: {"create", "--groups", "system:masters"},
		"groups are for tokens with the usage":      {"create", "--usages", "signing"},
		`there is no token with id "nobody"`:        {"delete", "nobody"},
		"argument 2: it is neither":                 {"delete", "abcdef", "x"},
		`"table" is none of`:                        {"list", "-o", "table"},
	} {
		if out, err := execute(t, append([]string{"token", "--kubeconfig", j.kubeconfig}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q\n%s", args, err, want, out)
		}
	}
}
