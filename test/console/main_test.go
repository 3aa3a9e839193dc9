package console

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"howdah.dev/kit/pgtest"
	"howdah.dev/test/internal/browser"
	"howdah.dev/test/internal/standalone"
)

// shared is what the tests have in common, each in a namespace and a tab of its own.
var shared struct {
	once    sync.Once
	err     error
	dir     string
	server  *pgtest.Server
	process *standalone.Process
	browser *browser.Browser
	nodes   string // address on which node agents are expected
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if shared.dir, err = os.MkdirTemp("", "howdah-console"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(shared.dir)
		defer func() {
			if shared.browser != nil {
				shared.browser.Close()
			}
			if shared.process != nil {
				shared.process.Stop()
			}
			if shared.server != nil {
				shared.server.Close()
			}
		}()
		return m.Run()
	}())
}

func start() error {
	binary, err := standalone.Binary(filepath.Join("..", ".."), shared.dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if shared.server, err = pgtest.Launch(ctx, pgtest.Config{}); err != nil {
		return err
	}
	if shared.nodes, err = standalone.FreeAddress(); err != nil {
		return err
	}
	process, err := standalone.New(binary, shared.dir, shared.server.URL(), "--simulate", "3", "--node-listen", shared.nodes, "--console-trace-url", "http://127.0.0.1:9/trace/{traceID}")
	if err != nil {
		return err
	}
	if err := process.Start(ctx); err != nil {
		return err
	}
	shared.process = process
	key, err := publicKey()
	if err != nil {
		return err
	}
	shared.browser, err = browser.Start(filepath.Join(shared.dir, "profile"), key)
	return err
}

// cluster is the standalone as one test sees it.
type cluster struct {
	kubernetes.Interface
	t         testing.TB
	namespace string
	page      *browser.Page
}

// setup starts what is not there yet, and gives the test a namespace and a browser.
func setup(t *testing.T) *cluster {
	t.Helper()
	if shared.once.Do(func() { shared.err = start() }); shared.err != nil {
		t.Fatal(shared.err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", shared.process.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{Interface: client, t: t}
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "console-"}}, metav1.CreateOptions{})
	c.must("make a namespace", err)
	c.namespace = namespace.Name
	c.page = shared.browser.Page(t)
	return c
}

// publicKey is the hash of the gateway's public key, by which the browser trusts it.
func publicKey() (string, error) {
	// The connection serves to look at the certificate alone.
	dialer := &net.Dialer{Timeout: 30 * time.Second}
	conn, err := tls.DialWithDialer(dialer, "tcp", shared.process.Address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	sum := sha256.Sum256(conn.ConnectionState().PeerCertificates[0].RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}

func (c *cluster) must(what string, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

// token makes a service account that may do what a ClusterRole allows, in its namespace or everywhere, and returns a token of it.
func (c *cluster) token(name, role string, everywhere bool) string {
	c.t.Helper()
	ctx := c.t.Context()
	_, err := c.CoreV1().ServiceAccounts(c.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	c.must("make a service account", err)
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: c.namespace, Name: name}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	if everywhere {
		_, err = c.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: c.namespace + "-" + name}, Subjects: subjects, RoleRef: ref}, metav1.CreateOptions{})
	} else {
		_, err = c.RbacV1().RoleBindings(c.namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects, RoleRef: ref}, metav1.CreateOptions{})
	}
	c.must("bind the role", err)
	request, err := c.CoreV1().ServiceAccounts(c.namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	c.must("make a token", err)
	return request.Status.Token
}

// pageURL is that of a page of the console.
func pageURL(page string) string { return "https://" + shared.process.Address + "/console/" + page }

// signIn signs in with the token and opens a page.
func (c *cluster) signIn(token, page string) {
	c.t.Helper()
	c.page.Go(pageURL("#" + page))
	c.page.Fill("#token", token)
	c.page.Click("button", "Sign in")
	c.page.Await("document.querySelector('header .user')")
}

// admin signs in as one who may do everything.
func (c *cluster) admin(page string) {
	c.t.Helper()
	c.signIn(c.token("admin", "cluster-admin", true), page)
}

// open goes to another page.
func (c *cluster) open(page string) {
	c.t.Helper()
	c.page.Run(fmt.Sprintf("location.hash = %q", "#"+page))
}
