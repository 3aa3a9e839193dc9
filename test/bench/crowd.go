package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
)

const (
	crowdNamespace = "bench-crowd"
	// crowdReplicas is how many pods each Deployment of the crowd has, behind a Service of its own.
	crowdReplicas = 2500
	// simulatedLabel is that of nodes that run nothing.
	simulatedLabel = "howdah.dev/simulated"
	// crowdAsked is how often it is asked how far the crowd is: seldom enough to be nothing beside that.
	crowdAsked = 500 * time.Millisecond
	// scrapeEvery is how often Prometheus asks the services of a cluster how they are.
	scrapeEvery = 15 * time.Second
)

// crowd measures many pods at once, on simulated nodes: until all are ready, what somebody else waits meanwhile, lists of them, their removal, and what each
// service of a cluster holds and takes. It is run where --crowd says of how many.
func crowd(ctx context.Context, b *bench) error {
	if b.crowd == 0 || b.target != nil && b.target.nodes == 0 {
		return nil
	}
	nodes, err := b.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: simulatedLabel + "=true", ResourceVersion: "0"})
	if err != nil {
		return err
	}
	room := int64(0)
	for _, n := range nodes.Items {
		room += n.Status.Allocatable.Pods().Value()
	}
	if int64(b.crowd) > room {
		return fmt.Errorf("%d simulated nodes have room for %d pods: make simulate, or --nodes", len(nodes.Items), room)
	}
	if err := b.namespace(ctx, crowdNamespace); err != nil {
		return err
	}
	steps := []struct {
		what string
		run  func(ctx context.Context, b *bench) error
	}{{"until all are ready", crowdComes}, {"lists", crowdIsListed}, {"removal", crowdGoes}}
	for _, s := range steps {
		other, begin := b.somebodyElse(ctx), time.Now()
		err := errors.Join(s.run(ctx, b), b.crowdedServices(ctx, s.what, begin), other.leave())
		if err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		b.waited(s.what+", another's write", other.writes)
		b.waited(s.what+", another's read", other.reads)
	}
	return b.remove(ctx, crowdNamespace)
}

// crowded reports how long something took that was done to all pods.
func (b *bench) crowded(what string, start time.Time) {
	took := time.Since(start).Seconds()
	b.report(figure{Scenario: fmt.Sprintf("%d pods: %s", b.crowd, what), Count: b.crowd, Seconds: took, PerSec: float64(b.crowd) / took})
}

// waited reports how long single calls took beside them.
func (b *bench) waited(what string, took []time.Duration) {
	f := latencies(took)
	f.Scenario = fmt.Sprintf("%d pods: %s", b.crowd, what)
	b.report(f)
}

func crowdComes(ctx context.Context, b *bench) error {
	start := time.Now()
	for n := range (b.crowd + crowdReplicas - 1) / crowdReplicas {
		d := crowdDeployment(n, min(crowdReplicas, b.crowd-n*crowdReplicas))
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: d.Name},
			Spec:       corev1.ServiceSpec{Selector: d.Spec.Selector.MatchLabels, Ports: []corev1.ServicePort{{Port: 80}}},
		}
		if _, err := b.client.CoreV1().Services(crowdNamespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return err
		}
		if _, err := b.client.AppsV1().Deployments(crowdNamespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	err := asking(ctx, crowdAsked, func() (bool, error) {
		all, err := b.client.AppsV1().Deployments(crowdNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		available := 0
		for _, d := range all.Items {
			available += int(d.Status.AvailableReplicas)
		}
		return available == b.crowd, nil
	})
	if err == nil {
		b.crowded("until all are ready", start)
	}
	return err
}

func crowdIsListed(ctx context.Context, b *bench) error {
	for _, way := range []struct {
		name    string
		options metav1.ListOptions
	}{{"all", metav1.ListOptions{}}, {"all from the cache", metav1.ListOptions{ResourceVersion: "0"}}, {"those of a Deployment", metav1.ListOptions{LabelSelector: "app=d-0"}}} {
		var took []time.Duration
		for range 5 {
			start := time.Now()
			if _, err := b.client.CoreV1().RESTClient().Get().Namespace(crowdNamespace).Resource("pods").
				VersionedParams(&way.options, scheme.ParameterCodec).Do(ctx).Raw(); err != nil {
				return err
			}
			took = append(took, time.Since(start))
		}
		b.waited(fmt.Sprintf("list of %s, until read", way.name), took)
	}
	return nil
}

func crowdGoes(ctx context.Context, b *bench) error {
	start := time.Now()
	err := b.client.AppsV1().Deployments(crowdNamespace).DeleteCollection(ctx,
		metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}, metav1.ListOptions{})
	if err != nil {
		return err
	}
	err = asking(ctx, crowdAsked, func() (bool, error) {
		pods, err := b.client.CoreV1().Pods(crowdNamespace).List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil && len(pods.Items) == 0, err
	})
	if err == nil {
		b.crowded("removal", start)
	}
	return err
}

// crowdDeployment is the n-th of the crowd.
func crowdDeployment(n, replicas int) *appsv1.Deployment {
	d := benchDeployment(replicas)
	d.Name = fmt.Sprintf("d-%d", n)
	labels := map[string]string{"app": d.Name}
	d.Spec.Selector.MatchLabels, d.Spec.Template.Labels = labels, labels
	d.Spec.Template.Spec.NodeSelector = map[string]string{simulatedLabel: "true"}
	return d
}

// crowdedServices reports what each service of a cluster held at most since begin, and which share of a processor it took.
func (b *bench) crowdedServices(ctx context.Context, what string, begin time.Time) error {
	if b.target != nil {
		return nil // memory reports a standalone's
	}
	if err := pause(ctx, scrapeEvery); err != nil {
		return err
	}
	since := time.Since(begin).Round(time.Second)
	held, err := b.query(ctx, fmt.Sprintf("max_over_time(process_resident_memory_bytes[%s])", since))
	if err != nil {
		return err
	}
	took, err := b.query(ctx, fmt.Sprintf("rate(process_cpu_seconds_total[%s])", max(since, 4*scrapeEvery)))
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		b.report(figure{Scenario: fmt.Sprintf("%d pods: %s, service %s", b.crowd, what, name), MiB: held[name] / (1 << 20), CPU: 100 * took[name],
			Seconds: since.Seconds(), Note: "the most that it held, and what it took on the average of the last minute at least"})
	}
	return nil
}

// somebody writes and reads a ConfigMap, four times a second, beside what is measured.
type somebody struct {
	writes, reads []time.Duration // once it has left
	err           error
	stop, left    chan struct{}
}

func (b *bench) somebodyElse(ctx context.Context) *somebody {
	s := &somebody{stop: make(chan struct{}), left: make(chan struct{})}
	configMaps := b.client.CoreV1().ConfigMaps(crowdNamespace)
	call := func() error {
		start := time.Now()
		own, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "beside-"}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		s.writes = append(s.writes, time.Since(start))
		start = time.Now()
		if _, err := configMaps.Get(ctx, own.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		s.reads = append(s.reads, time.Since(start))
		return nil
	}
	go func() {
		defer close(s.left)
		ticker := time.NewTicker(250 * time.Millisecond)
		defer ticker.Stop()
		for s.err == nil {
			select {
			case <-s.stop:
				return
			case <-ticker.C:
				s.err = call()
			}
		}
	}()
	return s
}

// leave ends it, and returns what went wrong.
func (s *somebody) leave() error {
	close(s.stop)
	<-s.left
	if s.err != nil {
		return fmt.Errorf("somebody else: %w", s.err)
	}
	return nil
}
