package main

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/kit/pki"
	"howdah.dev/kit/rpc"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := pki.Init(dir, pki.Options{}); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "scheduler")
	identity, err := rpc.LoadIdentity(folder)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(identity.Server(), prometheus.NewRegistry())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.ServeUntil(ctx, listener) }()
	defer cancel()
	ask := func(flags ...string) error {
		_, err := execute(t, append([]string{"health", "--address", listener.Addr().String(), "--tls-dir", folder}, flags...)...)
		return err
	}

	if err := ask(); err == nil || !strings.HasSuffix(err.Error(), "answers NOT_SERVING") {
		t.Errorf("while it starts: %v", err)
	}
	server.SetReady(true)
	if err := ask(); err != nil {
		t.Errorf("while it serves: %v", err)
	}
	server.SetReady(false)
	if err := ask(); err == nil || !strings.HasSuffix(err.Error(), "answers NOT_SERVING") {
		t.Errorf("when it serves no more: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := ask(); err == nil || !strings.Contains(err.Error(), "nobody answers on 127.0.0.1:") {
		t.Errorf("when it is gone: %v", err)
	}

	// Somebody who takes the connection and says nothing.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if err := ask("--address", silent.Addr().String(), "--timeout", "200ms"); err == nil {
		t.Error("a silent server passes for healthy")
	}
}
