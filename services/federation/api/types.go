// Package api is the federation's part of the API: its kinds, as Go types, and their definitions, which the role installs.
package api

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Marks of what is carried to members, and of what is carried from.
const (
	// Group is the group of the federation's kinds.
	Group = "federation.howdah.dev"
	// Finalizer is on templates, and on clusters, until nothing of them is left in the members.
	Finalizer = Group + "/carried"
	// ManagedLabel is on every object in a member that a federation made or took over.
	ManagedLabel = Group + "/managed"
	// FederationAnnotation says which: by the uid of its namespace kube-system.
	FederationAnnotation = Group + "/federation"
	// HashAnnotation is the digest of what was applied, GenerationAnnotation the generation of the template that it was made of.
	HashAnnotation, GenerationAnnotation = Group + "/hash", Group + "/generation"
	// PreserveAnnotation is on what stays in the member when its template is deleted.
	PreserveAnnotation = Group + "/preserve"
	// MadeAnnotation is on namespaces that were made in the member because something in them was carried.
	MadeAnnotation = Group + "/made-as-needed"
	// Manager is the field manager of what is applied in members.
	Manager = "howdah-federation"
	// Namespace is where howdah federation join keeps credentials, on both sides.
	Namespace = "howdah-federation"
)

// Labels that a cluster has for selectors beside its own.
const (
	NameLabel     = Group + "/cluster"
	ProviderLabel = Group + "/provider"
	RegionLabel   = "topology.kubernetes.io/region"
	ZoneLabel     = "topology.kubernetes.io/zone"
)

// Cluster is a member.
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ClusterSpec   `json:"spec"`
	Status            ClusterStatus `json:"status,omitzero"`
}

// ClusterSpec is how a member is reached, and what it is.
type ClusterSpec struct {
	Server string `json:"server"`
	// CABundle is the authority of the server's certificate, in PEM; else that is the Secret's ca.crt, or else the machine's.
	CABundle []byte `json:"caBundle,omitempty"`
	// SecretRef names the Secret with token, or tls.crt and tls.key.
	SecretRef SecretReference `json:"secretRef"`
	Provider  string          `json:"provider,omitempty"`
	Region    string          `json:"region,omitempty"`
	Zone      string          `json:"zone,omitempty"`
	Taints    []Taint         `json:"taints,omitempty"`
}

// SecretReference names a Secret.
type SecretReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Effects of taints.
const (
	NoSchedule = "NoSchedule" // nothing new comes
	NoExecute  = "NoExecute"  // and what is there goes
)

// Taint keeps away what does not tolerate it.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// Conditions.
const (
	// Ready of a cluster: it answers, and says that it is ready.
	Ready = "Ready"
	// Accepted of a policy: it makes sense.
	Accepted = "Accepted"
	// Placed of a placement: all replicas have a cluster.
	Placed = "Placed"
	// Carried of a placement: every cluster has what it is to have.
	Carried = "Carried"
)

// ClusterStatus is what is known of a member.
type ClusterStatus struct {
	Conditions        []metav1.Condition `json:"conditions,omitempty"`
	KubernetesVersion string             `json:"kubernetesVersion,omitempty"`
	Nodes             *Nodes             `json:"nodes,omitempty"`
	Allocatable       Resources          `json:"allocatable,omitempty"`
	Allocated         Resources          `json:"allocated,omitempty"`
	// APIs are the kinds that the member serves and that can be carried.
	APIs []ServedAPI `json:"apis,omitempty"`
	// Kinds are those of which something was carried there. They are followed until nothing of them is left.
	Kinds []metav1.TypeMeta `json:"kinds,omitempty"`
}

// Nodes counts nodes.
type Nodes struct {
	Total int32 `json:"total"`
	Ready int32 `json:"ready"`
}

// Resources are amounts by name.
type Resources map[string]resource.Quantity

// ServedAPI is a group version with its kinds.
type ServedAPI struct {
	GroupVersion string   `json:"groupVersion"`
	Kinds        []string `json:"kinds"`
}

// Policy is a PropagationPolicy, or a ClusterPropagationPolicy: which objects go where.
type Policy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PolicySpec   `json:"spec"`
	Status            PolicyStatus `json:"status,omitzero"`
}

// PolicySpec is the rules.
type PolicySpec struct {
	ResourceSelectors []ResourceSelector `json:"resourceSelectors"`
	// Priority decides between policies that select the same object; then the name does.
	Priority     int32         `json:"priority,omitempty"`
	Placement    PlacementRule `json:"placement,omitzero"`
	Replicas     ReplicaRule   `json:"replicas,omitzero"`
	Overrides    []Override    `json:"overrides,omitempty"`
	Failover     FailoverRule  `json:"failover,omitzero"`
	Dependencies string        `json:"dependencies,omitempty"`
	Conflicts    string        `json:"conflicts,omitempty"`
	// PreserveOnDeletion leaves in the members what was carried when the template is deleted.
	PreserveOnDeletion bool `json:"preserveOnDeletion,omitempty"`
}

// Values of PolicySpec.
const (
	CarryDependencies = "Carry"
	NoDependencies    = "None"
	Refuse            = "Refuse"
	TakeOver          = "TakeOver"
	Duplicated        = "Duplicated"
	Divided           = "Divided"
	Static            = "Static"
	Available         = "Available"
)

// ResourceSelector selects objects of a kind.
type ResourceSelector struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespaces, of a ClusterPropagationPolicy alone: none are all.
	Namespaces    []string              `json:"namespaces,omitempty"`
	Name          string                `json:"name,omitempty"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// PlacementRule says which clusters are taken.
type PlacementRule struct {
	ClusterTarget `json:",inline"`
	Exclude       []string     `json:"exclude,omitempty"`
	Tolerations   []Toleration `json:"tolerations,omitempty"`
	MinClusters   int32        `json:"minClusters,omitempty"`
	MaxClusters   int32        `json:"maxClusters,omitempty"`
}

// ClusterTarget selects clusters: by both, where both are there. The empty one selects all.
type ClusterTarget struct {
	Clusters        []string              `json:"clusters,omitempty"`
	ClusterSelector *metav1.LabelSelector `json:"clusterSelector,omitempty"`
}

// Toleration lets an object be where a taint is.
type Toleration struct {
	Key      string `json:"key,omitempty"` // empty: every key
	Operator string `json:"operator,omitempty"`
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"` // empty: every effect
}

// ReplicaRule says how many replicas each cluster has.
type ReplicaRule struct {
	Mode     string   `json:"mode,omitempty"`
	Division string   `json:"division,omitempty"`
	Weights  []Weight `json:"weights,omitempty"`
}

// Weight is that of the clusters of a target; the first that selects a cluster counts.
type Weight struct {
	ClusterTarget `json:",inline"`
	Weight        int32 `json:"weight"`
}

// Override changes what the clusters of a target get.
type Override struct {
	ClusterTarget `json:",inline"`
	// Resources narrows to some of the objects; none are all.
	Resources []OverriddenResource `json:"resources,omitempty"`
	Patches   []Patch              `json:"patches"`
}

// OverriddenResource is a kind, or one object of it.
type OverriddenResource struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
}

// Patch is one operation of RFC 6902.
type Patch struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// FailoverRule says when a cluster loses its share, and when it gets one again.
type FailoverRule struct {
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
	ReturnSeconds     *int64 `json:"returnSeconds,omitempty"`
}

// PolicyStatus is whether the policy is followed.
type PolicyStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// Placement is a Placement, or a ClusterPlacement: where an object goes, and what became of it there.
type Placement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PlacementSpec   `json:"spec"`
	Status            PlacementStatus `json:"status,omitzero"`
}

// PlacementSpec is what was decided.
type PlacementSpec struct {
	Object ObjectReference `json:"object"`
	// Policy is the one that was followed; none where the object goes along with those that need it, or goes nowhere.
	Policy *PolicyReference `json:"policy,omitempty"`
	// Generation is that of the object that the decision is about.
	Generation int64 `json:"generation,omitempty"`
	// Clusters are where it goes, by name.
	Clusters []Share `json:"clusters,omitempty"`
	// Leaving are clusters where it was, until it is gone there.
	Leaving []string `json:"leaving,omitempty"`
	// Needs are objects of the same namespace that go along.
	Needs []ObjectReference `json:"needs,omitempty"`
	// Reason and Message say why not all is placed; empty where it is.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// ObjectReference names an object; its namespace is the placement's.
type ObjectReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// PolicyReference names a policy.
type PolicyReference struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Share is what one cluster has of an object.
type Share struct {
	Name     string `json:"name"`
	Replicas *int32 `json:"replicas,omitempty"` // nil: as in the template
}

// States of an object in a cluster.
const (
	StateCarried = "Carried" // it is as it should be
	StateWaiting = "Waiting" // it will be carried
	StateRefused = "Refused" // somebody else's object has its name
	StateFailed  = "Failed"  // the member refused it
	StateUnknown = "Unknown" // the member does not answer
	StateLeaving = "Leaving" // it will be deleted
)

// PlacementStatus is what became of it.
type PlacementStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Clusters   []PlacedStatus     `json:"clusters,omitempty"`
}

// PlacedStatus is what became of the object in one cluster.
type PlacedStatus struct {
	Name              string `json:"name"`
	State             string `json:"state"`
	Message           string `json:"message,omitempty"`
	Generation        int64  `json:"generation,omitempty"` // of the template, as it is there
	Replicas          *int32 `json:"replicas,omitempty"`
	ReadyReplicas     *int32 `json:"readyReplicas,omitempty"`
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`
}

// copied returns a copy that shares nothing; objects of these kinds are small.
func copied[T any](in *T) *T {
	out := new(T)
	data, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		panic("federation: copy: " + err.Error()) // the types are data alone
	}
	return out
}

// DeepCopyObject implements runtime.Object.
func (c *Cluster) DeepCopyObject() runtime.Object { return copied(c) }

// DeepCopyObject implements runtime.Object.
func (p *Policy) DeepCopyObject() runtime.Object { return copied(p) }

// DeepCopyObject implements runtime.Object.
func (p *Placement) DeepCopyObject() runtime.Object { return copied(p) }

// Copy returns a copy to change.
func (c *Cluster) Copy() *Cluster { return copied(c) }

// Copy returns a copy to change.
func (p *Policy) Copy() *Policy { return copied(p) }

// Copy returns a copy to change.
func (p *Placement) Copy() *Placement { return copied(p) }
