package initialize

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/cmd/howdah/internal/preflight"
	"howdah.dev/cmd/howdah/internal/sealed"
)

// Joining is what a machine that joins a control plane knows of the cluster.
type Joining struct {
	CertificateKey string // empty: the keys were copied by hand
	DatabaseURL    string // empty: as the other control planes have it
	// Find returns a client by the token, once the cluster is found and trusted.
	Find func(ctx context.Context) (bootstrap.Info, kubernetes.Interface, error)
	// Allowed says whether this release may join a cluster of another one.
	Allowed func(release, cluster string) error
	// Flags checks settings.
	Flags clusterfile.Flags
}

// Further makes this machine a further control plane:
//
//  1. What the machine is already is looked at: a control plane is left as it is.
//  2. The cluster is found, and known to be the one that is meant. Its configuration is read.
//  3. The cluster's keys are fetched, by the certificate key, and with them where the database is.
//  4. The machine and the database have to do for it, and this release beside the others. Only then anything is written.
//  5. Certificates, kubeconfig and service are made, and the control plane is awaited. It leads when it has to: the first does.
func Further(ctx context.Context, e *Env, j Joining) error {
	if since, err := e.Folder.Since(); err != nil {
		return err
	} else if since != "" {
		e.say("This machine is a control plane since %s already. Nothing is changed.", since)
		return nil
	}
	info, client, err := j.Find(ctx)
	if err != nil {
		return err
	}
	e.say("The cluster is at %s.", info.Server)
	if e.Cluster, err = readConfig(ctx, client); err != nil {
		return err
	}
	if e.Cluster.ControlPlaneEndpoint == "" {
		return errors.New("the cluster has no controlPlaneEndpoint, a name that leads to the gateways of all control planes, so there can be no further one: " +
			"give it one (howdah init --config on the first machine, phases certs, kubeconfig, control-plane and upload-config)")
	}
	if err := j.Allowed(e.Release, e.Cluster.Version); err != nil {
		return err
	}
	files, err := keys(ctx, e, j, client, info)
	if err != nil {
		return err
	}
	e.Cluster.Database.URL = string(files[databaseFile])
	if j.DatabaseURL != "" {
		e.Cluster.Database.URL = j.DatabaseURL
	}
	if problems := e.Cluster.Validate(j.Flags); len(problems) > 0 {
		return fmt.Errorf("the cluster's configuration: %w", problems.ToAggregate())
	}
	if err := e.preflight(ctx, append(append(e.machineChecks(), e.databaseChecks().checks...), preflight.Check{Name: "DatabaseOfCluster", Run: e.databaseFull})); err != nil {
		return err
	}
	if e.DryRun {
		e.say("\nNothing is written (--dry-run).")
	} else if err := errors.Join(e.Folder.save(e.Init, e.Cluster), writeCerts(e.Folder.PKI(), files)); err != nil { // only now: what does not become a control plane has no keys
		return err
	}
	if err := Run(ctx, e, FurtherPhases(), nil); err != nil {
		return err
	}
	if err := e.finish(); err != nil || e.DryRun {
		return err
	}
	e.say("\nThis machine has joined the cluster, and is one of its control planes: %s.\n\nThe administrator's kubeconfig is %s; its context %s leads to all gateways, %s-%s to this machine's alone.",
		e.Init.Machine.Name, e.Folder.Admin(), contextName, contextName, e.Init.Machine.Name)
	return nil
}

// databaseFull refuses a database that nobody has written to: it is another one than that of the other control planes.
func (e *Env) databaseFull(ctx context.Context) error {
	s, err := e.databaseChecks().look(ctx)
	if err != nil || s.Objects {
		return nil // the check Database says why
	}
	return errors.New("the database is empty: it is not that of the other control planes")
}

func readConfig(ctx context.Context, client kubernetes.Interface) (clusterfile.ClusterConfiguration, error) {
	m, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, ConfigName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return clusterfile.ClusterConfiguration{}, fmt.Errorf("the cluster was not made by howdah init, or its phase upload-config is missing: %w", err)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return clusterfile.ClusterConfiguration{}, fmt.Errorf("the token is not one by which machines join (it is for those with the group %s): %w", bootstrap.DefaultGroup, err)
	case err != nil:
		return clusterfile.ClusterConfiguration{}, fmt.Errorf("read the cluster's configuration: %w", err)
	}
	return ParseConfig(m.Data[ConfigKey])
}

// ParseConfig reads what UploadConfig has written.
func ParseConfig(text string) (clusterfile.ClusterConfiguration, error) {
	d, err := clusterfile.Decode([]byte(text))
	if err == nil && d.Cluster == nil {
		err = errors.New("there is no " + clusterfile.ClusterKind)
	}
	if err != nil {
		return clusterfile.ClusterConfiguration{}, fmt.Errorf("the ConfigMap kube-system/%s: %w", ConfigName, err)
	}
	d.Cluster.Complete()
	return *d.Cluster, nil
}

// keys fetches the cluster's keys. None are returned where they were copied by hand.
func keys(ctx context.Context, e *Env, j Joining, client kubernetes.Interface, info bootstrap.Info) (map[string][]byte, error) {
	if j.CertificateKey == "" {
		return nil, copied(e.Folder, j, info)
	}
	key, err := sealed.ParseKey(j.CertificateKey)
	if err != nil {
		return nil, fmt.Errorf("--certificate-key: %w", err)
	}
	secret, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, CertsName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the cluster's keys are not there to be fetched, or not any more: howdah init phase upload-certs --upload-certs on a control plane puts them there for two hours: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("fetch the cluster's keys: %w", err)
	}
	files, err := openCerts(e.Folder.PKI(), key, secret.Data)
	if err != nil {
		return nil, err
	}
	return files, sameAuthority(files["ca.crt"], info)
}

// copied checks keys that were copied by hand.
func copied(folder Folder, j Joining, info bootstrap.Info) error {
	var problems []error
	for _, name := range []string{"ca.crt", "ca.key", "sa.key"} {
		path := filepath.Join(folder.PKI(), shared[name])
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, fmt.Errorf("%s is not there", path))
		} else if err != nil {
			problems = append(problems, err)
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("without --certificate-key the cluster's keys have to be copied from another control plane first:\n%w", errors.Join(problems...))
	}
	if j.DatabaseURL == "" {
		return errors.New("without --certificate-key --database-url is required: the cluster does not tell it")
	}
	mine, err := os.ReadFile(filepath.Join(folder.PKI(), shared["ca.crt"]))
	if err != nil {
		return err
	}
	return sameAuthority(mine, info)
}

// sameAuthority refuses keys of another cluster than the one that was found.
func sameAuthority(mine []byte, info bootstrap.Info) error {
	a, err := bootstrap.Authorities(mine)
	if err != nil {
		return fmt.Errorf("%s: %w", shared["ca.crt"], err)
	}
	of, err := bootstrap.Authorities(info.CA)
	if err != nil {
		return err
	}
	for _, c := range of {
		if bytes.Equal(c.RawSubjectPublicKeyInfo, a[0].RawSubjectPublicKeyInfo) {
			return nil
		}
	}
	return errors.New("the keys are of another cluster: its authority is not that of the one that was found (howdah reset, where they are on this machine)")
}
