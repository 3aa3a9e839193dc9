package initialize

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/kit/object"
)

const (
	// ConfigName is the ConfigMap of kube-system with the cluster's configuration, and ConfigKey its document there.
	ConfigName = "howdah-cluster"
	ConfigKey  = "ClusterConfiguration"
)

func uploadConfigPhase() Phase {
	return Phase{
		Name: "upload-config", Short: "Keep the cluster's configuration in the cluster, where machines that join read it",
		Run: func(ctx context.Context, e *Env) error {
			client, err := e.API()
			if err != nil {
				return err
			}
			e.say("[upload-config] keeping the configuration in the ConfigMap %s/%s", metav1.NamespaceSystem, ConfigName)
			c := e.Cluster
			c.Version = e.Release
			return UploadConfig(ctx, client, c)
		},
		Tell: func(*Env) string { return "keep the configuration in the ConfigMap kube-system/" + ConfigName },
	}
}

// UploadConfig writes the cluster's configuration, without where the database is: the URL has a password.
func UploadConfig(ctx context.Context, client *object.Client, c clusterfile.ClusterConfiguration) error {
	c.Database = clusterfile.Database{}
	data, err := clusterfile.Encode(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeFor)
	defer cancel()
	return bootstrap.UntilDone(ctx, time.Second, func(ctx context.Context) error {
		if err := bootstrap.EnsureMap(ctx, client, metav1.NamespaceSystem, ConfigName, map[string]string{ConfigKey: string(data)}); err != nil {
			return err
		}
		// By these a node sees whether all control planes have gone before it.
		if err := bootstrap.EnsureReader(ctx, client, bootstrap.Reader{
			Group: "coordination.k8s.io", Resource: "leases", Namespace: metav1.NamespaceSystem, Role: "howdah:control-planes", Subjects: bootstrap.Nodes(),
		}); err != nil {
			return err
		}
		return bootstrap.EnsureReader(ctx, client, bootstrap.Reader{
			Resource: "configmaps", Namespace: metav1.NamespaceSystem, Name: ConfigName, Role: "howdah:cluster-configuration", Subjects: bootstrap.JoiningAndNodes(),
		})
	})
}
