// Package join makes a machine a node of a cluster: it comes to trust the cluster by a bootstrap token, asks for a certificate, and keeps that with the
// settings of the node agent in a folder. Reset takes them away.
//
// Source: "kubeadm join", "kubeadm reset" and "TLS bootstrapping" in the Kubernetes reference.
package join

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/cmd/howdah/internal/preflight"
	"howdah.dev/kit/nodecert"
	"howdah.dev/kit/wholefile"
)

// Config of Run.
type Config struct {
	Endpoint string // host:port of the gateway; may be empty with a DiscoveryFile
	Token    string
	Pins     []string
	// SkipPins has the cluster believed by the token alone.
	SkipPins bool
	// DiscoveryFile is a kubeconfig that says which cluster, in place of what the gateway says.
	DiscoveryFile string

	NodeName string
	Dir      string            // the node's folder
	Node     map[string]string // settings of the node itself, by flag
	Known    func(flag string) bool

	Checks []preflight.Check
	Ignore []string // checks whose failure does not matter
	DryRun bool

	Patience time.Duration // how long to look for the cluster
	Timeout  time.Duration // how long all of it may take: somebody may have to approve
	Clock    clock.Clock
	Out      io.Writer
	// Start, where set, runs the agent once the machine is a node. Nil has the user told how to.
	Start func(ctx context.Context) error
}

// complete reads the token and reports all that is wrong at once.
func (c *Config) complete() (bootstrap.Token, error) {
	var problems []error
	token, err := bootstrap.ParseToken(c.Token)
	if c.Token == "" {
		err = errors.New("it is required (howdah token create)")
	}
	if err != nil {
		problems = append(problems, fmt.Errorf("--token: %w", err))
	}
	if c.Endpoint == "" && c.DiscoveryFile == "" {
		problems = append(problems, errors.New("ENDPOINT, host:port of the gateway, or --discovery-file is required"))
	}
	if c.Endpoint != "" {
		if host, port, err := net.SplitHostPort(c.Endpoint); err != nil || host == "" || port == "" {
			problems = append(problems, fmt.Errorf("%q is not host:port", c.Endpoint))
		}
	}
	for _, pin := range c.Pins {
		if err := bootstrap.CheckPinForm(pin); err != nil {
			problems = append(problems, fmt.Errorf("--discovery-token-ca-cert-hash: %w", err))
		}
	}
	if c.DiscoveryFile == "" && len(c.Pins) == 0 && !c.SkipPins {
		problems = append(problems, errors.New("--discovery-token-ca-cert-hash is required, or --discovery-token-unsafe-skip-ca-verification: then whoever has the token can play the cluster"))
	}
	for _, problem := range validation.IsDNS1123Subdomain(c.NodeName) {
		problems = append(problems, fmt.Errorf("--node-name: %q: %s", c.NodeName, problem))
	}
	if c.Dir == "" {
		problems = append(problems, errors.New("--tls-dir is required"))
	}
	return token, errors.Join(problems...)
}

func (c *Config) say(format string, args ...any) { fmt.Fprintf(c.Out, format+"\n", args...) }

// Run joins:
//
//  1. What the machine is already is looked at: a node that has joined is left as it is.
//  2. The machine has to be able to run a node.
//  3. The cluster is found, and known to be the one that is meant.
//  4. The cluster is asked for the settings of nodes, and whether the name is free.
//  5. A certificate is asked for and awaited, and all is written.
func Run(ctx context.Context, c Config) error {
	token, err := c.complete()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	now, err := look(c.Dir, c.NodeName, c.Pins, c.Clock.Now())
	switch {
	case err != nil:
		return err
	case now.joined:
		c.say("This machine is the node %s already, by a certificate in %s that lasts until %s. Nothing is changed.", c.NodeName, c.Dir, now.until.Format(time.RFC3339))
		return nil
	case now.ended:
		c.say("The certificate of the node %s has ended at %s; another one is asked for.", c.NodeName, now.until.Format(time.RFC3339))
	}
	if err := preflight.Run(ctx, c.Checks, c.Ignore, c.warn); err != nil {
		return err
	}
	info, err := c.discover(ctx, token)
	if err != nil {
		return err
	}
	c.say("The cluster is at %s.", info.Server)
	client, err := clientOf(info, token.String())
	if err != nil {
		return err
	}
	file, err := c.ask(ctx, client, info, now.ended)
	if err != nil {
		return err
	}
	if c.DryRun {
		c.say("\nNothing is written (--dry-run). %s would be:\n\n%s", filepath.Join(c.Dir, SettingsFile), file)
		return nil
	}
	if err := c.write(ctx, requests{client}, info, file); err != nil {
		return err
	}
	if c.Start != nil {
		if err := c.Start(ctx); err != nil {
			return fmt.Errorf("this machine is the node %s of the cluster, but the agent does not run: %w", c.NodeName, err)
		}
		c.say("\nThis machine is the node %s of the cluster, and its agent runs. On a machine with the administrator's kubeconfig: kubectl get nodes", c.NodeName)
		return nil
	}
	c.say("\nThis machine is the node %s of the cluster. To run it:\n\n    howdah nodeagent --tls-dir=%s\n\nand on a machine with the administrator's kubeconfig: kubectl get nodes", c.NodeName, c.Dir)
	return nil
}

func (c *Config) warn(text string) { c.say("warning: %s", text) }

// Find looks for the cluster as Run does, and returns a client by the token.
func Find(ctx context.Context, c Config) (bootstrap.Info, kubernetes.Interface, error) {
	token, err := c.complete()
	if err != nil {
		return bootstrap.Info{}, nil, err
	}
	info, err := c.discover(ctx, token)
	if err != nil {
		return bootstrap.Info{}, nil, err
	}
	client, err := clientOf(info, token.String())
	return info, client, err
}

func (c *Config) discover(ctx context.Context, token bootstrap.Token) (bootstrap.Info, error) {
	if c.DiscoveryFile != "" {
		info, err := fromFile(c.DiscoveryFile, c.Endpoint)
		if err == nil && len(c.Pins) > 0 {
			err = bootstrap.CheckPins(info.CA, c.Pins)
		}
		return info, err
	}
	c.say("Looking for the cluster at %s.", c.Endpoint)
	said := ""
	return Discovery{
		Endpoint: c.Endpoint, Token: token, Pins: c.Pins, Patience: c.Patience, Clock: c.Clock,
		Failed: func(err error) {
			if text := err.Error(); text != said {
				said = text
				c.say("    not yet: %s", text)
			}
		},
	}.Discover(ctx)
}

func clientOf(info bootstrap.Info, token string) (kubernetes.Interface, error) {
	return kubernetes.NewForConfig(&rest.Config{
		Host: info.Server, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: info.CA}, UserAgent: "howdah-join",
	})
}

// ask reads what the cluster has for its nodes, and returns the node's settings. again says that the node was one before.
func (c *Config) ask(ctx context.Context, client kubernetes.Interface, info bootstrap.Info, again bool) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*callFor)
	defer cancel()
	cluster, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, bootstrap.ConfigName, metav1.GetOptions{})
	switch {
	case apierrors.IsUnauthorized(err):
		return nil, fmt.Errorf("the cluster does not take the token for authentication: it has expired, lacks that usage, or the API servers run without --enable-bootstrap-token-auth: %w", err)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("the cluster has no settings for nodes: has howdah addons --join-server been run? %w", err)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("the token is not one by which nodes join (it is for those with the group %s): %w", bootstrap.DefaultGroup, err)
	case err != nil:
		return nil, fmt.Errorf("read the settings of nodes: %w", err)
	}
	node, err := client.CoreV1().Nodes().Get(ctx, c.NodeName, metav1.GetOptions{})
	switch {
	case err == nil && ready(node) && !again:
		return nil, fmt.Errorf("a node with the name %q and status Ready exists in the cluster already: delete it, or choose another --node-name", c.NodeName)
	case err != nil && !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("look whether the name %q is free: %w", c.NodeName, err)
	}
	file, err := settings(cluster.Data, c.Node, c.Known)
	if err != nil {
		return nil, err
	}
	reach := preflight.Check{Name: "APIServer", Run: func(ctx context.Context) error { return reachable(ctx, cluster.Data["apiserver"], info.CA) }}
	return file, preflight.Run(ctx, []preflight.Check{reach}, c.Ignore, c.warn)
}

func ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// write asks for the certificate and fills the folder. What an earlier try has left is used; the certificate comes last, so that a folder with one is whole.
func (c *Config) write(ctx context.Context, api nodecert.Requests, info bootstrap.Info, file []byte) error {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return err
	}
	private, err := key(c.Dir)
	if err != nil {
		return err
	}
	request, err := nodecert.NewRequest(c.NodeName, private)
	if err != nil {
		return err
	}
	created, err := nodecert.Ask(ctx, api, request)
	if err != nil {
		return c.forget(err)
	}
	c.say("A certificate is asked for: %s.", created.Name)
	certificate, err := nodecert.Await(ctx, api, created, c.Clock)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%w (kubectl certificate approve %s, then join again)", err, created.Name)
		}
		return c.forget(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(info.CA)
	if _, err := nodecert.Check(certificate, private, c.NodeName, roots, c.Clock.Now()); err != nil {
		return c.forget(nodecert.Refusal{Err: fmt.Errorf("the certificate is of no use: %w", err)})
	}
	if err := wholefile.Write(filepath.Join(c.Dir, caFile), info.CA, 0o644); err != nil {
		return fmt.Errorf("keep the authority: %w", err)
	}
	if err := wholefile.Write(filepath.Join(c.Dir, SettingsFile), file, 0o644); err != nil {
		return fmt.Errorf("keep the settings: %w", err)
	}
	if err := nodecert.Save(c.Dir, certificate, private); err != nil {
		return err
	}
	return remove(filepath.Join(c.Dir, keyFile))
}

// forget drops the key of a request that was refused: the next try asks anew.
func (c *Config) forget(err error) error {
	if _, refused := errors.AsType[nodecert.Refusal](err); refused {
		return errors.Join(err, remove(filepath.Join(c.Dir, keyFile)))
	}
	return err
}

// requests are those of the API, over REST.
type requests struct{ client kubernetes.Interface }

func (r requests) Create(ctx context.Context, asked *nodecert.Request) (*nodecert.Request, error) {
	return r.client.CertificatesV1().CertificateSigningRequests().Create(ctx, asked, metav1.CreateOptions{})
}

func (r requests) Get(ctx context.Context, name string) (*nodecert.Request, error) {
	return r.client.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
}

func (r requests) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return r.client.CertificatesV1().CertificateSigningRequests().Watch(ctx, options)
}
