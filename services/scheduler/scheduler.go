// Package scheduler assigns pods to nodes: it follows pods and nodes, places
// groups of identical pods over a snapshot, and binds in batches.
package scheduler

import (
	"context"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/leading"
	"howdah.dev/kit/object"
	"howdah.dev/kit/task"
	schedulerv1 "howdah.dev/proto/gen/howdah/scheduler/v1"
	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/config"
	"howdah.dev/services/scheduler/internal/cycle"
	"howdah.dev/services/scheduler/internal/filter"
	"howdah.dev/services/scheduler/internal/queue"
)

// Role is the name under which schedulers elect their leader.
const Role = "scheduler"

// Config is what a scheduler needs.
type Config struct {
	Objects    *object.Client
	Leadership leading.Leadership
	// Name is the schedulerName of the pods that this scheduler places where there is no Configuration.
	Name string
	// Configuration says what it does for which pods; nil is Kubernetes' default profile for those of Name.
	Configuration *Configuration
	Clock         clock.WithTicker
	Registerer    prometheus.Registerer
	// Resources gets what each pod requests and may use, which is for a page of its own: the series are as many as the pods. Nil is for nobody.
	Resources prometheus.Registerer
}

// Server is a scheduler and its API.
type Server struct {
	schedulerv1.UnimplementedSchedulerServiceServer

	cfg       Config
	profiles  profiles
	informers *object.Informers
	pods      *object.Informer[*corev1.Pod]
	nodes     *object.Informer[*corev1.Node]
	budgets   *object.Informer[*policyv1.PodDisruptionBudget]
	cache     *cluster.Cache
	queue     *queue.Queue
	metrics   *metrics
	seed      maphash.Seed // of the groups
	volumes   *volumes
	leaving   sync.Map // UIDs of pods that were chosen to go, until the informer shows that they do
}

// New returns a scheduler; nothing runs until Run.
func New(cfg Config) *Server {
	configuration := config.Default(cfg.Name)
	if cfg.Configuration != nil {
		configuration = cfg.Configuration
	}
	s := &Server{
		cfg: cfg, profiles: profilesOf(configuration), informers: object.NewInformers(cfg.Objects),
		cache: cluster.NewCache(), queue: queue.New(cfg.Clock, configuration.Backoffs),
		seed: maphash.MakeSeed(),
	}
	s.metrics = newMetrics(cfg.Registerer, state{s.queue, s.cache})
	s.profiles.count(s.metrics)
	s.profiles.record(cfg.Objects)
	s.pods = object.InformerFor(s.informers, object.Pod, object.Option{Slim: dropManagedFields})
	s.nodes = object.InformerFor(s.informers, object.Node, object.Option{Slim: dropManagedFields})
	s.budgets = object.InformerFor(s.informers, object.PodDisruptionBudget, object.Option{Slim: dropManagedFields})
	s.volumes = newVolumes(s)
	s.follow()
	s.followDevices()
	s.followKin()
	s.queue.AlsoSociable(s.defaulted)
	s.queue.HeedOwn(func(was, is *corev1.Pod, cause string) bool {
		return s.help(queue.ChangeOf(was, is), s.refusers(is, cause), func(refusers []filter.Filter) bool { return filter.HelpedBy(refusers, was, is) })
	})
	s.pods.AddHandler(handledAs(s, s.podEvent, s.podChanged))
	s.nodes.AddHandler(handledAs(s, nodeEvent, s.nodeChanged))
	object.InformerFor(s.informers, object.Namespace, object.Option{Slim: dropManagedFields}).AddHandler(handled(s, "Namespace", s.namespaceChanged))
	if cfg.Resources != nil {
		cfg.Resources.MustRegister(podResources{s.pods})
	}
	return s
}

// Register adds the scheduler's API to a server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	schedulerv1.RegisterSchedulerServiceServer(r, s)
}

// Ready reports whether the caches are filled.
func (s *Server) Ready(ctx context.Context) bool { return s.informers.Wait(ctx) }

// Run follows the cluster until ctx ends, and schedules while it leads. A
// standby keeps its caches warm, if not as new as a leader's, so that it can take over at once.
func (s *Server) Run(ctx context.Context) error {
	role := leading.Role{Name: Role, Leadership: s.cfg.Leadership, Objects: s.cfg.Objects, Informers: s.informers, Clock: s.cfg.Clock}
	return task.Run(ctx, s.informers.Run, s.profiles.sendEvents, func(ctx context.Context) error { return role.Terms(ctx, s.lead) })
}

func (s *Server) lead(ctx context.Context) error {
	binder := newBinder(s)
	defer binder.drain()
	return task.Run(ctx, binder.Run, func(ctx context.Context) error { return s.schedule(ctx, binder) })
}

// groupLimit bounds how many identical pods one cycle places, so that a pod
// of a higher priority waits for one cycle at most.
const groupLimit = 1000

// schedule places group after group until ctx ends.
func (s *Server) schedule(ctx context.Context, binder *binder) error {
	for {
		items := s.queue.Pop(ctx, groupLimit)
		if items == nil {
			return ctx.Err()
		}
		group := make([]*queue.Item, 0, len(items))
		for _, item := range items {
			if s.cache.Placed(item.Pod.UID) {
				s.queue.Delete(item.Pod.UID)
				continue
			}
			group = append(group, item)
		}
		var decisions []decision
		for _, part := range byNomination(group) {
			decisions = append(decisions, s.place(part)...)
		}
		if err := binder.take(ctx, decisions); err != nil {
			return err
		}
	}
}

// place decides for pods that are alike, and wait for the same node if for any.
func (s *Server) place(items []*queue.Item) []decision {
	pods := make([]*corev1.Pod, 0, len(items))
	for _, item := range items {
		pods = append(pods, item.Pod)
	}
	profile := s.profiles.of(pods[0])
	placements, timing := profile.Place(pods, s.cache.Snapshot(), rand.IntN, s.cfg.Clock.Now)
	profile.metrics.cycle(timing)
	decisions := s.decide(items, placements, timing)
	s.makeRoom(decisions)
	for i := range decisions {
		if decisions[i].node == "" {
			s.attempted(&decisions[i], nil)
		}
	}
	return decisions
}

// byNomination parts pods by the node that is kept for them. Those for which none is come last.
func byNomination(items []*queue.Item) [][]*queue.Item {
	node := func(i *queue.Item) string { return i.Pod.Status.NominatedNodeName }
	slices.SortStableFunc(items, func(a, b *queue.Item) int { return strings.Compare(node(b), node(a)) })
	var parts [][]*queue.Item
	for len(items) > 0 {
		end := slices.IndexFunc(items, func(i *queue.Item) bool { return node(i) != node(items[0]) })
		if end < 0 {
			end = len(items)
		}
		parts, items = append(parts, items[:end]), items[end:]
	}
	return parts
}

// decide assumes the placed pods and begins their spans.
func (s *Server) decide(items []*queue.Item, placements []cycle.Placement, timing cycle.Timing) []decision {
	decisions := make([]decision, 0, len(items))
	var demand cluster.Demand // the same for all of a group
	if len(items) > 0 {
		demand = cluster.DemandOf(items[0].Pod)
	}
	for i, item := range items {
		d := decision{item: item, node: placements[i].Node, message: placements[i].Message, ahead: placements[i].Ahead, cause: strings.Join(placements[i].Refusers, causes), volumes: placements[i].Volumes, devices: placements[i].Devices, release: placements[i].Release}
		d.began = timing.Start
		if placements[i].Fault {
			d.fails(placements[i].Message)
		}
		reserves, began := d.volumes != nil || d.devices != nil && d.node != "", s.cfg.Clock.Now()
		if d.volumes != nil && !s.cache.Storage.Assume(d.volumes) {
			s.metrics.volumes.WithLabelValues("assume").Inc()
			d.volumes = nil
			d.fails(`running Reserve plugin "VolumeBinding": the volumes have changed`)
		}
		if d.devices != nil && (d.node == "" || !s.cache.Devices.Assume(d.devices)) {
			if d.node != "" {
				d.fails(`running Reserve plugin "DynamicResources": the claims have changed`)
			}
			d.devices = nil
			s.forgetVolumes(&d)
		}
		if reserves {
			s.reserved(&d, began)
		}
		if d.node != "" {
			bound := *item.Pod
			bound.Spec.NodeName = d.node
			s.cache.Assume(&bound, demand)
		}
		d.trace(s.pods.Trace(item.Pod), timing)
		decisions = append(decisions, d)
	}
	return decisions
}

func dropManagedFields(obj object.Object) { obj.SetManagedFields(nil) }
