package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// proxy passes one HTTP request to a port of a pod. The name in open is
// [scheme:]name[:port].
func (s *Server) proxy(ctx context.Context, c *conn, open *apiv1.ConnectOpen) error {
	scheme, name, port, err := splitTarget(open.GetName())
	if err != nil {
		return err
	}
	if scheme == "https" {
		return apierrors.NewBadRequest("pod proxy over https is not supported by this node")
	}
	pod, err := s.pod(open.GetNamespace(), name)
	if err != nil {
		return err
	}
	number, err := podPort(pod, port)
	if err != nil {
		return err
	}
	if pod.Status.PodIP == "" {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("pod %s has no address", name))
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	target, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(number)))
	if err != nil {
		return apierrors.NewServiceUnavailable("error trying to reach service: " + err.Error())
	}
	defer target.Close()
	stop := context.AfterFunc(ctx, func() { _ = target.Close() })
	defer stop()

	request, body, err := proxyRequest(ctx, open, target.RemoteAddr().String())
	if err != nil {
		return err
	}
	upgrade := request.Header.Get("Upgrade") != ""
	if upgrade {
		request.Body = nil
	}
	go receiveBody(c, body) // ends with the call's stream
	defer body.reader.Close()
	sent := make(chan error, 1)
	go func() { sent <- request.Write(target) }()
	reader := bufio.NewReader(target)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return apierrors.NewServiceUnavailable("error trying to reach service: " + err.Error())
	}
	defer response.Body.Close()
	var headers []*apiv1.Header
	for key, values := range response.Header {
		for _, value := range values {
			headers = append(headers, &apiv1.Header{Name: key, Value: value})
		}
	}
	if err := c.accept(int32(response.StatusCode), headers...); err != nil {
		return err
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		go func() { _, _ = io.Copy(target, body.reader) }() // ends with the target's connection
		_, err = io.Copy(channel{c, responseBody}, reader)
	} else {
		_, err = io.Copy(channel{c, responseBody}, response.Body)
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func splitTarget(target string) (scheme, name, port string, _ error) {
	parts := strings.Split(target, ":")
	switch len(parts) {
	case 1:
		return "http", parts[0], "", nil
	case 2:
		return "http", parts[0], parts[1], nil
	case 3:
		if parts[0] == "" {
			parts[0] = "http"
		}
		return parts[0], parts[1], parts[2], nil
	}
	return "", "", "", apierrors.NewBadRequest(fmt.Sprintf("invalid pod request %q", target))
}

// podPort is the named or numbered port, by default the pod's first.
func podPort(pod *corev1.Pod, port string) (int, error) {
	if port == "" {
		for i := range pod.Spec.Containers {
			if ports := pod.Spec.Containers[i].Ports; len(ports) > 0 {
				return int(ports[0].ContainerPort), nil
			}
		}
		return 80, nil
	}
	if number, err := strconv.Atoi(port); err == nil {
		if number < 1 || number > 65535 {
			return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid port %d", number))
		}
		return number, nil
	}
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.Name == port {
				return int(p.ContainerPort), nil
			}
		}
	}
	return 0, apierrors.NewServiceUnavailable(fmt.Sprintf("no port %q in pod %s", port, pod.Name))
}

// pipe carries the request's body from the stream's frames.
type pipe struct {
	reader *io.PipeReader
	writer *io.PipeWriter
}

func proxyRequest(ctx context.Context, open *apiv1.ConnectOpen, address string) (*http.Request, pipe, error) {
	path := open.GetPath()
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if open.GetQuery() != "" {
		path += "?" + open.GetQuery()
	}
	r, w := io.Pipe()
	request, err := http.NewRequestWithContext(ctx, open.GetMethod(), "http://"+address+path, r)
	if err != nil {
		return nil, pipe{}, apierrors.NewBadRequest(err.Error())
	}
	request.ContentLength = 0
	for _, h := range open.GetHeaders() {
		switch http.CanonicalHeaderKey(h.GetName()) {
		case "Content-Length":
			if request.ContentLength, err = strconv.ParseInt(h.GetValue(), 10, 64); err != nil {
				return nil, pipe{}, apierrors.NewBadRequest("malformed Content-Length")
			}
		case "Transfer-Encoding":
			request.ContentLength = -1
		case "Host":
			request.Host = h.GetValue()
		default:
			request.Header.Add(h.GetName(), h.GetValue())
		}
	}
	if request.ContentLength == 0 {
		switch open.GetMethod() {
		case http.MethodPost, http.MethodPut, http.MethodPatch:
			request.ContentLength = -1 // its length is not known; it is sent in chunks
		default:
			request.Body = nil
		}
	}
	return request, pipe{r, w}, nil
}

func receiveBody(c *conn, body pipe) {
	for {
		frame, err := c.receive()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			_ = body.writer.CloseWithError(err)
			return
		}
		if frame.GetChannel() != requestBody {
			continue
		}
		if len(frame.GetData()) > 0 {
			if _, err := body.writer.Write(frame.GetData()); err != nil {
				return // the target reads no more
			}
		}
		if frame.GetClose() {
			_ = body.writer.Close()
			return
		}
	}
}
