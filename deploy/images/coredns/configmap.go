package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coredns/caddy/caddyfile"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

var log = clog.NewWithPlugin("configmap")

// key is that of the ConfigMap, as Kubernetes' installers name it.
const key = "Corefile"

// again is how long to wait before the API is asked once more to make the ConfigMap.
const again = 5 * time.Second

// source keeps the file that CoreDNS reads as a ConfigMap has it: its plugin reload sees the change. Where there is no ConfigMap it makes one of the Corefile
// that the cluster begins with, so that there is something to edit.
type source struct {
	client          kubernetes.Interface
	namespace, name string
	// live is the file that CoreDNS reads, and original the text of what the cluster begins with.
	live, original string
}

// newSource prepares the file: what it had before a restart stays, so that a restart needs no API.
func newSource(kubeconfig, configMap, live, original string) (*source, error) {
	namespace, name, ok := strings.Cut(configMap, "/")
	if !ok || namespace == "" || name == "" {
		return nil, fmt.Errorf("-configmap %q is not namespace/name", configMap)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent, config.Timeout = "coredns-configmap", 0
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return nil, err
	}
	s := &source{client: client, namespace: namespace, name: name, live: live, original: os.ExpandEnv(strings.ReplaceAll(string(text), "{$", "${"))}
	if _, err := os.Stat(live); errors.Is(err, os.ErrNotExist) {
		return s, s.write(s.original)
	}
	return s, nil
}

// run follows the ConfigMap until ctx ends.
func (s *source) run(ctx context.Context) {
	list := cache.NewListWatchFromClient(s.client.CoreV1().RESTClient(), "configmaps", s.namespace, fields.OneTermEqualSelector("metadata.name", s.name))
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: list, ObjectType: &corev1.ConfigMap{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    s.changed,
			UpdateFunc: func(_, new any) { s.changed(new) },
			DeleteFunc: func(any) { s.create(ctx) },
		},
	})
	go informer.RunWithContext(ctx)
	if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		s.create(ctx)
	}
	<-ctx.Done()
}

// create makes the ConfigMap, unless it is there, and tries until that is so.
func (s *source) create(ctx context.Context) {
	for {
		asked, cancel := context.WithTimeout(ctx, again)
		_, err := s.client.CoreV1().ConfigMaps(s.namespace).Create(asked, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: map[string]string{"k8s-app": "kube-dns"}}, Data: map[string]string{key: s.original},
		}, metav1.CreateOptions{FieldManager: "coredns"})
		cancel()
		if err == nil || apierrors.IsAlreadyExists(err) || ctx.Err() != nil {
			return
		}
		log.Warningf("making the ConfigMap %s/%s: %v", s.namespace, s.name, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

// changed writes what the ConfigMap says. What is no Corefile is told, and changes nothing.
func (s *source) changed(obj any) {
	configMap, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return
	}
	text, err := check(configMap.Data[key])
	if err == nil {
		err = s.write(text)
	}
	if err != nil {
		log.Errorf("the ConfigMap %s/%s is not followed: %v", s.namespace, s.name, err)
	}
}

// check refuses what cannot be read as a Corefile, and plugins that are not built in.
func check(text string) (string, error) {
	blocks, err := caddyfile.Parse(key, strings.NewReader(text), directives)
	switch {
	case err != nil:
		return "", err
	case len(blocks) == 0:
		return "", fmt.Errorf("%s has no server", key)
	}
	return text, nil
}

// write replaces the file whole, where it differs.
func (s *source) write(text string) error {
	if old, err := os.ReadFile(s.live); err == nil && string(old) == text {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.live), 0o755); err != nil {
		return err
	}
	next := s.live + ".next"
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(next, s.live)
}
