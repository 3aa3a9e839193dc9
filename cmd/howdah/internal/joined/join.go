// Package joined makes clusters members of a federation, and takes them out of it.
package joined

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"howdah.dev/services/federation/api"
)

// Join is how a cluster becomes a member.
type Join struct {
	Name string
	// Member is an administrator's configuration of the cluster.
	Member *rest.Config
	// Server is the URL for the federation; Member's where empty.
	Server                 string
	Provider, Region, Zone string
	Labels                 map[string]string
	// UseCredentials stores those of Member instead of those of an account that is made.
	UseCredentials bool
	// Resources may be carried beside those of workloads, as shops.example.com; AllResources lets every one.
	Resources    []string
	AllResources bool
}

// Run joins the cluster.
func (j *Join) Run(ctx context.Context, fed *Fed) error {
	if _, err := fed.Cluster(ctx, j.Name); err == nil {
		return fmt.Errorf("there is a cluster %s already: howdah federation unjoin %s takes it out", j.Name, j.Name)
	} else if !apierrors.IsNotFound(err) {
		return fmt.Errorf("look for the Cluster %s: %w (does the federation run?)", j.Name, err)
	}
	if err := rest.LoadTLSFiles(j.Member); err != nil {
		return fmt.Errorf("read the member's kubeconfig: %w", err)
	}
	if j.Member.Insecure {
		return errors.New("the member's kubeconfig says not to look at the server's certificate: the federation always does")
	}
	data, err := j.credentials(ctx)
	if err != nil {
		return err
	}
	server := j.Server
	if server == "" {
		server = j.Member.Host
	}
	secret := api.SecretReference{Namespace: api.Namespace, Name: j.Name}
	if err := fed.store(ctx, secret, data); err != nil {
		return err
	}
	return fed.create(ctx, &api.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: j.Name, Labels: j.Labels},
		Spec:       api.ClusterSpec{Server: server, SecretRef: secret, Provider: j.Provider, Region: j.Region, Zone: j.Zone},
	})
}

// credentials are the data of the Secret.
func (j *Join) credentials(ctx context.Context) (map[string][]byte, error) {
	data := map[string][]byte{}
	if ca := j.Member.CAData; len(ca) > 0 {
		data["ca.crt"] = ca
	}
	if !j.UseCredentials {
		client, err := kubernetes.NewForConfig(j.Member)
		if err != nil {
			return nil, err
		}
		token, err := makeAccount(ctx, client, j.Name, j.rules())
		if err != nil {
			return nil, err
		}
		data["token"] = token
		return data, nil
	}
	token := []byte(j.Member.BearerToken)
	if file := j.Member.BearerTokenFile; len(token) == 0 && file != "" {
		var err error
		if token, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("read the member's token: %w", err)
		}
	}
	switch {
	case len(token) > 0:
		data["token"] = token
	case len(j.Member.CertData) > 0 && len(j.Member.KeyData) > 0:
		data["tls.crt"], data["tls.key"] = j.Member.CertData, j.Member.KeyData
	default:
		return nil, errors.New("the member's kubeconfig has neither a token nor a client certificate: join without --use-credentials")
	}
	return data, nil
}

// poll is how often one looks whether something has happened.
const poll = 250 * time.Millisecond

// await calls done until it says so, or until its time is over.
func await(ctx context.Context, what string, timeout time.Duration, done func(ctx context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		ok, err := done(ctx)
		if ok {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: nothing after %s", what, timeout)
		case <-tick.C:
		}
	}
}

// create makes what is not there yet.
func create[T any](ctx context.Context, what string, obj *T, create func(context.Context, *T, metav1.CreateOptions) (*T, error)) error {
	if _, err := create(ctx, obj, metav1.CreateOptions{FieldManager: api.Manager}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s: %w", what, err)
	}
	return nil
}

func namespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.Namespace}}
}
