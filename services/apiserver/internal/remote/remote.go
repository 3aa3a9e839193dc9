// Package remote asks a service outside of the cluster, named by a kubeconfig file, for a review.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
)

const (
	callTimeout = 30 * time.Second
	maxAnswer   = 3 << 20
	tries       = 5
	firstRetry  = 500 * time.Millisecond
)

// Client posts reviews to one URL.
type Client struct {
	url   string
	http  *http.Client
	clock clock.Clock
}

// New reads the file, a kubeconfig whose current context names the service and the credentials for it.
func New(path string, clk clock.Clock) (*Client, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("webhook configuration %s: %w", path, err)
	}
	if !strings.Contains(config.Host, "://") {
		config.Host = "https://" + config.Host
	}
	config.Timeout, config.UserAgent = callTimeout, "howdah-apiserver"
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("webhook configuration %s: %w", path, err)
	}
	return &Client{url: config.Host, http: client, clock: clk}, nil
}

// Post sends the question as JSON and decodes the answer. A service that cannot be reached, or that is not well (429, 5xx), is asked
// again, with a growing pause, until ctx ends or it has been asked five times.
func (c *Client) Post(ctx context.Context, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		again, err := c.post(ctx, body, answer)
		if err == nil || !again || try == tries {
			return err
		}
		pause := time.Duration(float64(firstRetry) * float64(int(1)<<(try-1)) * (1 + 0.2*rand.Float64()))
		timer := c.clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err // what it last said tells more than that the time is over
		case <-timer.C():
		}
	}
}

func (c *Client) post(ctx context.Context, body []byte, answer any) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return ctx.Err() == nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return true, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500, refusal(resp, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return false, fmt.Errorf("the webhook's answer: %w", err)
	}
	if asked, got := kindOf(body), kindOf(text); got != "" && got != asked {
		return false, fmt.Errorf("the webhook's answer is a %s and not a %s", got, asked)
	}
	return false, nil
}

// refusal says what the service answered instead of a review, in the words of Kubernetes' clients.
func refusal(resp *http.Response, text []byte) error {
	said := "unknown"
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); strings.HasPrefix(media, "text/") && len(text) > 0 {
		said = strings.TrimSpace(string(text))
	}
	return apierrors.NewGenericServerResponse(resp.StatusCode, http.MethodPost, schema.GroupResource{}, "", said, 0, true)
}

// kindOf is the kind of an object as JSON.
func kindOf(object []byte) string {
	var kind struct {
		Kind string `json:"kind"`
	}
	_ = json.Unmarshal(object, &kind) // what does not parse has none
	return kind.Kind
}
