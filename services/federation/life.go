package federation

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"howdah.dev/kit/leading"
	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/kit/task"
	"howdah.dev/services/federation/api"
	"howdah.dev/services/federation/internal/template"
)

// life is one set of caches and queues, from the start of the process or the loss of a leadership to the loss of the next.
type life struct {
	cfg     *Config
	metrics *metrics

	informers         *object.Informers
	clusters          *object.Informer[*api.Cluster]
	policies          *object.Informer[*api.Policy]
	clusterPolicies   *object.Informer[*api.Policy]
	placements        *object.Informer[*api.Placement]
	clusterPlacements *object.Informer[*api.Placement]
	secrets           *object.Informer[*corev1.Secret]
	templates         *template.Set

	plans    *reconcile.Controller // by ID: where it goes
	statuses *reconcile.Controller // by ID: what became of it
	accepts  *reconcile.Controller // by policy
	recorder record.EventRecorder
	send     object.Sender

	federation string // the uid of ours, known once it leads

	reset   chan struct{} // a token: clusters came or went
	mu      sync.Mutex
	members map[string]*link
}

// Names of the indexes of placements.
const (
	byObject  = "object"
	byNeed    = "need"
	byCluster = "cluster"
)

// namespaceKind is followed always: namespaces are made where they are needed, and go when they do.
var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

func newLife(cfg *Config, m *metrics) *life {
	l := &life{cfg: cfg, metrics: m, informers: object.NewInformers(cfg.Objects), members: map[string]*link{}, reset: make(chan struct{}, 1)}
	slim := func(o object.Object) { o.SetManagedFields(nil) }
	placementOption := object.Option{Slim: slim, Indexers: cache.Indexers{
		byObject: func(o any) ([]string, error) { return []string{o.(*api.Placement).ID().String()}, nil },
		byNeed: func(o any) ([]string, error) {
			p := o.(*api.Placement)
			var ids []string
			for _, need := range p.Spec.Needs {
				ids = append(ids, need.Of(p.Namespace).String())
			}
			return ids, nil
		},
		byCluster: func(o any) ([]string, error) { return clustersOf(o.(*api.Placement)), nil },
	}}
	l.clusters = object.InformerFor(l.informers, api.Clusters, object.Option{Slim: slim})
	l.policies = object.InformerFor(l.informers, api.Policies, object.Option{Slim: slim})
	l.clusterPolicies = object.InformerFor(l.informers, api.ClusterPolicies, object.Option{Slim: slim})
	l.placements = object.InformerFor(l.informers, api.Placements, placementOption)
	l.clusterPlacements = object.InformerFor(l.informers, api.ClusterPlacements, placementOption)
	l.secrets = object.InformerFor(l.informers, object.Secret, object.Option{Slim: slim, FieldSelector: "type=" + string(api.CredentialsType)})
	queue := func(name, kind string, workers int, f reconcile.Func) *reconcile.Controller {
		return reconcile.New(reconcile.Config{Name: name, Kind: kind, Workers: workers, Reconcile: f, Metrics: m.queues, Clock: cfg.Clock})
	}
	l.plans = queue("federation-placement", "Placement", 4, l.reconcilePlacement)
	l.statuses = queue("federation-status", "Placement", 4, l.reconcileStatus)
	l.accepts = queue("federation-policy", "PropagationPolicy", 1, l.reconcilePolicy)
	l.templates = template.New(cfg.Objects, cfg.Clock, l.templateChanged, l.templatesSynced)
	l.recorder, l.send = object.Recorder(cfg.Objects, api.Manager, "")
	return l
}

// clustersOf are the clusters where something of the placement's object is to be, or is still.
func clustersOf(p *api.Placement) []string {
	var names []string
	for _, c := range p.Spec.Clusters {
		names = append(names, c.Name)
	}
	return append(names, p.Spec.Leaving...)
}

// allPlacements are those in namespaces and those of the cluster.
func (l *life) allPlacements() []*api.Placement {
	return append(l.placements.List(""), l.clusterPlacements.List("")...)
}

// placementOf returns the placement of an object.
func (l *life) placementOf(id api.ID) *api.Placement {
	from := l.clusterPlacements
	if id.Namespace != "" {
		from = l.placements
	}
	for _, p := range from.ByIndex(byObject, id.String()) {
		if p.Name == id.PlacementName() {
			return p
		}
	}
	return nil
}

// indexed are the placements that an index files under value.
func (l *life) indexed(index, value string) []*api.Placement {
	return append(l.placements.ByIndex(index, value), l.clusterPlacements.ByIndex(index, value)...)
}

// catchUpTimeout bounds how long a new leader waits for what the one before has written, and for who the federation is.
const catchUpTimeout = 15 * time.Second

// run follows the API until ctx ends or a leadership has been lost.
func (l *life) run(ctx context.Context) error {
	role := leading.Role{
		Name: Role, Leadership: l.cfg.Leadership, Objects: l.cfg.Objects, Informers: l.informers, Clock: l.cfg.Clock, Patience: catchUpTimeout,
	}
	return role.Once(ctx, l.lead, l.informers.Run, task.Func(l.send))
}

// lead carries until the leadership ends. Queues run once: a second term needs a new life.
func (l *life) lead(ctx context.Context) error {
	if err := l.introduce(ctx); err != nil {
		return err
	}
	l.handle()
	l.want()
	return task.Run(ctx, l.templates.Run, l.plans.Run, l.statuses.Run, l.accepts.Run, l.runMembers)
}

// introduce learns who the federation is.
func (l *life) introduce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	own, err := object.For(l.cfg.Objects, object.Namespace).Get(ctx, "", "kube-system")
	if err != nil {
		return fmt.Errorf("look who the federation is: %w", err)
	}
	l.federation = string(own.UID)
	return nil
}

// handle calls the queues for what there is, and for every change from then on.
func (l *life) handle() {
	placement := func(informer *object.Informer[*api.Placement]) {
		informer.AddHandler(func(old, p *api.Placement) {
			var by trace.SpanContext
			if p != nil {
				by = informer.Trace(p)
			}
			l.placementChanged(old, p, by)
		})
	}
	placement(l.placements)
	placement(l.clusterPlacements)
	policy := func(informer *object.Informer[*api.Policy]) {
		informer.AddHandler(func(old, p *api.Policy) {
			if old != nil && p != nil && old.Generation == p.Generation && old.UID == p.UID {
				return // its status
			}
			var by trace.SpanContext
			if p != nil {
				by = informer.Trace(p)
				l.accepts.Enqueue(policyKey(p), by)
			}
			l.policyChanged(old, by)
			l.policyChanged(p, by)
			l.want()
		})
	}
	policy(l.policies)
	policy(l.clusterPolicies)
	l.clusters.AddHandler(func(old, c *api.Cluster) { l.clusterChanged(old, c) })
	l.secrets.AddHandler(func(old, s *corev1.Secret) {
		for _, s := range []*corev1.Secret{old, s} {
			if s != nil {
				l.secretChanged(s)
			}
		}
	})
}

// placementChanged asks for what follows from a decision.
func (l *life) placementChanged(old, p *api.Placement, by trace.SpanContext) {
	some := p
	if some == nil {
		some = old
	}
	id := some.ID()
	key := id.String()
	if p == nil || old == nil || old.Generation != p.Generation || old.UID != p.UID {
		for _, one := range []*api.Placement{old, p} {
			if one == nil {
				continue
			}
			for _, name := range clustersOf(one) {
				l.carry(name, key, by)
			}
			for _, need := range one.Spec.Needs {
				l.plans.Enqueue(need.Of(one.Namespace).String(), by)
			}
		}
		l.plans.Enqueue(key, by)
		l.statuses.Enqueue(key, by)
		l.want()
	}
}

// templateChanged asks for what follows from a change of a template.
func (l *life) templateChanged(id api.ID, by trace.SpanContext) {
	l.plans.Enqueue(id.String(), by)
	if id.GVK == namespaceKind {
		l.eachMember(func(m *link) { m.carry(id.String(), by) })
	}
}

// templatesSynced asks for all that waited until a kind's objects are known.
func (l *life) templatesSynced(gvk schema.GroupVersionKind) {
	for _, p := range l.allPlacements() {
		if id := p.ID(); id.GVK == gvk {
			l.plans.Enqueue(id.String(), trace.SpanContext{})
			for _, name := range clustersOf(p) {
				l.carry(name, id.String(), trace.SpanContext{})
			}
		}
	}
	l.eachMember(func(m *link) { m.carryAll(gvk) })
}

// want has those kinds followed of which policies or placements speak.
func (l *life) want() {
	kinds := map[schema.GroupVersionKind]bool{namespaceKind: true}
	for _, p := range append(l.policies.List(""), l.clusterPolicies.List("")...) {
		for _, s := range p.Spec.ResourceSelectors {
			kinds[schema.FromAPIVersionAndKind(s.APIVersion, s.Kind)] = true
		}
	}
	for _, p := range l.allPlacements() {
		kinds[p.ID().GVK] = true
		for _, need := range p.Spec.Needs {
			kinds[need.Of(p.Namespace).GVK] = true
		}
	}
	for _, c := range l.clusters.List("") { // of which something may be left in a member
		for _, k := range c.Status.Kinds {
			kinds[k.GroupVersionKind()] = true
		}
	}
	l.templates.Want(kinds)
}
