package scrape

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/services/metrics/internal/sample"
)

const (
	// maxAnswer bounds what is read of a node's answer, in bytes: some 20,000 containers.
	maxAnswer = 16 << 20
	// idle is how long a connection to a node is kept between rounds.
	idle = 90 * time.Second
)

// ErrNoEndpoint says that a node names no port to be asked at, as simulated ones do not.
var ErrNoEndpoint = errors.New("the node names no address and port of its HTTPS endpoint")

// Client asks nodes. It is safe for concurrent use.
type Client struct {
	http  *http.Client
	clock clock.PassiveClock
}

// NewClient returns a client that shows nodes the certificate of a configuration and judges theirs by it.
func NewClient(secure *tls.Config, c clock.PassiveClock) *Client {
	return &Client{clock: c, http: &http.Client{
		Transport: &http.Transport{TLSClientConfig: secure, MaxIdleConnsPerHost: 1, IdleConnTimeout: idle, TLSHandshakeTimeout: 5 * time.Second},
		// A node that leads elsewhere is not followed.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends the connections that are kept.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Scrape asks a node what it and its containers use.
func (c *Client) Scrape(ctx context.Context, node *corev1.Node) (sample.Scrape, error) {
	address, ok := endpoint(node)
	if !ok {
		return sample.Scrape{}, ErrNoEndpoint
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics/resource", nil)
	if err != nil {
		return sample.Scrape{}, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return sample.Scrape{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return sample.Scrape{}, fmt.Errorf("the node answers %s: %s", response.Status, said)
	}
	body := &io.LimitedReader{R: response.Body, N: maxAnswer}
	out, err := parse(body, c.clock.Now())
	if body.N <= 0 {
		return sample.Scrape{}, fmt.Errorf("the node's answer is longer than %d bytes", maxAnswer)
	}
	return out, err
}

// endpoint is where a node is asked: of the addresses that it has, those within the cluster come first, as with the API server's own connections.
func endpoint(node *corev1.Node) (address string, ok bool) {
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP, corev1.NodeInternalDNS, corev1.NodeHostName} {
		for _, a := range node.Status.Addresses {
			if a.Type == kind && a.Address != "" && port > 0 {
				return net.JoinHostPort(a.Address, strconv.Itoa(int(port))), true
			}
		}
	}
	return "", false
}
