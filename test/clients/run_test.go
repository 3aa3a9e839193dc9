package clients

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience is how long anything may take, on a machine where everything runs at once.
const patience = 90 * time.Second

// user is a client in a namespace of its own.
type user struct {
	t         *testing.T
	c         *cluster
	namespace string
	home      string
}

// newUser makes a namespace for the test in the shared cluster.
func newUser(t *testing.T) *user { t.Helper(); return newUserOf(t, theCluster(t)) }

func newUserOf(t *testing.T, c *cluster) *user {
	t.Helper()
	u := &user{t: t, c: c, home: t.TempDir()}
	u.namespace = strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	u.namespace = u.namespace[:min(len(u.namespace), 50)]
	u.must("create", "namespace", u.namespace)
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := u.try("", "get", "all,events", "-o", "wide")
			t.Logf("what is in namespace %s:\n%s", u.namespace, out)
			return
		}
		u.must("delete", "namespace", u.namespace, "--wait=false")
	})
	u.await("the default service account", func() bool { _, err := u.try("", "get", "serviceaccount", "default"); return err == nil })
	return u
}

// try runs kubectl with the cluster's administrator, and answers what it printed.
func (c *cluster) try(limit time.Duration, in string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return command(ctx, in, []string{"KUBECONFIG=" + c.Kubeconfig(), "HOME=" + c.home}, kubectl.path, args...)
}

// command runs a program; what it prints to standard error goes into the error.
func command(ctx context.Context, in string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = strings.NewReader(in)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%w: %s", err, problems.String())
	}
	return out.String() + problems.String(), nil
}

// try runs kubectl in the test's namespace.
func (u *user) try(in string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(u.t.Context(), patience)
	defer cancel()
	env := []string{"KUBECONFIG=" + u.c.Kubeconfig(), "HOME=" + u.home}
	if !strings.HasPrefix(args[0], "__") { // completion takes no flags before its arguments
		args = append([]string{"--namespace", u.namespace}, args...)
	}
	return command(ctx, in, env, kubectl.bin(u.t), args...)
}

// must is try; the test ends where it fails.
func (u *user) must(args ...string) string { u.t.Helper(); return u.feed("", args...) }

// feed is must with standard input.
func (u *user) feed(in string, args ...string) string {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.t.Context()), patience)
	defer cancel()
	env := []string{"KUBECONFIG=" + u.c.Kubeconfig(), "HOME=" + u.home}
	out, err := command(ctx, in, env, kubectl.bin(u.t), append([]string{"--namespace", u.namespace}, args...)...)
	if err != nil {
		u.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// await waits until something is true.
func (u *user) await(what string, ok func() bool) {
	u.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			u.t.Fatalf("%s: not after %s", what, patience)
		}
		select {
		case <-u.t.Context().Done():
			u.t.Fatal(u.t.Context().Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// write puts a file into the test's own folder and answers its path.
func (u *user) write(name, content string) string {
	u.t.Helper()
	path := filepath.Join(u.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		u.t.Fatal(err)
	}
	return path
}

// spawn runs a program until the test ends or it is killed.
func (u *user) spawn(name, path string, args ...string) *exec.Cmd {
	u.t.Helper()
	log, err := os.Create(filepath.Join(u.home, name+".log"))
	if err != nil {
		u.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && u.t.Failed() {
			u.t.Logf("%s:\n%s", name, text)
		}
		_ = log.Close()
	})
	return cmd
}
