// Package nodestatus registers the node, says now and then whether it
// changed, and renews its lease.
package nodestatus

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/pressure"
	"howdah.dev/nodeagent/internal/reserve"
)

const (
	retryPause  = time.Second
	callTimeout = 10 * time.Second
)

// retries are the pauses between attempts at what fails, of a second at first and at most seven, as a kubelet's are for its lease. They
// differ from node to node: all of them may have lost the API at once.
func retries() wait.Backoff {
	return wait.Backoff{Duration: retryPause, Factor: 1.6, Jitter: 0.2, Steps: 10, Cap: 7 * time.Second}
}

// Config of a Reporter.
type Config struct {
	NodeName  string
	Labels    map[string]string // beside those that every node has
	Taints    []corev1.Taint    // with which the node is made; one that is there keeps its own
	Addresses []string          // of the node, the main one first
	Port      int32             // of the HTTPS endpoint; of the node API where there is none
	AgentPort int32             // of the node API, where Port is not
	Version   string            // as kubeletVersion
	MaxPods   int64
	Pace      Pace // default DefaultPace
	Machine   Machine
	Client    *object.Client
	Runtime   *cri.Client
	Clock     clock.Clock
	// Short says what the node is short of.
	Short func() pressure.Conditions
	// Devices, which may be nil, says what the node has of the resources of device plugins, and what of it may be used.
	Devices func() (capacity, allocatable corev1.ResourceList)
	// VolumesInUse, which may be nil, are the attachable volumes that are not to be detached from the node.
	VolumesInUse func() []corev1.UniqueVolumeName
	// Reserved is what pods may not ask for of what the machine has.
	Reserved corev1.ResourceList
	// Problems, which may be nil, says what else keeps the node from being ready.
	Problems func() []string
	// Event, which may be nil, records an event of the node.
	Event func(kind, reason, message string)
	// Registerer, which may be nil, is told how long the node took to be ready.
	Registerer prometheus.Registerer
}

// Reporter keeps the Node object true.
type Reporter struct {
	cfg  Config
	poke chan struct{}
	// renewed is when the lease was last renewed, in nanoseconds of the clock.
	renewed atomic.Int64
	startup *startup

	cordoned bool // as was last told in an event; Register and Run alone have it

	mu     sync.Mutex
	node   *corev1.Node // the newest that the API has told
	wrote  time.Time
	engine engine
	asked  *question // that the runtime has not answered, or nobody has heard the answer
}

// New returns a Reporter.
func New(cfg Config) *Reporter {
	if cfg.Pace == (Pace{}) {
		cfg.Pace = DefaultPace
	}
	r := &Reporter{cfg: cfg, poke: make(chan struct{}, 1), startup: &startup{booted: cfg.Machine.Booted(), began: cfg.Clock.Now()}}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(r.startup)
	}
	return r
}

// Poke makes the reporter look at once: something about the node changed.
func (r *Reporter) Poke() {
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// Observe takes what the API has of the node now, and has the reporter look where that is news: others write the status, too. A controller says of a node
// that was cut off that nothing is known of it, and nobody but the node takes that back. Who answers each write with one of its own is
// answered with the next regular look.
func (r *Reporter) Observe(node *corev1.Node) {
	r.mu.Lock()
	news := r.node != nil && newer(node, r.node)
	if news {
		r.node = node
	}
	now := news && r.cfg.Clock.Since(r.wrote) >= retryPause
	r.mu.Unlock()
	if now {
		r.Poke()
	}
}

// newer reports whether one state of the node came after another.
func newer(a, b *corev1.Node) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}

// Node returns the newest Node that the API has told, nil before registration.
func (r *Reporter) Node() *corev1.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.node
}

// Here describes the node as it is, without the API: what pods start on before there is a Node.
func (r *Reporter) Here(ctx context.Context) *corev1.Node {
	r.ask(obs.Untraced(ctx))
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: r.cfg.NodeName, Labels: Labels(r.cfg.NodeName, r.cfg.Machine.Info(), r.cfg.Labels)},
		Status:     r.status(&corev1.NodeStatus{}),
	}
}

// Register makes sure that the node is in the API; it repeats until it is,
// or ctx ends.
func (r *Reporter) Register(ctx context.Context) error {
	r.startup.asking(r.cfg.Clock.Now())
	retry := retries()
	for {
		node, err := r.register(obs.Untraced(ctx))
		if err == nil {
			r.keep(node)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		slog.Warn("register the node", "node", r.cfg.NodeName, "err", err)
		if !r.pause(ctx, retry.Step()) {
			return ctx.Err()
		}
	}
}

func (r *Reporter) register(ctx context.Context) (*corev1.Node, error) {
	r.ask(ctx)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	nodes := object.For(r.cfg.Client, object.Node)
	labels, annotations := Labels(r.cfg.NodeName, r.cfg.Machine.Info(), r.cfg.Labels), r.annotations()
	node, err := nodes.Get(ctx, "", r.cfg.NodeName)
	if apierrors.IsNotFound(err) {
		node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.cfg.NodeName, Labels: labels, Annotations: annotations}, Spec: corev1.NodeSpec{Taints: r.cfg.Taints}}
		node.Status = r.status(&corev1.NodeStatus{})
		created, err := nodes.Create(ctx, node)
		if err != nil {
			return nil, err
		}
		r.startup.made(r.cfg.Clock.Now())
		r.tell(&corev1.Node{}, node)
		if len(created.Status.Conditions) > 0 {
			return created, nil
		}
		created.Status = node.Status // the API keeps no status at creation
		return nodes.UpdateStatus(ctx, created)
	}
	if err != nil {
		return nil, err
	}
	node = node.DeepCopy()
	told := merge(&node.Labels, lasting(labels))
	if merge(&node.Annotations, annotations) {
		told = true
	}
	if _, stale := node.Annotations[object.AgentPortAnnotation]; stale && len(annotations) == 0 { // of an agent that had both ports
		delete(node.Annotations, object.AgentPortAnnotation)
		told = true
	}
	if told {
		if node, err = nodes.Update(ctx, node); err != nil {
			return nil, err
		}
		node = node.DeepCopy()
	}
	before := node.DeepCopy()
	node.Status = r.status(&node.Status)
	stored, err := nodes.UpdateStatus(ctx, node)
	if err == nil {
		r.tell(before, stored)
	}
	return stored, err
}

// annotations lead API servers to the node API.
func (r *Reporter) annotations() map[string]string {
	if r.cfg.AgentPort == 0 {
		return nil
	}
	return map[string]string{object.AgentPortAnnotation: strconv.Itoa(int(r.cfg.AgentPort))}
}

// merge adds what is wanted, and reports whether that changed anything.
func merge(to *map[string]string, wanted map[string]string) bool {
	changed := false
	for k, v := range wanted {
		if (*to)[k] == v {
			continue
		}
		if *to == nil {
			*to = map[string]string{}
		}
		(*to)[k], changed = v, true
	}
	return changed
}

// has reports whether all that is wanted is there.
func has(labels, wanted map[string]string) bool {
	for k, v := range wanted {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// platform are the labels that a node gives itself again whoever changes them, since by them pods are sent where they can run.
func platform(info corev1.NodeSystemInfo) map[string]string {
	return map[string]string{corev1.LabelArchStable: info.Architecture, corev1.LabelOSStable: info.OperatingSystem}
}

// Labels are those that a node bears.
func Labels(name string, info corev1.NodeSystemInfo, more map[string]string) map[string]string {
	labels := map[string]string{corev1.LabelHostname: name, "beta.kubernetes.io/arch": info.Architecture, "beta.kubernetes.io/os": info.OperatingSystem}
	maps.Copy(labels, platform(info))
	maps.Copy(labels, more)
	return labels
}

// lasting are the labels that a node bears as long as its agent says so. Others are those with which it is made, as in Kubernetes: they can be changed.
func lasting(labels map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range labels {
		if slices.Contains([]string{
			corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch", corev1.LabelInstanceType,
			corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
		}, key) {
			out[key] = value
		}
	}
	return out
}

func (r *Reporter) keep(node *corev1.Node) {
	if Ready(node) {
		r.startup.isReady(r.cfg.Clock.Now())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrote = r.cfg.Clock.Now()
	if r.node == nil || !newer(r.node, node) { // a watch may be ahead of an answer
		r.node = node
	}
}

// Run reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	if r.cfg.Event != nil {
		r.cfg.Event(corev1.EventTypeNormal, "Starting", "Starting kubelet.")
	}
	retry := retries()
	for {
		pause := r.cfg.Pace.Look
		err := r.report(obs.Untraced(ctx))
		if err == nil {
			retry = retries()
		}
		if err != nil && ctx.Err() == nil {
			slog.Warn("write the node's status", "node", r.cfg.NodeName, "err", err)
			pause = retry.Step()
		} else if !Ready(r.Node()) { // what it waits for is about to come
			pause = retryPause
		}
		if !r.pause(ctx, pause) {
			return ctx.Err()
		}
	}
}

// Ready reports whether the node is ready, as far as the API knows.
func Ready(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// pause waits, and ends early when poked; false says that ctx has ended.
func (r *Reporter) pause(ctx context.Context, d time.Duration) bool {
	timer := r.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-r.poke:
	case <-timer.C():
	}
	return true
}

// report writes the status if it says anything new, or is old.
func (r *Reporter) report(ctx context.Context) error {
	r.ask(ctx)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r.mu.Lock()
	node, wrote := r.node, r.wrote
	r.mu.Unlock()
	nodes := object.For(r.cfg.Client, object.Node)
	r.tellCordon(node)
	status := r.status(&node.Status)
	platform := platform(status.NodeInfo)
	if !differ(&node.Status, &status) && r.cfg.Clock.Since(wrote) < r.cfg.Pace.Tell && has(node.Labels, platform) {
		return nil
	}
	fresh, err := nodes.Get(ctx, "", r.cfg.NodeName)
	if apierrors.IsNotFound(err) { // somebody removed it; it is still here
		created, err := r.register(ctx)
		if err == nil {
			r.keep(created)
		}
		return err
	}
	if err != nil {
		return err
	}
	update := fresh.DeepCopy()
	merge(&update.Labels, platform)
	update.Status = r.status(&fresh.Status) // what others say of the node may be newer than what this one knows
	stored, err := nodes.UpdateStatus(ctx, update)
	if apierrors.IsConflict(err) {
		r.Poke() // somebody else wrote; with the next round
		return nil
	}
	if err != nil {
		return err
	}
	r.tell(fresh, stored)
	r.keep(stored)
	return nil
}

// ask learns what the runtime is now. An answer that is late is heard by the next who ask: a runtime that is slow, as on a machine with
// too much to do, is not taken for one that is down.
func (r *Reporter) ask(ctx context.Context) {
	q := r.question(ctx)
	timer := r.cfg.Clock.NewTimer(askTimeout)
	defer timer.Stop()
	select {
	case <-q.answered:
	case <-timer.C():
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-q.answered:
		if r.asked == q {
			r.asked, r.engine = nil, r.engine.then(q.answer, q.at)
		}
	default:
		r.engine.err = errSilent
	}
}

// question is the one that the runtime is asked: where it has not answered the last one, that. It is given up with ctx.
func (r *Reporter) question(ctx context.Context) *question {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked != nil {
		return r.asked
	}
	q := &question{answered: make(chan struct{})}
	r.asked = q
	go func() {
		q.answer = inquire(ctx, r.cfg.Runtime, r.cfg.Pace.Images)
		q.at = r.cfg.Clock.Now()
		close(q.answered)
	}()
	return q
}

// status returns what is to be said of the node now.
func (r *Reporter) status(old *corev1.NodeStatus) corev1.NodeStatus {
	s := *old.DeepCopy()
	s.NodeInfo = r.cfg.Machine.Info()
	s.NodeInfo.ContainerRuntimeVersion = old.NodeInfo.ContainerRuntimeVersion
	s.NodeInfo.KubeletVersion = r.cfg.Version
	s.DaemonEndpoints.KubeletEndpoint.Port = r.cfg.Port
	s.DeclaredFeatures = []string{"InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers", "RestartAllContainersOnContainerExits"} // in order
	s.Addresses = nil
	for _, ip := range r.cfg.Addresses {
		s.Addresses = append(s.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	s.Addresses = append(s.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: r.cfg.NodeName})

	var problems []string
	capacity, allocatable, err := r.cfg.Machine.Capacity(r.cfg.MaxPods)
	if err != nil {
		problems = append(problems, err.Error())
	} else {
		for name, q := range r.cfg.Reserved {
			allocatable[name] = reserve.Left(allocatable[name], q)
		}
		if r.cfg.Devices != nil {
			devices, usable := r.cfg.Devices()
			maps.Copy(capacity, devices)
			maps.Copy(allocatable, usable)
		}
		advertised(old.Capacity, capacity, allocatable)
		s.Capacity, s.Allocatable = capacity, allocatable
	}
	r.mu.Lock()
	engine := r.engine
	r.mu.Unlock()
	engine.say(&s)
	problems = append(problems, engine.problems(r.cfg.Clock.Now())...)
	if r.cfg.Problems != nil {
		problems = append(problems, r.cfg.Problems()...)
	}
	if r.cfg.VolumesInUse != nil {
		s.VolumesInUse = r.cfg.VolumesInUse()
	}
	s.Conditions = Conditions(old.Conditions, r.cfg.Short(), problems, r.cfg.Clock.Now())
	return s
}

// advertised adds to what the machine has what others have advertised for the node, all of which pods may use.
func advertised(old, capacity, allocatable corev1.ResourceList) {
	for name, q := range old {
		if _, own := capacity[name]; !own {
			capacity[name], allocatable[name] = q, q
		}
	}
}

// String names the reporter's node.
func (r *Reporter) String() string { return fmt.Sprintf("node %s", r.cfg.NodeName) }
