package ha

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// patience is how long anything may take; what it took is logged, for docs/high-availability.md.
const patience = 3 * time.Minute

// TestLosses loses one machine after the other while clients write at both gateways: writes go on, none that was acknowledged is lost, an
// informer has what a list has, and what was lost takes its place again.
func TestLosses(t *testing.T) {
	first, second := client(t, ""), client(t, "second")
	for _, loss := range []struct {
		name   string
		victim func(t *testing.T) string
		pause  bool
	}{
		{"a replica is killed", server("secondary"), false},
		{"the primary is killed", server("primary"), false},
		{"the primary is paused", server("primary"), true},
		{"a replica is paused", server("secondary"), true},
		{"the monitor is killed", named("monitor"), false},
		{"an API server is killed", named("apiserver1"), false},
		{"an API server is paused", named("apiserver2"), true},
		{"the first gateway is killed", named("gateway"), false},
		{"the second gateway is paused", named("gateway2"), true},
		{"a scheduler is killed", named("scheduler1"), false},
		{"the other scheduler is paused", named("scheduler2"), true},
		{"controllers are killed", named("controllers1"), false},
		{"the logs service is killed", named("logs"), false},
	} {
		t.Run(loss.name, func(t *testing.T) {
			namespace := makeNamespace(t, second)
			informer := inform(t, second, namespace)
			loads := []*load{begin(t, first, namespace, "first"), begin(t, second, namespace, "second")}
			for _, l := range loads {
				l.await(t, 20)
			}
			victim := loss.victim(t)
			lost, back := []string{"kill", "--signal=KILL"}, "start"
			if loss.pause {
				lost, back = []string{"pause"}, "unpause"
			}
			lose(t, append(lost, "howdah-"+victim+"-1")...)
			t.Cleanup(func() { exec.Command("docker", back, "howdah-"+victim+"-1").Run() })
			// Long enough for whatever is decided to be done; one of the gateways serves all the while.
			loads[1-gatewayOf(victim)].awaitFrom(t, time.Now().Add(25*time.Second))
			docker(t, back, "howdah-"+victim+"-1")
			for _, l := range loads {
				l.await(t, l.count()+20)
			}
			settle(t)
			for _, l := range loads {
				l.finish(t)
				t.Logf("%s, at the %s gateway: writes waited up to %v; refused: %v", loss.name, l.name, l.gap.Round(100*time.Millisecond), l.refused)
			}
			same(t, second, namespace, informer, loads)
		})
	}
}

// TestMetricsTell reads from Prometheus which server the API servers work on, and that two follow it.
func TestMetricsTell(t *testing.T) {
	settle(t)
	primary := server("primary")(t)
	eventually(t, "the metrics to name the primary and its replicas", func() error {
		for query, want := range map[string]string{
			`count(howdah_store_server{server="` + primary + `"})`:            `"2"`,
			`min(howdah_store_replicas{mode="synchronous"})`:                  `"2"`,
			`min(howdah_store_replication_synchronous)`:                       `"1"`,
			`max(howdah_store_incarnations) - min(howdah_store_incarnations)`: `"0"`,
		} {
			answer, err := fetch(query)
			if err != nil || !strings.Contains(answer, want) {
				return fmt.Errorf("%s: %s, %v; want %s", query, answer, err, want)
			}
		}
		return nil
	})
}

// gatewayOf is the gateway that does not serve without the victim: of the others neither is lost, and the first is taken.
func gatewayOf(victim string) int {
	if victim == "gateway2" {
		return 1
	}
	return 0
}

func named(name string) func(*testing.T) string { return func(*testing.T) string { return name } }

// server finds a database server by its state.
func server(state string) func(*testing.T) string {
	return func(t *testing.T) string {
		return strings.Fields(monitor(t, "SELECT nodename FROM pgautofailover.node WHERE goalstate = '"+state+"' AND reportedstate = goalstate ORDER BY nodename LIMIT 1"))[0]
	}
}

func monitor(t *testing.T, sql string) string {
	t.Helper()
	return docker(t, "exec", "howdah-monitor-1", "psql", "-qAtX", "-h", "/run/postgresql", "-d", "pg_auto_failover", "-c", sql)
}

// settle awaits that there is a primary which two follow.
func settle(t *testing.T) {
	t.Helper()
	eventually(t, "a primary with two replicas", func() error {
		out, err := exec.Command("docker", "exec", "howdah-monitor-1", "psql", "-qAtX", "-h", "/run/postgresql", "-d", "pg_auto_failover", "-c",
			"SELECT string_agg(goalstate::text, ' ' ORDER BY goalstate::text) FROM pgautofailover.node WHERE goalstate = reportedstate").CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != "primary secondary secondary" {
			return fmt.Errorf("%s, %v", got, err)
		}
		return nil
	})
}

func eventually(t *testing.T, what string, done func() error) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(200 * time.Millisecond) { // what is asked offers no event to wait for
		err := done()
		if err == nil {
			return
		}
		if time.Since(begun) > patience {
			t.Fatalf("waited %v for %s: %v", patience, what, err)
		}
	}
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docker %s: %v %s", strings.Join(args, " "), err, errs.String())
	}
	return string(out)
}

// lose tries again where the engine could not freeze a container of which processes come and go, and left it as it was.
func lose(t *testing.T, args ...string) {
	t.Helper()
	eventually(t, "docker "+strings.Join(args, " "), func() error {
		out, err := exec.Command("docker", args...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
}

func client(t *testing.T, kubeContext string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(),
		&clientcmd.ConfigOverrides{CurrentContext: kubeContext}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Timeout = -1, 0
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func makeNamespace(t *testing.T, c kubernetes.Interface) string {
	t.Helper()
	n, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "ha-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n.Name
}

// inform keeps the namespace's ConfigMaps as every controller does.
func inform(t *testing.T, c kubernetes.Interface, namespace string) cache.Store {
	factory := informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the informer does not sync")
	}
	return informer.GetStore()
}

// same holds what was acknowledged, and what the informer knows, against a list.
func same(t *testing.T, c kubernetes.Interface, namespace string, informed cache.Store, loads []*load) {
	t.Helper()
	there := revisions(t, c, namespace)
	for _, l := range loads {
		for _, name := range l.acknowledged {
			if there[name] == "" {
				t.Errorf("%s was acknowledged, and is lost", name)
			}
		}
	}
	eventually(t, "the informer to have what the list has", func() error {
		there := revisions(t, c, namespace) // the write that a load had under way when it was stopped may be done only now
		keys := informed.ListKeys()
		if len(keys) != len(there) {
			return fmt.Errorf("it has %d objects, there are %d", len(keys), len(there))
		}
		for _, o := range informed.List() {
			object, ok := o.(*corev1.ConfigMap)
			if !ok || there[object.Name] != object.ResourceVersion {
				return errors.New("they differ")
			}
		}
		return nil
	})
}

// revisions lists the namespace's ConfigMaps.
func revisions(t *testing.T, c kubernetes.Interface, namespace string) map[string]string {
	t.Helper()
	list, err := c.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]string{}
	for _, o := range list.Items {
		there[o.Name] = o.ResourceVersion
	}
	return there
}

// load creates one object after the other at a gateway, and remembers which were acknowledged.
type load struct {
	name   string
	stop   context.CancelFunc
	worker sync.WaitGroup

	mu           sync.Mutex
	acknowledged []string
	refused      map[string]int
	last         time.Time     // of an acknowledgement
	gap          time.Duration // the longest between two
}

func begin(t *testing.T, c kubernetes.Interface, namespace, name string) *load {
	ctx, stop := context.WithCancel(t.Context())
	l := &load{name: name, stop: stop, refused: map[string]int{}, last: time.Now()}
	l.worker.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			l.write(ctx, c, namespace, fmt.Sprintf("%s-%d", name, i))
		}
	})
	return l
}

func (l *load) write(ctx context.Context, c kubernetes.Interface, namespace, name string) {
	short, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := c.CoreV1().ConfigMaps(namespace).Create(short, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		now := time.Now()
		l.gap, l.last = max(l.gap, now.Sub(l.last)), now
		l.acknowledged = append(l.acknowledged, name)
		return
	}
	if ctx.Err() != nil {
		return // it was given up, as the last one is
	}
	reason := string(apierrors.ReasonForError(err))
	if reason == "" {
		reason = "connection"
		time.Sleep(20 * time.Millisecond) // the port is closed: do not spin
	}
	l.refused[reason]++
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acknowledged)
}

// await returns when so many writes are acknowledged.
func (l *load) await(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d writes at the %s gateway", n, l.name), func() error {
		if got := l.count(); got < n {
			return fmt.Errorf("there are %d", got)
		}
		return nil
	})
}

// awaitFrom returns when a write is acknowledged after a moment to come.
func (l *load) awaitFrom(t *testing.T, moment time.Time) {
	t.Helper()
	eventually(t, "a write at the "+l.name+" gateway", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.last.Before(moment) {
			return fmt.Errorf("the last one was at %v; refused: %v", l.last, l.refused)
		}
		return nil
	})
}

func (l *load) finish(t *testing.T) {
	t.Helper()
	l.stop()
	l.worker.Wait()
	for reason := range l.refused {
		switch reason {
		case "connection", "ServiceUnavailable", "Timeout", "ServerTimeout", "TooManyRequests":
		default:
			t.Errorf("writes were refused with %s, which cannot be tried again", reason)
		}
	}
}
