package initialize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"howdah.dev/cmd/howdah/internal/daemon"
)

const (
	askEvery = 300 * time.Millisecond
	askFor   = 5 * time.Second
)

func waitPhase() Phase {
	return Phase{
		Name: "wait-control-plane", Short: "Wait until the control plane is ready",
		Run: func(ctx context.Context, e *Env) error { return e.AwaitReady(ctx) },
		Tell: func(e *Env) string {
			return fmt.Sprintf("wait for %s until it is ready, for at most %s", e.server(), e.Init.Timeout.Duration)
		},
	}
}

// AwaitReady waits until this machine's gateway says that it is ready. A service that ends meanwhile may be started again by who looks after it, but where nobody does,
// it is not waited for.
func (e *Env) AwaitReady(ctx context.Context) error {
	e.say("[wait-control-plane] waiting for %s until it is ready, for at most %s", e.local(e.Cluster.Ports.API), e.Init.Timeout.Duration)
	tls, err := e.tls()
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: askFor, Transport: &http.Transport{TLSClientConfig: tls, DisableKeepAlives: true}}
	ctx, cancel := context.WithTimeout(ctx, e.Init.Timeout.Duration)
	defer cancel()
	start := e.Clock.Now()
	url := "https://" + e.local(e.Cluster.Ports.API) + "/readyz"
	for {
		last := ready(ctx, client, url)
		if last == nil {
			e.say("[wait-control-plane] ready after %s", e.Clock.Since(start).Round(100*time.Millisecond))
			return nil
		}
		status, err := e.Services.Status(ctx, daemon.ControlPlane)
		if err == nil && !status.Running && e.Init.Machine.ServiceManager == "process" {
			return fmt.Errorf("the service %s has ended: %s", daemon.ControlPlane, status.Detail)
		}
		timer := e.Clock.NewTimer(askEvery) // nobody tells when it is ready
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(fmt.Errorf("the control plane is not ready: %w", last), fmt.Errorf("the service: %s", status.Detail))
		case <-timer.C():
		}
	}
}

func ready(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	return nil
}
