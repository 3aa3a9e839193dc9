package join

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/cmd/howdah/internal/bootstrap"
)

const (
	callFor    = 10 * time.Second
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Second
	maxInfo    = 1 << 20 // bytes of an answer
	infoPath   = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
)

// final is an error that another try does not change.
type final struct{ error }

// Discovery is how a machine comes to trust a cluster.
type Discovery struct {
	Endpoint string // host:port of the gateway
	Token    bootstrap.Token
	// Pins are hashes of the authority's public key, one of which has to be right. Without any, whoever has the token's secret is believed.
	Pins []string
	// Patience is how long tries that fail are repeated. There is one in any case.
	Patience time.Duration
	Clock    clock.Clock
	// Failed, where set, is told of each try that failed and is followed by another one.
	Failed func(error)
}

// Discover asks the gateway for cluster-info without trusting it, believes what the token has signed and what a pin says of the authority, and asks again by
// that authority. A signature may be made only a moment after the token.
func (d Discovery) Discover(ctx context.Context) (bootstrap.Info, error) {
	limit := d.Clock.Now().Add(d.Patience)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		info, err := d.once(ctx)
		if err == nil {
			return info, nil
		}
		if _, end := errors.AsType[final](err); end || ctx.Err() != nil || !d.Clock.Now().Add(pause).Before(limit) {
			return bootstrap.Info{}, err
		}
		if d.Failed != nil {
			d.Failed(err)
		}
		timer := d.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
}

func (d Discovery) once(ctx context.Context) (bootstrap.Info, error) {
	content, err := d.signed(ctx, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // what comes is believed by its signature
	if err != nil {
		return bootstrap.Info{}, err
	}
	info, err := bootstrap.ParseInfo(content)
	if err != nil {
		return bootstrap.Info{}, final{fmt.Errorf("cluster-info: %w", err)}
	}
	if len(d.Pins) > 0 {
		if err := bootstrap.CheckPins(info.CA, d.Pins); err != nil {
			return bootstrap.Info{}, final{err}
		}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(info.CA) {
		return bootstrap.Info{}, final{errors.New("cluster-info: the authority is no certificate")}
	}
	again, err := d.signed(ctx, &tls.Config{RootCAs: pool})
	switch {
	case err != nil:
		return bootstrap.Info{}, explainName(err)
	case again != content:
		return bootstrap.Info{}, errors.New("cluster-info has changed between two looks")
	}
	info.Server = "https://" + d.Endpoint
	return info, nil
}

// explainName says what to do about a gateway whose certificate is for other names.
func explainName(err error) error {
	if name, ok := errors.AsType[x509.HostnameError](err); ok {
		return final{fmt.Errorf("%w: name %s in howdah pki --gateway-names, or join by another name", err, name.Host)}
	}
	if unknown, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return final{fmt.Errorf("the gateway's certificate is not of the authority in cluster-info: %w", unknown)}
	}
	return err
}

// signed fetches cluster-info and returns what the token has signed of it.
func (d Discovery) signed(ctx context.Context, config *tls.Config) (string, error) {
	config.MinVersion = tls.VersionTLS12
	info, err := fetch(ctx, d.Endpoint, config)
	if err != nil {
		return "", fmt.Errorf("ask %s for cluster-info: %w", d.Endpoint, err)
	}
	content, signature := info.Data[bootstrap.InfoKey], info.Data[bootstrap.SignaturePrefix+d.Token.ID]
	if content == "" {
		return "", errors.New("cluster-info says nothing")
	}
	if signature == "" {
		return "", fmt.Errorf("token id %q is invalid for this cluster or it has expired: cluster-info is not signed with it (howdah token list, howdah token create)", d.Token.ID)
	}
	if err := bootstrap.CheckSignature(content, signature, d.Token); err != nil {
		return "", fmt.Errorf("the signature of cluster-info by token id %q does not match: another secret, or another cluster: %w", d.Token.ID, err)
	}
	return content, nil
}

// fetch gets the ConfigMap as nobody in particular, by a connection of its own.
func fetch(ctx context.Context, endpoint string, config *tls.Config) (*corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+endpoint+infoPath, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	client := http.Client{
		Transport:     &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxInfo))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, refused(response.StatusCode, body)
	}
	info := &corev1.ConfigMap{}
	if err := json.Unmarshal(body, info); err != nil {
		return nil, fmt.Errorf("the answer is no ConfigMap: %w", err)
	}
	return info, nil
}

// refused is the error of an answer that is no success.
func refused(code int, body []byte) error {
	status := metav1.Status{}
	if json.Unmarshal(body, &status) != nil || status.Message == "" {
		status.Message = string(bytes.TrimSpace(body[:min(len(body), 200)]))
	}
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%d: %s (is --anonymous-auth on, and has howdah addons --join-server been run?)", code, status.Message)
	case http.StatusNotFound:
		return fmt.Errorf("%d: %s (has howdah addons --join-server been run?)", code, status.Message)
	}
	return fmt.Errorf("%d: %s", code, status.Message)
}

// fromFile is what a kubeconfig says of a cluster; endpoint, where given, is how to reach it.
func fromFile(path, endpoint string) (bootstrap.Info, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return bootstrap.Info{}, fmt.Errorf("--discovery-file: %w", err)
	}
	info, err := bootstrap.ParseInfo(string(data))
	if err != nil {
		return bootstrap.Info{}, fmt.Errorf("--discovery-file: %s: %w", path, err)
	}
	if endpoint != "" {
		info.Server = "https://" + endpoint
	}
	return info, nil
}
