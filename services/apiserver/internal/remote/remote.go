// Package remote asks a service outside of the cluster, named by a kubeconfig file, for a review.
//
// The service is spoken to by Kubernetes' own client: what counts as an answer, and the words for what does not, are its.
package remote

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/itself"
)

const (
	defaultTimeout = 30 * time.Second
	firstRetry     = 500 * time.Millisecond
)

// Config says where the service is, and how it is asked.
type Config struct {
	// Kubeconfig is the file whose current context names the service and the credentials for it.
	Kubeconfig string
	// Version of the reviews.
	Version schema.GroupVersion
	// Timeout bounds each try; 0 is 30 s.
	Timeout time.Duration
	Clock   clock.Clock
}

// Client posts reviews to one URL.
type Client struct {
	rest  rest.Interface
	clock clock.Clock
}

// Try is what came of asking once.
type Try struct {
	// Code of HTTP; 0 is no answer.
	Code int
	Took time.Duration
	Err  error
}

// New reads the kubeconfig.
func New(cfg Config) (*Client, error) {
	config, err := webhook.LoadKubeconfig(cfg.Kubeconfig, nil)
	if err != nil {
		return nil, fmt.Errorf("webhook configuration %s: %w", cfg.Kubeconfig, err)
	}
	if config.Timeout = cfg.Timeout; config.Timeout <= 0 {
		config.Timeout = defaultTimeout
	}
	config.UserAgent = itself.Name
	generic, err := webhook.NewGenericWebhook(scheme.Scheme, scheme.Codecs, config, []schema.GroupVersion{cfg.Version}, backoff())
	if err != nil {
		return nil, fmt.Errorf("webhook configuration %s: %w", cfg.Kubeconfig, err)
	}
	return &Client{rest: generic.RestClient, clock: cfg.Clock}, nil
}

func backoff() wait.Backoff { return webhook.DefaultRetryBackoffWithInitialDelay(firstRetry) }

// Post sends the question and decodes the answer. A connection that was reset and a service that is not well (429, 5xx) have it sent again, with a growing pause, until ctx ends or it has been asked five times. Each try is told to tried.
func (c *Client) Post(ctx context.Context, question, answer runtime.Object, tried func(Try)) error {
	for pauses := backoff(); ; {
		err := c.once(ctx, question, answer, tried)
		if !webhook.DefaultShouldRetry(err) || pauses.Steps == 1 {
			return err
		}
		timer := c.clock.NewTimer(pauses.Step())
		select {
		case <-ctx.Done():
			timer.Stop()
			return err // what it last said tells more than that the time is over
		case <-timer.C():
		}
	}
}

func (c *Client) once(ctx context.Context, question, answer runtime.Object, tried func(Try)) error {
	start := c.clock.Now()
	result := c.rest.Post().Body(question).Do(ctx)
	var code int
	result.StatusCode(&code)
	err := result.Into(answer)
	tried(Try{Code: code, Took: c.clock.Since(start), Err: err})
	return err
}
