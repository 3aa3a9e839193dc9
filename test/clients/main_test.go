package clients

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"howdah.dev/kit/pgtest"
	"howdah.dev/test/internal/standalone"
)

// program is one of the programs under test. It is built when a test first wants it, unless standalone.BinVariable names a folder with it.
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

	// metricsServer is an extension API server that clusters have.
	metricsServer = &program{name: "metrics-server", module: "test/metricsserver", pkg: "sigs.k8s.io/metrics-server/cmd/metrics-server"}
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
				shared.cluster.Stop()
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
		if dir := os.Getenv(standalone.BinVariable); dir != "" {
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
	*standalone.Process
	home string
}

// theCluster returns the shared cluster, and starts it the first time.
func theCluster(t testing.TB) *cluster {
	t.Helper()
	path := howdah.bin(t)
	kubectl.bin(t)
	shared.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if shared.server, shared.err = pgtest.Launch(ctx, pgtest.Config{}); shared.err != nil {
			return
		}
		shared.cluster, shared.err = newCluster(ctx, path, workDir, shared.server.URL(), "--simulate", "3")
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// newCluster starts a standalone and waits until it serves.
func newCluster(ctx context.Context, howdah, dir, databaseURL string, args ...string) (*cluster, error) {
	process, err := standalone.New(howdah, dir, databaseURL, args...)
	if err != nil {
		return nil, err
	}
	return &cluster{process, dir}, process.Start(ctx)
}
