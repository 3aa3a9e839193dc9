package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"howdah.dev/kit/pki"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// TestTheAuthorityIsReplaced takes the steps of howdah certs authority while the cluster runs, waiting between them for what each is to come to. Whoever reads the
// administrator's kubeconfig is served all the time, and who has one of the beginning is not at the end.
func TestTheAuthorityIsReplaced(t *testing.T) {
	t.Parallel()
	nodes := freePort(t)
	first, address, dir := runStandalone(t, "--node-listen", nodes)
	f := &replacement{t: t, address: address, dir: dir}
	told := f.told(nodes)
	step := func(name string) {
		t.Helper()
		if out, err := execute(t, "certs", "authority", name, "--dir", dir); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	always := f.askAllTheTime()
	f.await("one authority in namespaces", func() error { return f.published(1) })

	step("add")
	jane := f.certifiedByTheNext("jane")
	f.await("two authorities in namespaces", func() error { return f.published(2) })
	f.await("two authorities told to nodes", func() error { return told(2) })
	f.await("a user of the next authority", func() error {
		name, err := f.who(jane)
		if err == nil && name != "jane" {
			err = fmt.Errorf("she is %s", name)
		}
		return err
	})

	step("switch")
	signing, err := pki.LoadBundle(filepath.Join(dir, "ca", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	f.await("a gateway with a certificate of the next authority", func() error { return f.shown().CheckSignatureFrom(signing.Now().Certificates[0]) })

	step("retire")
	f.await("one authority in namespaces again", func() error { return f.published(1) })
	f.await("one authority told to nodes", func() error { return told(1) })
	f.await("no user of the authority before", func() error {
		_, err := first.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
		if err == nil {
			return errors.New("it is let in")
		}
		return nil
	})
	if err := always(); err != nil {
		t.Errorf("who reads the kubeconfig was not served: %v", err)
	}
}

// replacement is a standalone whose authority is replaced.
type replacement struct {
	t            *testing.T
	address, dir string
}

func (f *replacement) await(what string, is func() error) {
	f.t.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(f.t.Context(), 50*time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) {
		last = is()
		return last == nil, nil
	}); err != nil {
		f.t.Fatalf("%s: %v", what, last)
	}
}

// admin is a client by the administrator's kubeconfig as it is now, over a connection of its own.
func (f *replacement) admin() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(f.dir, "admin", "kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.Timeout = 20 * time.Second
	return kubernetes.NewForConfig(config)
}

// askAllTheTime has the administrator ask until the function that it returns is called, which answers the first error.
func (f *replacement) askAllTheTime() func() error {
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	ask := func() error {
		client, err := f.admin()
		if err != nil {
			return err
		}
		_, err = client.CoreV1().Namespaces().Get(context.WithoutCancel(ctx), "default", metav1.GetOptions{})
		return err
	}
	go func() {
		var err error
		for tick := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil && err == nil; <-tick.C {
			err = ask()
		}
		ended <- err
	}()
	return func() error { cancel(); return <-ended }
}

// published says whether a namespace's pods are given so many authorities.
func (f *replacement) published(authorities int) error {
	client, err := f.admin()
	if err != nil {
		return err
	}
	m, err := client.CoreV1().ConfigMaps("default").Get(f.t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if n := strings.Count(m.Data["ca.crt"], "BEGIN CERTIFICATE"); n != authorities {
		return fmt.Errorf("there are %d", n)
	}
	return nil
}

// told returns what says whether so many authorities are told where nodes that have joined ask for them.
func (f *replacement) told(address string) func(authorities int) error {
	f.t.Helper()
	id, err := rpc.LoadIdentity(filepath.Join(f.dir, "admin"))
	if err != nil {
		f.t.Fatal(err)
	}
	return func(authorities int) error {
		conn, err := rpc.Dial("dns:///"+address, id.Client("apiserver"))
		if err != nil {
			return err
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(f.t.Context(), 20*time.Second)
		defer cancel()
		d, err := apiv1.NewDiscoveryServiceClient(conn).Document(ctx, &apiv1.DocumentRequest{Path: "/howdah/v1/authorities"})
		if err != nil {
			return err
		}
		if n := strings.Count(string(d.GetObject()), "BEGIN CERTIFICATE"); n != authorities {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	}
}

// certifiedByTheNext returns what a user shows whose certificate is of the authority that was added.
func (f *replacement) certifiedByTheNext(name string) rest.TLSClientConfig {
	f.t.Helper()
	read := func(file string) []byte {
		data, err := os.ReadFile(filepath.Join(f.dir, "ca", file))
		if err != nil {
			f.t.Fatal(err)
		}
		return data
	}
	keyText := read("next.key")
	key, err := pki.DecodeKey(keyText)
	if err != nil {
		f.t.Fatal(err)
	}
	next, err := pki.NewAuthorities(read("next.crt"))
	if err != nil {
		f.t.Fatal(err)
	}
	// The user's key is the authority's own: one is as good as another here.
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, next.Certificates[0], &key.PublicKey, key)
	if err != nil {
		f.t.Fatal(err)
	}
	return rest.TLSClientConfig{CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), KeyData: keyText}
}

// who says as whom somebody is let in.
func (f *replacement) who(tlsConfig rest.TLSClientConfig) (string, error) {
	tlsConfig.CAFile = filepath.Join(f.dir, "gateway", "ca.crt")
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://" + f.address, TLSClientConfig: tlsConfig})
	if err != nil {
		return "", err
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(f.t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}

// shown is the certificate that the gateway shows.
func (f *replacement) shown() *x509.Certificate {
	f.t.Helper()
	conn, err := tls.Dial("tcp", f.address, &tls.Config{InsecureSkipVerify: true}) // it is looked at, and nothing is sent
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}
