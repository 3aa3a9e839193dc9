package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"howdah.dev/test/internal/standalone"
)

// readyWithin bounds the start of Kubernetes on a machine where other things run; its programs are built before, where they are not there.
const readyWithin = 30 * time.Minute

// limits are higher than kube-apiserver's own, which are lower than what the clients of the bench ask for at once.
var limits = []string{"--max-requests-inflight=3000", "--max-mutating-requests-inflight=1000"}

// startKubernetes has the script, hack/oracle.sh, start etcd, kube-apiserver and kube-controller-manager, and waits until the API is ready.
func startKubernetes(ctx context.Context, script, cipher string) (_ *target, err error) {
	t := &target{system: kubernetesSystem, note: "kube-apiserver and etcd, without the controller manager"}
	defer func() {
		if err != nil {
			t.stop()
		}
	}()
	port, err := freePorts(4)
	if err != nil {
		return nil, err
	}
	oracle := func(ctx context.Context, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, script, args...)
		cmd.Env = append(os.Environ(), "ORACLE_PORT="+strconv.Itoa(port))
		said, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return "", fmt.Errorf("%s %s: %w: %s", script, args[0], err, exit.Stderr)
		}
		return string(said), err
	}
	t.cleanup = append(t.cleanup, func() { _, _ = oracle(context.WithoutCancel(ctx), "stop") })
	starting, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	own, err := os.MkdirTemp("", "kubernetes-bench")
	if err != nil {
		return nil, err
	}
	t.cleanup = append(t.cleanup, func() { _ = os.RemoveAll(own) })
	flags, err := encryption(own, cipher)
	if err != nil {
		return nil, err
	}
	said, err := oracle(starting, slices.Concat([]string{"start"}, limits, flags)...)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	t.kubeconfig = lines[len(lines)-1]
	dir := filepath.Dir(t.kubeconfig)
	ready, err0 := numberIn(dir, "ready_ms")
	server, err1 := numberIn(dir, "kube-apiserver.pid")
	database, err2 := numberIn(dir, "etcd.pid")
	t.ready, t.server, t.database = time.Duration(ready)*time.Millisecond, server, database
	return t, errors.Join(err0, err1, err2)
}

func numberIn(dir, name string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// freePorts returns the first of n ports on loopback, one after the other, that nobody listens on.
func freePorts(n int) (int, error) {
	for range 100 {
		address, err := standalone.FreeAddress()
		if err != nil {
			return 0, err
		}
		_, text, _ := net.SplitHostPort(address) // it was made by a listener
		first, _ := strconv.Atoi(text)
		free := 0
		for free < n && first+free < 1<<16 && canListen(first+free) {
			free++
		}
		if free == n {
			return first, nil
		}
	}
	return 0, fmt.Errorf("no %d ports in a row are free", n)
}

func canListen(port int) bool {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
