package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"howdah.dev/kit/pki"
	"howdah.dev/test/internal/standalone"
)

// startKubernetes starts etcd, kube-apiserver and kube-controller-manager of a folder, with the flags that the figures of the issue
// were measured with, and waits until the API is ready.
func startKubernetes(ctx context.Context, programs string) (_ *target, err error) {
	t := &target{system: kubernetesSystem, note: "kube-apiserver and etcd, without the controller manager"}
	defer func() {
		if err != nil {
			t.stop()
		}
	}()
	dir, err := os.MkdirTemp("", "kubernetes-bench")
	if err != nil {
		return nil, err
	}
	t.cleanup = append(t.cleanup, func() { _ = os.RemoveAll(dir) })
	var addresses [4]string
	for i := range addresses {
		if addresses[i], err = standalone.FreeAddress(); err != nil {
			return nil, err
		}
	}
	k := &kubernetesRun{
		dir: dir, programs: programs, target: t, api: addresses[0], controllers: addresses[3],
		store: "http://" + addresses[1], peer: "http://" + addresses[2], ended: make(chan error, 3),
	}
	ready, err := k.keys()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if t.database, err = k.run("etcd", k.etcd()); err != nil {
		return nil, err
	}
	if t.server, err = k.run("kube-apiserver", k.apiserver()); err != nil {
		return nil, err
	}
	if err := k.awaitReady(ctx, ready); err != nil {
		return nil, err
	}
	t.ready = time.Since(start)
	_, err = k.run("kube-controller-manager", k.manager())
	return t, err
}

// kubernetesRun is a control plane on loopback.
type kubernetesRun struct {
	dir, programs    string
	target           *target
	api, controllers string     // host:port
	store, peer      string     // URLs of etcd
	ended            chan error // of a program that should not have
}

func (k *kubernetesRun) file(name string) string { return filepath.Join(k.dir, name) }

// keys writes the keys, certificates and kubeconfig, and returns what trusts the server and is trusted by it.
func (k *kubernetesRun) keys() (*tls.Config, error) {
	now := time.Now()
	authority, err := pki.NewAuthority(now)
	if err != nil {
		return nil, err
	}
	server, err0 := authority.Issue(pki.Subject{CommonName: "kube-apiserver", Hosts: []string{"127.0.0.1", "localhost"}}, now)
	admin, err1 := authority.Issue(pki.Subject{CommonName: "admin", Organizations: []string{"system:masters"}, Client: true}, now)
	accounts, err2 := authority.Issue(pki.Subject{CommonName: "service-accounts"}, now)
	kubeconfig, err3 := pki.Kubeconfig("https://"+k.api, authority.PEM(), "admin", admin)
	authorityKey, err4 := authority.KeyPEM()
	if err := errors.Join(err0, err1, err2, err3, err4); err != nil {
		return nil, err
	}
	for name, data := range map[string][]byte{
		"ca.crt": authority.PEM(), "ca.key": authorityKey, "server.crt": server.Certificate, "server.key": server.Key,
		"accounts.key": accounts.Key, "kubeconfig": kubeconfig,
	} {
		if err := os.WriteFile(k.file(name), data, 0o600); err != nil {
			return nil, err
		}
	}
	k.target.kubeconfig = k.file("kubeconfig")
	pair, err := tls.X509KeyPair(admin.Certificate, admin.Key)
	pool := x509.NewCertPool()
	pool.AddCert(authority.Certificate)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}, err
}

// split parts an address on loopback, which was made by a listener.
func split(address string) (host, port string) {
	host, port, _ = net.SplitHostPort(address)
	return host, port
}

func (k *kubernetesRun) etcd() []string {
	return []string{
		"--data-dir", k.file("etcd"), "--log-level", "error", "--listen-client-urls", k.store, "--advertise-client-urls", k.store,
		"--listen-peer-urls", k.peer, "--initial-advertise-peer-urls", k.peer, "--initial-cluster", "default=" + k.peer,
	}
}

func (k *kubernetesRun) apiserver() []string {
	host, port := split(k.api)
	return []string{
		"--etcd-servers", k.store, "--bind-address", host, "--advertise-address", host, "--secure-port", port,
		"--tls-cert-file", k.file("server.crt"), "--tls-private-key-file", k.file("server.key"), "--client-ca-file", k.file("ca.crt"),
		"--service-account-key-file", k.file("accounts.key"), "--service-account-signing-key-file", k.file("accounts.key"),
		"--service-account-issuer", "https://kubernetes.default.svc.cluster.local", "--service-cluster-ip-range", "10.96.0.0/16",
		"--authorization-mode", "Node,RBAC", "--allow-privileged",
		// Its usual limits are lower than what the clients of the bench ask for at once.
		"--max-requests-inflight", "3000", "--max-mutating-requests-inflight", "1000",
	}
}

func (k *kubernetesRun) manager() []string {
	host, port := split(k.controllers)
	return []string{
		"--kubeconfig", k.file("kubeconfig"), "--leader-elect=false", "--bind-address", host, "--secure-port", port,
		"--use-service-account-credentials", "--service-account-private-key-file", k.file("accounts.key"), "--root-ca-file", k.file("ca.crt"),
		"--cluster-signing-cert-file", k.file("ca.crt"), "--cluster-signing-key-file", k.file("ca.key"),
	}
}

// run starts a program, and returns its process id.
func (k *kubernetesRun) run(program string, args []string) (int, error) {
	log, err := os.Create(k.file(program + ".log"))
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(filepath.Join(k.programs, program), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = k.dir, log, log
	if err := cmd.Start(); err != nil {
		_ = log.Close()
		return 0, err
	}
	exited := make(chan struct{})
	go func() {
		err := cmd.Wait()
		_ = log.Close()
		said, _ := os.ReadFile(log.Name())
		k.ended <- fmt.Errorf("%s ended: %w; it said:\n%s", program, err, said[max(0, len(said)-2000):])
		close(exited)
	}()
	k.target.cleanup = append(k.target.cleanup, func() {
		_ = cmd.Process.Kill() // nothing of it is kept
		<-exited
	})
	return cmd.Process.Pid, nil
}

// readyWithin bounds the start on a machine where other things run.
const readyWithin = 2 * time.Minute

func (k *kubernetesRun) awaitReady(ctx context.Context, trust *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	transport := &http.Transport{TLSClientConfig: trust}
	defer transport.CloseIdleConnections()
	client := &http.Client{Timeout: time.Second, Transport: transport}
	for {
		response, err := client.Get("https://" + k.api + "/readyz")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-k.ended:
			return err
		case <-ctx.Done():
			return fmt.Errorf("kube-apiserver did not become ready: %w", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
