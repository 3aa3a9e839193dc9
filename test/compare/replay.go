package compare

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
)

// stepTimeout bounds a request; a watch that has fewer events than the step wants ends by it.
const stepTimeout = 10 * time.Second

// Server is an apiserver to talk with.
type Server struct {
	url    string
	client *http.Client
	// stranger has no certificate: it is who its header Authorization says.
	stranger *http.Client
}

// NewServer connects as the user of the configuration, who must be an administrator.
func NewServer(config *rest.Config) (*Server, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	stranger, err := rest.HTTPClientFor(rest.AnonymousClientConfig(config))
	if err != nil {
		return nil, err
	}
	return &Server{url: strings.TrimSuffix(config.Host, "/"), client: client, stranger: stranger}, nil
}

// Replay has the conversation of the case and returns what counts of the answers.
func (s *Server) Replay(ctx context.Context, c Case) ([]Answer, error) {
	names := variables{"NS": "compare-" + rand.String(10)}
	if err := s.namespace(ctx, names["NS"]); err != nil {
		return nil, err
	}
	defer s.removeNamespace(context.WithoutCancel(ctx), names["NS"])
	var answers []Answer
	for i, step := range c.Steps {
		answer, err := s.step(ctx, step, names)
		if err != nil {
			return nil, fmt.Errorf("step %d, %s: %w", i, step.Do, err)
		}
		answers = append(answers, answer)
	}
	return answers, nil
}

func (s *Server) namespace(ctx context.Context, name string) error {
	create := Step{Do: "POST /api/v1/namespaces", Body: map[string]any{"metadata": map[string]any{"name": name}}}
	if got, err := s.step(ctx, create, nil); err != nil || got.Code != http.StatusCreated {
		return fmt.Errorf("create namespace: %d %v %w", got.Code, got.Body, err)
	}
	for _, wanted := range []string{"serviceaccounts/default", "configmaps/kube-root-ca.crt"} {
		if _, err := s.step(ctx, Step{Do: "GET /api/v1/namespaces/" + name + "/" + wanted, Until: http.StatusOK}, nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) removeNamespace(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	_, _ = s.step(ctx, Step{Do: "DELETE /api/v1/namespaces/" + name}, nil)
}

// step sends a request, repeatedly if the step says so.
func (s *Server) step(ctx context.Context, step Step, names variables) (Answer, error) {
	deadline := time.Now().Add(30 * time.Second)
	for {
		answer, err := s.send(ctx, step, names)
		if err != nil || step.Until == 0 || answer.Code == step.Until {
			return answer, err
		}
		if time.Now().After(deadline) {
			return answer, fmt.Errorf("still %d, not %d: %v", answer.Code, step.Until, answer.Body)
		}
		select {
		case <-time.After(50 * time.Millisecond): // what changes it cannot be watched for in general
		case <-ctx.Done():
			return answer, ctx.Err()
		}
	}
}

func (s *Server) send(ctx context.Context, step Step, names variables) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	request, err := s.request(ctx, step, names)
	if err != nil {
		return Answer{}, err
	}
	client := s.client
	if _, own := step.Headers["Authorization"]; own {
		client = s.stranger
	}
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	var body any
	if step.Watch > 0 && response.StatusCode == http.StatusOK {
		body, err = readLines(ctx, response.Body, step.Watch)
	} else {
		body, err = readBody(response)
	}
	if err != nil {
		return Answer{}, err
	}
	for name, path := range step.Save {
		value, found := lookup(body, path)
		if !found {
			return Answer{}, fmt.Errorf("%d without %s: %v", response.StatusCode, path, body)
		}
		names[name] = fmt.Sprint(value)
	}
	answer := Answer{Do: step.Do, Code: response.StatusCode, Headers: map[string]string{}}
	for _, name := range append([]string{"Content-Type", "Warning"}, step.Show...) {
		if values := response.Header.Values(name); len(values) > 0 {
			answer.Headers[name] = names.hide(strings.Join(values, ", "))
			if strings.HasPrefix(name, "X-Kubernetes-Pf-") { // whose values are a server's own
				answer.Headers[name] = uids.ReplaceAllString(answer.Headers[name], "UID")
			}
		}
	}
	answer.Body = normal(pick(body, step.Only, step.Without), names)
	return answer, nil
}

func (s *Server) request(ctx context.Context, step Step, names variables) (*http.Request, error) {
	method, path, found := strings.Cut(step.Do, " ")
	if !found {
		return nil, errors.New("want METHOD URL")
	}
	var body []byte
	switch content := step.Body.(type) {
	case nil:
	case string:
		body = []byte(content)
	default:
		var err error
		if body, err = json.Marshal(content); err != nil {
			return nil, err
		}
	}
	if step.Pad > 0 {
		body = bytes.Repeat([]byte("x"), step.Pad)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.url+names.expand(path), bytes.NewReader([]byte(names.expand(string(body)))))
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "compare/1")
	request.Header.Set("Accept", "application/json")
	if step.Body != nil || step.Pad > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range step.Headers {
		request.Header.Set(name, names.expand(value))
	}
	return request, nil
}

func readBody(response *http.Response) (any, error) {
	content, err := io.ReadAll(response.Body)
	if err != nil || len(content) == 0 {
		return nil, err
	}
	var value any
	if strings.Contains(response.Header.Get("Content-Type"), "json") && json.Unmarshal(content, &value) == nil {
		return value, nil
	}
	return string(content), nil
}

// readLines reads the first events of a watch.
func readLines(ctx context.Context, stream io.Reader, count int) (any, error) {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 8<<20)
	events := []any{}
	for len(events) < count && lines.Scan() {
		var event any
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		events = append(events, event)
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return nil, err
	}
	return events, nil
}

// variables are the names that a case's texts may use.
type variables map[string]string

// byLength orders the names so that none is taken for another that begins like it.
func (v variables) byLength() []string {
	return slices.SortedFunc(maps.Keys(v), func(a, b string) int { return len(b) - len(a) })
}

func (v variables) expand(text string) string {
	for _, name := range v.byLength() {
		text = strings.ReplaceAll(text, "$"+name, v[name])
	}
	return text
}

// hide puts the names back for the values. Short values, such as a small resource version, could be anything.
func (v variables) hide(text string) string {
	for _, name := range v.byLength() {
		if len(v[name]) > 4 {
			text = strings.ReplaceAll(text, v[name], "$"+name)
		}
	}
	return text
}
