package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
)

// WebhookConfig says to whom events are sent.
type WebhookConfig struct {
	// ConfigFile is a kubeconfig whose current context leads to the receiver.
	ConfigFile string
	// InitialBackoff is the wait before the second attempt; 0 is 10 s. It grows by half each time, and there are five attempts.
	InitialBackoff time.Duration
	Delivery       Delivery
}

const (
	// webhookTimeout bounds one request to the receiver.
	webhookTimeout = 30 * time.Second
	// webhookAttempts is how often a batch is sent before it is lost.
	webhookAttempts = 5
	// webhookAtOnce is how many batches are under way at a time, so that a slow receiver costs time and not events.
	webhookAtOnce = 8
	// webhookJitter spreads the waits of several apiservers: it is added to them as a random part.
	webhookJitter = 0.2
)

// webhook is the sink that sends events in batches.
type webhook struct {
	backoff time.Duration
	clock   clock.WithTicker
	client  *http.Client
	url     string
}

func newWebhook(cfg WebhookConfig, metrics *Metrics, clock clock.WithTicker) (*delivery, error) {
	loaded, err := clientcmd.LoadFromFile(cfg.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("audit webhook: %w", err)
	}
	config, err := clientcmd.NewDefaultClientConfig(*loaded, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("audit webhook %s: %w", cfg.ConfigFile, err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("audit webhook %s: %w", cfg.ConfigFile, err)
	}
	client.Timeout = webhookTimeout
	w := &webhook{backoff: cmp.Or(max(cfg.InitialBackoff, 0), 10*time.Second), clock: clock, client: client, url: strings.TrimSuffix(config.Host, "/") + "?timeout=30s"}
	return newDelivery("webhook", cfg.Delivery, w, webhookAtOnce, metrics, clock), nil
}

func (w *webhook) close() { w.client.CloseIdleConnections() }

// send implements sink: it tries until the receiver has the batch, or often enough.
func (w *webhook) send(ctx context.Context, events []auditv1.Event) error {
	body, err := json.Marshal(auditv1.EventList{
		TypeMeta: metav1.TypeMeta{Kind: "EventList", APIVersion: auditv1.SchemeGroupVersion.String()}, Items: events,
	})
	if err != nil {
		return err
	}
	wait := w.backoff
	for attempt := 1; ; attempt++ {
		err := w.try(ctx, body)
		if err == nil || attempt == webhookAttempts {
			return err
		}
		timer := w.clock.NewTimer(wait + time.Duration(webhookJitter*rand.Float64()*float64(wait)))
		wait += wait / 2
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(err, ctx.Err())
		}
	}
}

// try makes one attempt.
func (w *webhook) try(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, */*")
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode < 200 || resp.StatusCode >= 300 {
		return fmt.Errorf("the receiver answered %s", resp.Status)
	}
	return nil
}
