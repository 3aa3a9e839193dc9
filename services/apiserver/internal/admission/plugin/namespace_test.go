package plugin

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/services/apiserver/internal/admission"
)

func TestNamespaceLifecycle(t *testing.T) {
	t.Parallel()
	going := worldOf(t, map[string][]string{"namespaces": {"{metadata: {name: default}, status: {phase: Terminating}}"}})
	text := "is forbidden: unable to create new content in namespace default because it is being terminated"
	verdicts(t, &NamespaceLifecycle{Objects: going}, map[string]verdict{
		"create":   {write: write{object: plainPod}, refused: `pods "p" ` + text},
		"eviction": {write: write{subresource: "eviction", old: plainPod}, refused: text},
		"update":   {write: write{op: admission.Update, object: plainPod, old: plainPod}},
		"delete":   {write: write{op: admission.Delete, old: plainPod}},
		"its own":  {write: write{op: admission.Delete, resource: "namespaces", old: "{metadata: {name: default}}"}, refused: "this namespace may not be deleted"},
		"another":  {write: write{op: admission.Delete, resource: "namespaces", old: "{metadata: {name: team}}"}},
	})
	a, _ := write{object: plainPod}.attributes(t)
	if err := admit(&NamespaceLifecycle{Objects: going}, a); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("no cause says so: %v", err)
	}
	verdicts(t, &NamespaceLifecycle{Objects: world{}}, map[string]verdict{
		"absent": {write: write{object: plainPod}, refused: `namespaces "default" not found`},
	})
}

type maker struct {
	made []string
	err  error
}

func (m *maker) CreateNamespace(_ context.Context, name string) error {
	m.made = append(m.made, name)
	return m.err
}

func TestNamespaceExistsAndAutoProvision(t *testing.T) {
	t.Parallel()
	there := worldOf(t, map[string][]string{"namespaces": {"{metadata: {name: default}}"}})
	verdicts(t, &NamespaceExists{Objects: there}, map[string]verdict{"there": {write: write{object: plainPod}}})
	verdicts(t, &NamespaceExists{Objects: world{}}, map[string]verdict{
		"absent":  {write: write{object: plainPod}, refused: `namespaces "default" not found`},
		"cluster": {write: write{resource: "nodes", object: "{metadata: {name: n}}"}},
	})
	m := &maker{}
	p := &NamespaceAutoProvision{Objects: world{}, Namespaces: m}
	verdicts(t, p, map[string]verdict{"create": {write: write{object: plainPod}}, "dry": {write: write{object: plainPod, dryRun: true}},
		"update": {write: write{op: admission.Update, object: plainPod, old: plainPod}}})
	if strings.Join(m.made, " ") != "default" {
		t.Errorf("made %v", m.made)
	}
	m.err = errors.New("no room")
	verdicts(t, p, map[string]verdict{"fails": {write: write{object: plainPod}, refused: "no room"}})
	verdicts(t, &NamespaceAutoProvision{Objects: there, Namespaces: &maker{err: errors.New("called")}}, map[string]verdict{"there": {write: write{object: plainPod}}})
}

func TestPodNodeSelector(t *testing.T) {
	t.Parallel()
	w := worldOf(t, map[string][]string{"namespaces": {"{metadata: {name: default, annotations: {scheduler.alpha.kubernetes.io/node-selector: 'env=test,tier=1'}}}"}})
	p, err := NewPodNodeSelector(w, []byte("podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: 'a=b', default: 'env=test,tier=1,os=linux'}"))
	if err != nil {
		t.Fatal(err)
	}
	pod := func(selector string) write {
		return write{object: "{metadata: {name: p}, spec: {nodeSelector: {" + selector + "}, containers: [{name: c, image: i}]}}"}
	}
	verdicts(t, p, map[string]verdict{
		"merged":    {write: pod("os: linux"), becomes: []string{"env: test", `tier: "1"`, "os: linux"}},
		"conflict":  {write: pod("env: prod"), refused: "pod node label selector conflicts with its namespace node label selector"},
		"forbidden": {write: pod("disk: ssd"), refused: "pod node label selector labels conflict with its namespace whitelist"},
	})
	plain := &PodNodeSelector{Objects: worldOf(t, map[string][]string{"namespaces": {"{metadata: {name: default}}"}}), Selectors: map[string]string{clusterDefaultSelector: "a=b"}}
	verdicts(t, plain, map[string]verdict{"the cluster's": {write: pod(""), becomes: []string{"a: b"}}})
	if _, err := NewPodNodeSelector(w, []byte("podNodeSelectorPluginConfig: {x: 'a in (b)'}")); err == nil {
		t.Error("a selector that is no map of labels passes")
	}
}

func TestPodTolerationRestriction(t *testing.T) {
	t.Parallel()
	w := worldOf(t, map[string][]string{"namespaces": {`{metadata: {name: default, annotations: {
		scheduler.alpha.kubernetes.io/defaultTolerations: '[{"key": "own", "operator": "Exists"}]',
		scheduler.alpha.kubernetes.io/tolerationsWhitelist: '[{"key": "own", "operator": "Exists"}, {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}]'}}}`}})
	pod := func(spec, resources string) write {
		return write{object: "{metadata: {name: p}, spec: {" + spec + " containers: [{name: c, image: i, resources: {" + resources + "}}]}}"}
	}
	verdicts(t, &PodTolerationRestriction{Objects: w}, map[string]verdict{
		"defaults":   {write: pod("", ""), becomes: []string{"key: own"}, not: []string{"memory-pressure"}},
		"burstable":  {write: pod("", "requests: {cpu: 1}"), becomes: []string{"key: own", "key: node.kubernetes.io/memory-pressure"}},
		"forbidden":  {write: pod("tolerations: [{key: other, operator: Exists}],", ""), refused: "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist"},
		"everything": {write: pod("tolerations: [{operator: Exists}],", ""), refused: "conflict with its namespace whitelist"},
	})
	p, err := NewPodTolerationRestriction(worldOf(t, map[string][]string{"namespaces": {"{metadata: {name: default}}"}}),
		[]byte("{apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1, kind: Configuration, default: [{key: d, operator: Exists}], whitelist: [{key: d, operator: Exists}]}"))
	if err != nil {
		t.Fatal(err)
	}
	verdicts(t, p, map[string]verdict{
		"the cluster's": {write: pod("", ""), becomes: []string{"key: d"}},
		"not listed":    {write: pod("tolerations: [{key: x, value: '1'}],", ""), refused: "whitelist"},
	})
}
