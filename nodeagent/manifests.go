package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/manifest"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/source"
	"howdah.dev/nodeagent/internal/worker"
)

// apiPatience is how long static pods wait for the API when the agent starts: how ready they were is in their mirrors.
const apiPatience = 2 * time.Second

// Manifests are where a node has its static pods from.
type Manifests struct {
	// Path is a folder of manifests, or a single one; FileEvery how often it is looked at though nothing was heard; default 20 s.
	Path      string
	FileEvery time.Duration
	// URL has a pod or a list of pods; it is asked with Header, every URLEvery; default 20 s.
	URL      string
	Header   http.Header
	URLEvery time.Duration
}

func (m Manifests) complete() Manifests {
	const every = 20 * time.Second
	if m.FileEvery == 0 {
		m.FileEvery = every
	}
	if m.URLEvery == 0 {
		m.URLEvery = every
	}
	return m
}

func (m Manifests) validate() error {
	var problems []error
	if m.Path != "" && !filepath.IsAbs(m.Path) {
		problems = append(problems, fmt.Errorf("path of manifests %q is not absolute", m.Path))
	}
	if u, err := url.Parse(m.URL); err != nil || m.URL != "" && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		problems = append(problems, errors.New("URL of manifests: it is none of http or https"))
	}
	if m.FileEvery < 0 || m.URLEvery < 0 {
		problems = append(problems, errors.New("the pauses between looks at manifests must not be negative"))
	}
	return errors.Join(problems...)
}

// settings tells of the manifests by a kubelet's names. What a header says may be a secret.
func (m Manifests) settings(s map[string]any) {
	s["fileCheckFrequency"], s["httpCheckFrequency"] = m.FileEvery.String(), m.URLEvery.String()
	if m.Path != "" {
		s["staticPodPath"] = m.Path
	}
	if m.URL != "" {
		if u, err := url.Parse(m.URL); err == nil {
			s["staticPodURL"] = u.Redacted()
		}
	}
}

// newSet joins the sources of the node's pods.
func (a *Agent) newSet(tell events) *source.Set {
	cfg := a.cfg
	problems := &manifestProblems{node: cfg.NodeName, tell: tell.manifestBroken, known: map[string]string{}}
	var manifests []source.Manifests
	if m := cfg.Manifests; m.Path != "" {
		manifests = append(manifests, &manifest.Files{Path: filepath.Clean(m.Path), Node: cfg.NodeName, Every: m.FileEvery, Clock: cfg.Clock, Report: problems.report})
	}
	if m := cfg.Manifests; m.URL != "" {
		manifests = append(manifests, &manifest.URL{
			URL: m.URL, Header: m.Header, Node: cfg.NodeName, Every: m.URLEvery, Clock: cfg.Clock, Client: &http.Client{}, Report: problems.report,
		})
	}
	restarts := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "kubelet_restarted_pods_total", Help: "Static pods that started once more because their manifest came back while they ended.", ConstLabels: prometheus.Labels{"static": "true"},
	})
	cfg.Registerer.MustRegister(restarts)
	set := source.New(source.Config{
		API: a.pods, Manifests: manifests, Clock: cfg.Clock, Changed: func(name types.NamespacedName) { a.mirrors.Changed(name) }, Restarted: restarts.Inc,
	})
	count := func(static bool) func() float64 {
		return func() float64 {
			n := 0
			for _, p := range set.List() {
				if pod.Static(p) == static {
					n++
				}
			}
			return float64(n)
		}
	}
	for label, static := range map[string]bool{"true": true, "": false} {
		cfg.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "kubelet_desired_pods", Help: "Pods that the node is to run.", ConstLabels: prometheus.Labels{"static": label},
		}, count(static)))
	}
	cfg.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "howdah_nodeagent_manifest_problems", Help: "Manifests, folders and URLs of static pods with which something is wrong.",
	}, problems.count))
	return set
}

// manifestProblems tells once of everything that is wrong with manifests.
type manifestProblems struct {
	node string
	tell func(node, message string)

	mu    sync.Mutex
	known map[string]string
}

func (m *manifestProblems) report(place string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		delete(m.known, place)
		return
	}
	if m.known[place] == err.Error() {
		return
	}
	m.known[place] = err.Error()
	slog.Error("a manifest of pods is wrong", "place", place, "err", err)
	m.tell(m.node, fmt.Sprintf("manifest %s: %v", place, err))
}

func (m *manifestProblems) count() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(len(m.known))
}

// self is the node as the API has it, before it does as the agent finds it; nil before the agent runs.
func (a *Agent) self() *corev1.Node {
	if node := a.reporter.Node(); node != nil {
		return node
	}
	return a.initial.Load()
}

// labels are those of the node now. What the reporter has is as old as its last report, by minutes older than a driver that says where the node is.
func (a *Agent) labels() map[string]string {
	if node, ok := a.nodes.Get("", a.cfg.NodeName); ok {
		return node.Labels
	}
	if node := a.self(); node != nil {
		return node.Labels
	}
	return nil
}

// trace is that of a pod's last change.
func (a *Agent) trace(p *corev1.Pod) trace.SpanContext {
	if pod.Static(p) {
		return a.running.Trace(p)
	}
	return a.pods.Trace(p)
}

// prepareStatic finds what there is before any pod starts: the node without the API, and the static pods of an earlier life.
func (a *Agent) prepareStatic(ctx context.Context) error {
	a.initial.Store(a.reporter.Here(ctx))
	sandboxes, err := a.runtime.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("node agent: list sandboxes: %w", err)
	}
	told := map[types.UID]bool{}
	for _, s := range sandboxes.GetItems() {
		labels := s.GetLabels()
		uid := types.UID(labels[cri.LabelPodUID])
		if s.GetAnnotations()[cri.AnnotationSource] == "" || told[uid] {
			continue
		}
		told[uid] = true
		a.running.Left(types.NamespacedName{Namespace: labels[cri.LabelPodNamespace], Name: labels[cri.LabelPodName]}, uid)
	}
	return nil
}

// runStatic runs the pods of manifests, whether there is an API or not.
func (a *Agent) runStatic(ctx context.Context) error {
	patience, cancel := context.WithCancel(ctx)
	timer := a.cfg.Clock.NewTimer(apiPatience)
	go func() {
		select {
		case <-timer.C():
			cancel()
		case <-patience.Done():
		}
	}()
	a.informers.Wait(patience)
	timer.Stop()
	cancel()
	return a.running.Run(ctx)
}

// cautious keeps the runtime's pods from being taken for nobody's before every source has told of its own.
type cautious struct {
	*worker.Manager
	known <-chan struct{}
}

// Knows implements pleg.Pods.
func (c cautious) Knows(uid types.UID) bool {
	select {
	case <-c.known:
		return c.Manager.Knows(uid)
	default:
		return true
	}
}
