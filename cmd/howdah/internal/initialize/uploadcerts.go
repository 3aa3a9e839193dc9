package initialize

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/cmd/howdah/internal/sealed"
	"howdah.dev/kit/object"
	"howdah.dev/kit/wholefile"
)

const (
	// CertsName is the Secret of kube-system from which further control planes have the cluster's keys.
	CertsName = "howdah-certs"
	// certsFor is how long it stays: a token owns it that ends then, as with kubeadm.
	certsFor = 2 * time.Hour
	// databaseFile is where the database is.
	databaseFile = "database-url"
)

// shared are the files of the folder of certificates that all control planes have in common. The rest each makes of them.
var shared = map[string]string{
	"ca.crt": "ca/ca.crt", "ca.key": "ca/ca.key", "sa.key": "apiserver/sa.key", "encryption.yaml": "apiserver/encryption.yaml",
}

func uploadCertsPhase() Phase {
	return Phase{
		Name: "upload-certs", Short: "Keep the cluster's keys in the cluster for two hours, encrypted, for further control planes (with --upload-certs)",
		Run: runUploadCerts,
		Tell: func(e *Env) string {
			if !e.UploadCerts {
				return ""
			}
			return "keep the cluster's keys, encrypted, in the Secret kube-system/" + CertsName
		},
	}
}

func runUploadCerts(ctx context.Context, e *Env) error {
	if !e.UploadCerts {
		e.say("[upload-certs] skipped: see --upload-certs")
		return nil
	}
	key := sealed.NewKey()
	if e.Init.CertificateKey != "" {
		var err error
		if key, err = sealed.ParseKey(e.Init.CertificateKey); err != nil {
			return err
		}
	}
	files, err := e.sharedFiles()
	if err != nil {
		return err
	}
	boxes, err := sealed.Seal(key, files)
	if err != nil {
		return err
	}
	client, err := e.API()
	if err != nil {
		return err
	}
	e.say("[upload-certs] keeping the cluster's keys in the Secret %s/%s, encrypted, for %s", metav1.NamespaceSystem, CertsName, certsFor)
	token, err := bootstrap.NewToken()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeFor)
	defer cancel()
	if err := bootstrap.UntilDone(ctx, time.Second, func(ctx context.Context) error {
		return uploadCerts(ctx, client, token, boxes, e.Clock.Now())
	}); err != nil {
		return err
	}
	e.Init.CertificateKey = key.String()
	e.say("[upload-certs] certificate key:\n%s", key)
	return nil
}

func (e *Env) sharedFiles() (map[string][]byte, error) {
	files := map[string][]byte{databaseFile: []byte(e.Cluster.Database.URL)}
	for name, path := range shared {
		data, err := os.ReadFile(filepath.Join(e.Folder.PKI(), path))
		if err != nil {
			return nil, fmt.Errorf("the cluster's keys (howdah init phase certs): %w", err)
		}
		files[name] = data
	}
	return files, nil
}

// uploadCerts writes the Secret, owned by a token that is for nothing else than to end in time.
func uploadCerts(ctx context.Context, client *object.Client, token bootstrap.Token, boxes map[string][]byte, now time.Time) error {
	secrets := object.For(client, object.Secret)
	life := bootstrap.Grant{Token: token, Description: "its end is that of the Secret " + CertsName, Expires: now.Add(certsFor)}.Secret()
	owner, err := secrets.Create(ctx, life)
	if apierrors.IsAlreadyExists(err) {
		owner, err = secrets.Get(ctx, life.Namespace, life.Name)
	}
	if err != nil {
		return fmt.Errorf("create the token that limits the life of the keys: %w", err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: CertsName,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: owner.Name, UID: owner.UID}},
	}, Data: boxes}
	if _, err = secrets.Create(ctx, secret); apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("write the Secret %s: %w", CertsName, err)
	}
	return bootstrap.EnsureReader(ctx, client, bootstrap.Reader{
		Resource: "secrets", Namespace: metav1.NamespaceSystem, Name: CertsName, Role: "howdah:certs", Subjects: bootstrap.Joining(),
	})
}

// openCerts reads what was uploaded. What is in the folder of certificates already has to be the same. Nothing is written.
func openCerts(folder string, key sealed.Key, boxes map[string][]byte) (map[string][]byte, error) {
	files, err := sealed.Open(key, boxes)
	if err != nil {
		return nil, err
	}
	var problems []error
	for name, path := range shared {
		data, ok := files[name]
		if !ok {
			problems = append(problems, fmt.Errorf("the Secret %s lacks %s", CertsName, name))
			continue
		}
		path = filepath.Join(folder, path)
		if old, err := os.ReadFile(path); err == nil && string(old) != string(data) {
			problems = append(problems, fmt.Errorf("%s is there already, and another one (howdah reset)", path))
		}
	}
	return files, errors.Join(problems...)
}

// writeCerts puts what openCerts has read into the folder of certificates.
func writeCerts(folder string, files map[string][]byte) error {
	for name, path := range shared {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := wholefile.Write(path, files[name], 0o600); err != nil {
			return err
		}
	}
	return nil
}
