package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const dialTimeout = 10 * time.Second

// namespace returns the path of a sandbox's network namespace, "" where it
// uses the node's.
func (s *Server) namespace(ctx context.Context, sandbox string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := s.cfg.Runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox, Verbose: true})
	if err != nil {
		return "", err
	}
	if resp.GetStatus().GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE {
		return "", nil
	}
	var info struct {
		RuntimeSpec struct {
			Linux struct {
				Namespaces []struct{ Type, Path string }
			}
		}
	}
	if err := json.Unmarshal([]byte(resp.GetInfo()["info"]), &info); err != nil {
		return "", fmt.Errorf("the runtime's description of sandbox %s: %w", sandbox, err)
	}
	for _, n := range info.RuntimeSpec.Linux.Namespaces {
		if n.Type == "network" && n.Path != "" {
			return n.Path, nil
		}
	}
	return "", errors.New("the runtime does not tell the pod's network namespace")
}

// dial connects to a port of the pod's loopback, IPv4 first.
func dial(ctx context.Context, namespace string, port uint32) (net.Conn, error) {
	var problems []error
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, err := dialIn(ctx, namespace, net.JoinHostPort(host, fmt.Sprint(port)))
		if err == nil {
			return conn, nil
		}
		problems = append(problems, err)
	}
	return nil, problems[0]
}

func dialIn(ctx context.Context, namespace, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	if namespace == "" {
		return dialer.DialContext(ctx, "tcp", address)
	}
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		// The thread is never unlocked, so it ends with this goroutine
		// instead of coming back with the pod's namespace.
		runtime.LockOSThread()
		file, err := os.Open(namespace)
		if err != nil {
			done <- result{nil, err}
			return
		}
		defer file.Close()
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{nil, fmt.Errorf("enter the pod's network namespace: %w", err)}
			return
		}
		conn, err := dialer.DialContext(ctx, "tcp", address)
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}
