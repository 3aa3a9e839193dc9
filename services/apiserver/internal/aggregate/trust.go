package aggregate

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/itself"
)

// published is the ConfigMap, in kube-system, by which extension API servers know whose word about users they may take
// (https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/#kubernetes-apiserver-client-authentication).
const published = "extension-apiserver-authentication"

const (
	clientCAKey      = "client-ca-file"
	proxyCAKey       = "requestheader-client-ca-file"
	allowedNamesKey  = "requestheader-allowed-names"
	usernamesKey     = "requestheader-username-headers"
	uidsKey          = "requestheader-uid-headers"
	groupsKey        = "requestheader-group-headers"
	extraPrefixesKey = "requestheader-extra-headers-prefix"
)

// publish writes that ConfigMap where it lacks something.
func (a *Aggregator) publish(ctx context.Context) bool {
	told, has := a.authorities(), a.trust()
	data := trusted(has, told, a.cfg.AllowedNames, a.cfg.Clock.Now())
	if !within(data, has) {
		// Applying creates and updates, and leaves what others have added.
		_, err := a.cfg.API.Patch(ctx, &apiv1.PatchRequest{
			Version: "v1", Resource: "configmaps", Namespace: metav1.NamespaceSystem, Name: published, ContentType: "application/apply-patch+yaml",
			FieldManager: itself.Name, Force: "true", Object: encode(corev1.ConfigMap{
				TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: published, Namespace: metav1.NamespaceSystem}, Data: data,
			}),
		})
		if !a.done(ctx, "publish the authorities of clients", published, err, apierrors.IsConflict) {
			return false
		}
	}
	a.told = told
	return true
}

// authorities are the PEM of those that this API server believes, and by which it is known.
type authorities struct{ clients, proxies []byte }

func (a authorities) equal(other authorities) bool {
	return bytes.Equal(a.clients, other.clients) && bytes.Equal(a.proxies, other.proxies)
}

func (a *Aggregator) authorities() (now authorities) {
	if a.cfg.ClientCA != nil {
		now.clients = a.cfg.ClientCA()
	}
	if a.cfg.RequestHeaderCA != nil {
		now.proxies = a.cfg.RequestHeaderCA()
	}
	return now
}

// within reports whether a map has all that is in another one.
func within(part, all map[string]string) bool {
	for key, value := range part {
		if all[key] != value {
			return false
		}
	}
	return true
}

// trust is what the ConfigMap says now.
func (a *Aggregator) trust() map[string]string {
	for _, item := range a.configMaps.List(cache.Query{Namespace: metav1.NamespaceSystem, Name: published}).Items {
		obj, err := item.Object()
		if c, ok := obj.(*corev1.ConfigMap); err == nil && ok {
			return c.Data
		}
	}
	return nil
}

// trusted is what is to be published: what is already, with the authorities and names of this API server. What is there already stays, since another API server may have another
// authority while one is replaced; certificates that are out of their time go.
func trusted(has map[string]string, more authorities, names []string, now time.Time) map[string]string {
	out := map[string]string{}
	if len(more.clients) > 0 {
		out[clientCAKey] = together(has[clientCAKey], more.clients, now)
	}
	if len(more.proxies) > 0 {
		out[proxyCAKey] = together(has[proxyCAKey], more.proxies, now)
		for key, values := range map[string][]string{
			allowedNamesKey: names, usernamesKey: {"X-Remote-User"}, uidsKey: {"X-Remote-Uid"}, groupsKey: {"X-Remote-Group"}, extraPrefixesKey: {"X-Remote-Extra-"},
		} {
			out[key] = united(has[key], values)
		}
	}
	return out
}

// together has the certificates of both texts, each once.
func together(has string, more []byte, now time.Time) string {
	var all []*x509.Certificate
	for _, text := range [][]byte{[]byte(has), more} {
		certificates, err := cert.ParseCertsPEM(text)
		if err != nil { // somebody else's text may be anything
			continue
		}
		for _, c := range certificates {
			if !slices.ContainsFunc(all, c.Equal) && now.Before(c.NotAfter) {
				all = append(all, c)
			}
		}
	}
	var out []byte
	for _, c := range all {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: c.Raw})...)
	}
	return string(out)
}

// united has the strings of a JSON list and others, each once.
func united(has string, more []string) string {
	all := []string{}
	_ = json.Unmarshal([]byte(has), &all) // somebody else's text may be anything
	for _, s := range more {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return string(encode(all))
}
