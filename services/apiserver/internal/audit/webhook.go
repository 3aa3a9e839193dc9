package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
)

// WebhookConfig says to whom events are sent.
type WebhookConfig struct {
	// ConfigFile is a kubeconfig whose current context leads to the receiver.
	ConfigFile string
	// InitialBackoff is the wait before the second attempt; default 10 s. It grows by half each time, and there are four.
	InitialBackoff time.Duration
	// BufferSize (10000), MaxSize (400) and MaxWait (30 s) are how events are gathered; QPS (10) and Burst (15) bound the batches.
	BufferSize, MaxSize int
	MaxWait             time.Duration
	QPS                 float32
	Burst               int
}

func (c WebhookConfig) withDefaults() WebhookConfig {
	if c.InitialBackoff <= 0 {
		c.InitialBackoff = 10 * time.Second
	}
	if c.BufferSize <= 0 {
		c.BufferSize = 10_000
	}
	if c.MaxSize <= 0 {
		c.MaxSize = 400
	}
	if c.MaxWait <= 0 {
		c.MaxWait = 30 * time.Second
	}
	if c.QPS <= 0 {
		c.QPS = 10
	}
	if c.Burst <= 0 {
		c.Burst = 15
	}
	return c
}

const (
	// webhookTimeout bounds one request to the receiver.
	webhookTimeout = 30 * time.Second
	// webhookAttempts is how often a batch is sent before it is lost.
	webhookAttempts = 4
)

// webhook is the backend that sends events in batches.
type webhook struct {
	cfg    WebhookConfig
	lost   *losses
	clock  clock.WithTicker
	client *http.Client
	url    string
	queue  *queue
	limit  flowcontrol.RateLimiter
}

func newWebhook(cfg WebhookConfig, metrics *Metrics, clock clock.WithTicker) (*webhook, error) {
	cfg = cfg.withDefaults()
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
	w := &webhook{cfg: cfg, lost: &losses{backend: "webhook", metrics: metrics, clock: clock}, clock: clock, client: client, url: config.Host, limit: flowcontrol.NewTokenBucketRateLimiter(cfg.QPS, cfg.Burst)}
	w.queue = newQueue(batching{Buffer: cfg.BufferSize, Size: cfg.MaxSize, Wait: cfg.MaxWait}, clock, w.lost.add)
	return w, nil
}

func (w *webhook) record(e auditv1.Event) { w.queue.put(e) }

func (w *webhook) run(ctx context.Context) error {
	w.queue.run(ctx, w.deliver)
	return nil
}

// deliver sends a batch until the receiver has it, or it is lost.
func (w *webhook) deliver(ctx context.Context, events []auditv1.Event) {
	body, err := json.Marshal(auditv1.EventList{
		TypeMeta: metav1.TypeMeta{Kind: "EventList", APIVersion: auditv1.SchemeGroupVersion.String()}, Items: events,
	})
	if err != nil {
		w.lost.add(len(events), err)
		return
	}
	wait := w.cfg.InitialBackoff
	for attempt := 1; ; attempt++ {
		if err := w.limit.Wait(ctx); err != nil {
			w.lost.add(len(events), err)
			return
		}
		again, err := w.send(ctx, body)
		if err == nil {
			return
		}
		if !again || attempt == webhookAttempts {
			w.lost.add(len(events), err)
			return
		}
		timer := w.clock.NewTimer(wait)
		wait += wait / 2
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			w.lost.add(len(events), ctx.Err())
			return
		}
	}
}

// send makes one attempt; again says that another may succeed.
func (w *webhook) send(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return false, nil
	}
	return resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests, fmt.Errorf("the receiver answered %s", resp.Status)
}
