package clients

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"howdah.dev/kit/pgtest"
)

// binVariable names a folder with programs that are built already; others are built when a test first wants them.
const binVariable = "HOWDAH_TEST_BIN"

// program is one of the programs under test.
type program struct {
	name string
	// module is its folder, below the repository's root, and pkg what to build in it.
	module, pkg string
	// workspace says that it is built with the repository's other modules.
	workspace bool
	// flags are the linker's: what upstream's own build says of the version.
	flags string

	once sync.Once
	path string
	err  error
}

var (
	howdah   = &program{name: "howdah", module: "cmd/howdah", pkg: ".", workspace: true}
	kubectl  = &program{name: "kubectl", module: "test/kubectl", pkg: ".", flags: "-X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"}
	helm3    = &program{name: "helm3", module: "test/helm3", pkg: "helm.sh/helm/v3/cmd/helm"}
	operator = &program{name: "operator", module: "test/operator", pkg: "."}
	helm4    = &program{name: "helm4", module: "test/helm4", pkg: "helm.sh/helm/v4/cmd/helm"}
)

// workDir lives as long as the test binary.
var workDir string

// shared is the cluster that the tests have in common, each in namespaces of its own.
var shared struct {
	once    sync.Once
	server  *pgtest.Server
	cluster *cluster
	err     error
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if workDir, err = os.MkdirTemp("", "howdah-clients"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(workDir)
		defer func() {
			if shared.cluster != nil {
				shared.cluster.stop()
			}
			if shared.server != nil {
				shared.server.Close()
			}
		}()
		return m.Run()
	}())
}

// bin returns the program's path, and builds it the first time.
func (p *program) bin(t testing.TB) string {
	t.Helper()
	p.once.Do(func() {
		if dir := os.Getenv(binVariable); dir != "" {
			if path := filepath.Join(dir, p.name); exec.Command("test", "-x", path).Run() == nil {
				p.path = path
				return
			}
		}
		p.path = filepath.Join(workDir, p.name)
		cmd := exec.Command("go", "build", "-ldflags", p.flags, "-o", p.path, p.pkg)
		cmd.Dir = filepath.Join("..", "..", p.module)
		cmd.Env = os.Environ()
		if !p.workspace {
			cmd.Env = append(cmd.Env, "GOWORK=off")
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			p.err = fmt.Errorf("build %s: %w\n%s", p.name, err, out)
		}
	})
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.path
}

// cluster is a standalone in a process of its own.
type cluster struct {
	dir, address, databaseURL string
	args                      []string
	cmd                       *exec.Cmd
	exited                    chan struct{}
	log                       *os.File
}

func (c *cluster) kubeconfig() string { return filepath.Join(c.dir, "admin", "kubeconfig") }

// theCluster returns the shared cluster, and starts it the first time.
func theCluster(t testing.TB) *cluster {
	t.Helper()
	path := howdah.bin(t)
	kubectl.bin(t) // with which the start is awaited
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if shared.server, shared.err = pgtest.Launch(ctx, pgtest.Config{}); shared.err != nil {
			return
		}
		shared.cluster, shared.err = newCluster(path, workDir, shared.server.URL())
	})
	if shared.err != nil {
		t.Skip(shared.err)
	}
	return shared.cluster
}

// newCluster starts a standalone and waits until it serves.
func newCluster(howdah, dir, databaseURL string, args ...string) (*cluster, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: filepath.Join(dir, "standalone"), address: address, databaseURL: databaseURL}
	c.args = append([]string{howdah, "standalone", "--database-url", databaseURL, "--listen", address, "--dir", c.dir,
		"--simulate", "3", "--log-level", "warn"}, args...)
	if c.log, err = os.OpenFile(filepath.Join(dir, "standalone.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	return c, c.start()
}

// start runs the process and waits until it serves.
func (c *cluster) start() error {
	c.cmd = exec.Command(c.args[0], c.args[1:]...)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	if err := c.cmd.Start(); err != nil {
		return err
	}
	exited, cmd := make(chan struct{}), c.cmd
	c.exited = exited
	go func() { _ = cmd.Wait(); close(exited) }()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		out, err := c.try(10*time.Second, "", "get", "--raw", "/readyz")
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			text, _ := os.ReadFile(c.log.Name())
			return fmt.Errorf("the standalone ended: %s", text)
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the standalone does not serve: %w %s", err, out)
		}
	}
}

// kill ends the process as a crash does; stop lets it finish.
func (c *cluster) kill() {
	_ = c.cmd.Process.Kill()
	<-c.exited
}

func (c *cluster) stop() {
	_ = c.cmd.Process.Signal(os.Interrupt)
	select {
	case <-c.exited:
	case <-time.After(20 * time.Second):
		c.kill()
	}
	_ = c.log.Close()
}

// freeAddress returns an address that nobody listens on.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
