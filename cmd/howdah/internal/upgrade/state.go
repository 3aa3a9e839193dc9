package upgrade

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/cmd/howdah/internal/initialize"
	"howdah.dev/cmd/howdah/internal/peers"
	"howdah.dev/kit/object"
	"howdah.dev/migrations"
)

// Reading says what is read of a cluster's State.
type Reading struct {
	Client   *object.Client
	Release  string // this program's
	Here     string // the control plane of this machine, if any
	Database string // its URL; empty where this machine does not know it
	Nodes    bool   // list them: nodes themselves may not
	Now      time.Time
}

// Read asks the cluster and the database.
func Read(ctx context.Context, r Reading) (State, error) {
	s := State{Binary: r.Release, Here: r.Here}
	config, err := object.For(r.Client, object.ConfigMap).Get(ctx, metav1.NamespaceSystem, initialize.ConfigName)
	if err != nil {
		return State{}, fmt.Errorf("read the cluster's configuration (howdah init phase upload-config): %w", err)
	}
	cluster, err := initialize.ParseConfig(config.Data[initialize.ConfigKey])
	if err != nil {
		return State{}, err
	}
	s.Cluster = cluster.Version
	leases, err := peers.Leases(ctx, r.Client)
	if err != nil {
		return State{}, err
	}
	for _, p := range peers.Of(leases, r.Now) {
		s.Components = append(s.Components, Component{ControlPlane, p.Name, p.Version, p.Alive})
	}
	if r.Nodes {
		nodes, _, err := object.For(r.Client, object.Node).List(ctx, "", metav1.ListOptions{})
		if err != nil {
			return State{}, fmt.Errorf("list nodes: %w", err)
		}
		for _, n := range nodes {
			s.Components = append(s.Components, Component{Node, n.Name, n.Status.NodeInfo.KubeletVersion, ready(n)})
		}
	}
	if r.Database == "" {
		return s, nil
	}
	status, err := migrations.Look(ctx, r.Database)
	if err != nil {
		return State{}, fmt.Errorf("look at the database: %w", err)
	}
	s.Schema = Schema{Applied: status.Applied, Known: status.Known, Missing: status.Missing, Err: status.Err}
	return s, nil
}

func ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
