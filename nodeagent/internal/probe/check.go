// Package probe asks containers whether they have started, live, and are
// ready, and keeps count of the answers.
package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// runtimeSpare is how long the runtime, which ends commands by their timeout itself, may take beyond that to answer: as long as a kubelet gives it. That a
// runtime hangs, or is started anew, says nothing of its containers.
const runtimeSpare = 2 * time.Minute

// maxOutput bounds what an event tells of a probe's answer.
const maxOutput = 10 << 10

// Exec runs a command in a container. A command that ends with a code other
// than 0 is no error.
type Exec func(ctx context.Context, containerID string, command []string, timeout time.Duration) (output []byte, exitCode int32, err error)

// Checker carries probes out once.
type Checker struct{ exec Exec }

// NewChecker returns a Checker.
func NewChecker(exec Exec) *Checker { return &Checker{exec} }

// Target is what a probe is about.
type Target struct {
	Pod       *corev1.Pod
	Container *corev1.Container
	ID        string // of the run
	PodIP     string
	Started   time.Time
}

// Verdict is what a probe found.
type Verdict int

const (
	Failed Verdict = iota
	// Warned is a success that people should hear of.
	Warned
	Succeeded
)

func verdict(ok bool, output string, err error) (Verdict, string, error) {
	if ok {
		return Succeeded, output, err
	}
	return Failed, output, err
}

// Check carries a probe out. Output says why it failed, or of what it warns;
// an error means that it could not be carried out.
func (c *Checker) Check(ctx context.Context, p *corev1.Probe, t Target) (found Verdict, output string, err error) {
	timeout := time.Duration(max(p.TimeoutSeconds, 1)) * time.Second
	spare := time.Second
	if p.Exec != nil {
		spare = runtimeSpare
	}
	ctx, cancel := context.WithTimeout(ctx, timeout+spare)
	defer cancel()
	switch {
	case p.Exec != nil:
		return verdict(c.command(ctx, p.Exec.Command, t, timeout))
	case p.HTTPGet != nil:
		return get(ctx, p.HTTPGet, t, timeout)
	case p.TCPSocket != nil:
		return verdict(connect(ctx, p.TCPSocket, t, timeout))
	case p.GRPC != nil:
		return verdict(serving(ctx, p.GRPC, t, timeout))
	}
	return Failed, "", fmt.Errorf("missing probe handler for %s:%s", t.Pod.Name, t.Container.Name)
}

func (c *Checker) command(ctx context.Context, command []string, t Target, timeout time.Duration) (bool, string, error) {
	output, code, err := c.exec(ctx, t.ID, command, timeout)
	switch {
	case status.Code(err) == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded):
		return false, fmt.Sprintf("command timed out: %q timed out after %v", strings.Join(command, " "), timeout), nil
	case err != nil:
		return false, "", err
	}
	return code == 0, clip(output), nil
}

// Request returns the HTTP request of a probe or hook.
func Request(ctx context.Context, action *corev1.HTTPGetAction, t Target) (*http.Request, error) {
	port, err := Port(action.Port, t.Container)
	if err != nil {
		return nil, err
	}
	host := action.Host
	if host == "" {
		host = t.PodIP
	}
	scheme := strings.ToLower(string(action.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	u, err := url.Parse(action.Path)
	if err != nil {
		u = &url.URL{Path: action.Path}
	}
	u.Scheme, u.Host = scheme, net.JoinHostPort(host, strconv.Itoa(port))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "kube-probe/1.36")
	request.Header.Set("Accept", "*/*")
	seen := map[string]bool{} // what the probe names replaces the defaults
	for _, h := range action.HTTPHeaders {
		name := http.CanonicalHeaderKey(h.Name)
		switch {
		case name == "Host":
			request.Host = h.Value
		case seen[name]:
			request.Header.Add(name, h.Value)
		default:
			request.Header.Set(name, h.Value)
		}
		seen[name] = true
	}
	return request, nil
}

// Client returns the HTTP client of probes and hooks: it verifies no
// certificate, keeps no connection, and follows no redirect to another host.
func Client(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // containers sign their own
			DisableKeepAlives: true, Proxy: nil, DisableCompression: true,
		},
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if next.URL.Hostname() != via[0].URL.Hostname() || len(via) >= 10 {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
}

func get(ctx context.Context, action *corev1.HTTPGetAction, t Target, timeout time.Duration) (Verdict, string, error) {
	request, err := Request(ctx, action, t)
	if err != nil {
		return Failed, "", err
	}
	response, err := Client(timeout).Do(request)
	if err != nil {
		return Failed, err.Error(), nil
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxOutput)) // the code alone decides
	switch {
	case response.StatusCode >= 200 && response.StatusCode < 300:
		return Succeeded, string(body), nil
	case response.StatusCode >= 300 && response.StatusCode < 400: // to where a probe does not go
		return Warned, "Probe terminated redirects, Response body: " + string(body), nil
	}
	return Failed, fmt.Sprintf("HTTP probe failed with statuscode: %d", response.StatusCode), nil
}

func connect(ctx context.Context, action *corev1.TCPSocketAction, t Target, timeout time.Duration) (bool, string, error) {
	port, err := Port(action.Port, t.Container)
	if err != nil {
		return false, "", err
	}
	host := action.Host
	if host == "" {
		host = t.PodIP
	}
	dialer := net.Dialer{Timeout: timeout}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return false, err.Error(), nil
	}
	return true, "", conn.Close()
}

func serving(ctx context.Context, action *corev1.GRPCAction, t Target, timeout time.Duration) (bool, string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	address := net.JoinHostPort(t.PodIP, strconv.Itoa(int(action.Port)))
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithUserAgent("kube-probe/1.36"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return false, "", err
	}
	defer conn.Close()
	if !connected(ctx, conn) {
		return false, fmt.Sprintf("timeout: failed to connect service %q within %v: %v", address, timeout, ctx.Err()), nil
	}
	service := ""
	if action.Service != nil {
		service = *action.Service
	}
	response, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{Service: service})
	switch code := status.Code(err); {
	case code == codes.Unimplemented:
		return false, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " + status.Convert(err).Message(), nil
	case code == codes.DeadlineExceeded:
		return false, fmt.Sprintf("timeout: health rpc did not complete within %v", timeout), nil
	case err != nil:
		return false, "error: health rpc probe failed: " + err.Error(), nil
	case response.GetStatus() != healthv1.HealthCheckResponse_SERVING:
		return false, fmt.Sprintf("service unhealthy (responded with %q)", response.GetStatus().String()), nil
	}
	return true, "", nil
}

// connected waits for the connection until ctx ends: a server that refuses it may be about to listen.
func connected(ctx context.Context, conn *grpc.ClientConn) bool {
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return true
		case connectivity.Idle:
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
}

// Port returns the number of a port that may be named in the container.
func Port(port intstr.IntOrString, c *corev1.Container) (int, error) {
	number := port.IntValue()
	if port.Type == intstr.String {
		for _, p := range c.Ports {
			if p.Name == port.StrVal {
				number = int(p.ContainerPort)
			}
		}
	}
	if number < 1 || number > 65535 {
		return 0, fmt.Errorf("invalid port number: %s", port.String())
	}
	return number, nil
}

func clip(output []byte) string {
	return string(output[:min(len(output), maxOutput)])
}
