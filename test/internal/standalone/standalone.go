// Package standalone runs a howdah standalone in a process of its own, for tests and measurements from outside.
package standalone

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// readyTimeout is how long a start may take on a machine where everything runs at once.
const readyTimeout = 2 * time.Minute

// Process is a standalone that can be killed and started again.
type Process struct {
	// Address is where it serves the API.
	Address string
	// Metrics is where a role of a Mesh serves its metrics and profiles.
	Metrics string

	ready  string // URL that answers 200 once it is ready
	dir    string
	args   []string
	log    *os.File
	cmd    *exec.Cmd
	exited chan struct{}
}

// New prepares a standalone of the binary on the database. It keeps its keys in a folder below dir, and its log beside it. The
// arguments follow those that it always gets.
func New(binary, dir, databaseURL string, args ...string) (*Process, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	p := &Process{Address: address, ready: "https://" + address + "/readyz", dir: filepath.Join(dir, "standalone")}
	p.args = append([]string{binary, "standalone", "--database-url", databaseURL, "--listen", address, "--dir", p.dir, "--log-level", "warn"}, args...)
	p.log, err = os.OpenFile(filepath.Join(dir, "standalone.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return p, err
}

// Kubeconfig is the path of the administrator's kubeconfig, which the first start writes.
func (p *Process) Kubeconfig() string { return filepath.Join(p.dir, "admin", "kubeconfig") }

// PID is the process's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Start runs the process and waits until it is ready.
func (p *Process) Start(ctx context.Context) error {
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		return err
	}
	exited, cmd := make(chan struct{}), p.cmd
	p.exited = exited
	go func() { _ = cmd.Wait(); close(exited) }()
	if err := p.awaitReady(ctx); err != nil {
		p.Kill()
		said, _ := os.ReadFile(p.log.Name())
		return fmt.Errorf("%w; it said:\n%s", err, said)
	}
	return nil
}

func (p *Process) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	// The certificate is made by the process that is being awaited; what it answers is not trusted with anything.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Timeout: time.Second, Transport: transport}
	for {
		response, err := client.Get(p.ready)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended", p.args[1])
		case <-ctx.Done():
			return fmt.Errorf("%s did not become ready: %w", p.args[1], ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Kill ends the process as a crash does.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// Stop lets the process finish.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.exited:
	case <-time.After(20 * time.Second):
		p.Kill()
	}
	_ = p.log.Close()
}

// FreeAddress returns an address on loopback that nobody listens on.
func FreeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
