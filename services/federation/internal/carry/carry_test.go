package carry

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/federation/api"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &api.Any{}
	if err := yaml.Unmarshal([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	return &o.Unstructured
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  uid: 1-2-3
  resourceVersion: "7"
  generation: 4
  creationTimestamp: "2026-01-01T00:00:00Z"
  labels: {app: web}
  annotations: {note: hi, kubectl.kubernetes.io/last-applied-configuration: "{}", deployment.kubernetes.io/revision: "3"}
  finalizers: [federation.howdah.dev/carried]
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: y}]
spec:
  replicas: 10
  template:
    spec:
      serviceAccountName: shopkeeper
      imagePullSecrets: [{name: pull}]
      initContainers: [{name: i, image: busybox, resources: {requests: {cpu: "2"}}}]
      containers:
      - name: c
        image: web:1
        resources: {requests: {cpu: 500m, memory: 1Gi}}
        env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: a}}}, {name: B, valueFrom: {secretKeyRef: {name: keys, key: b}}}]
        envFrom: [{configMapRef: {name: all}}]
      - {name: d, image: side, resources: {requests: {cpu: 100m}}}
      volumes:
      - {name: v, projected: {sources: [{configMap: {name: kube-root-ca.crt}}, {secret: {secretName: none, name: projected}}]}}
      - {name: w, persistentVolumeClaim: {claimName: data}}
status: {replicas: 3}
`

func cluster(name string) *api.Cluster {
	return &api.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestWanted(t *testing.T) {
	t.Parallel()
	got, err := Wanted(Input{Template: parse(t, deployment), Cluster: cluster("a"), Replicas: ptr.To[int32](6), Federation: "f", Policy: &api.PolicySpec{PreserveOnDeletion: true}})
	if err != nil {
		t.Fatal(err)
	}
	hash := got.GetAnnotations()[api.HashAnnotation]
	metadata := map[string]any{
		"name": "web", "namespace": "shop", "labels": map[string]any{"app": "web", api.ManagedLabel: "true"},
		"annotations": map[string]any{"note": "hi", api.FederationAnnotation: "f", api.GenerationAnnotation: "4", api.HashAnnotation: hash, api.PreserveAnnotation: "true"},
	}
	if !reflect.DeepEqual(got.Object["metadata"], metadata) || got.Object["status"] != nil || hash == "" {
		t.Errorf("metadata %v, status %v", got.Object["metadata"], got.Object["status"])
	}
	if n, _, _ := unstructured.NestedInt64(got.Object, "spec", "replicas"); n != 6 {
		t.Errorf("%d replicas, want the cluster's share", n)
	}
	more, _ := Wanted(Input{Template: parse(t, deployment), Cluster: cluster("a"), Replicas: ptr.To[int32](7), Federation: "f", Policy: &api.PolicySpec{PreserveOnDeletion: true}})
	other, _ := Wanted(Input{Template: parse(t, strings.ReplaceAll(deployment, "web:1", "web:2")), Cluster: cluster("a"), Federation: "f"})
	if more.GetAnnotations()[api.HashAnnotation] != hash || other.GetAnnotations()[api.HashAnnotation] == hash {
		t.Error("the digest is of all but the replicas")
	}
}

func TestStrip(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ in, want string }{
		"what a Service was given": {
			`{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {clusterIP: 10.1.1.1, clusterIPs: [10.1.1.1], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, type: NodePort, ports: [{port: 80, nodePort: 30000}]}}`,
			`{spec: {type: NodePort, ports: [{port: 80}]}}`,
		},
		"a headless Service": {
			`{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {clusterIP: None, clusterIPs: [None]}}`, `{spec: {clusterIP: None, clusterIPs: [None]}}`,
		},
		"a Pod": {
			`{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeName: n, containers: [{name: c, volumeMounts: [{name: kube-api-access-x, mountPath: /v}]}], volumes: [{name: kube-api-access-x}]}}`,
			`{spec: {containers: [{name: c}]}}`,
		},
		"a Job": {
			`{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {controller-uid: u, job-name: j, mine: x}}}}}`,
			`{spec: {template: {metadata: {labels: {mine: x}}}}}`,
		},
		"an account": {`{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secrets: [{name: t}]}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, want := strip(parse(t, test.in)), parse(t, test.want)
			for _, key := range []string{"apiVersion", "kind", "metadata"} {
				delete(got.Object, key)
			}
			if a, b := text(got.Object), text(want.Object); a != b {
				t.Errorf("got %s, want %s", a, b)
			}
		})
	}
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func TestNeedsAndRequests(t *testing.T) {
	t.Parallel()
	var got []string
	for _, need := range Needs(parse(t, deployment)) {
		got = append(got, need.Kind+"/"+need.Name)
	}
	want := "ConfigMap/all ConfigMap/settings PersistentVolumeClaim/data Secret/keys Secret/projected Secret/pull ServiceAccount/shopkeeper"
	if strings.Join(got, " ") != want {
		t.Errorf("needs %v, want %s", got, want)
	}
	of := Of(parse(t, deployment))
	if cpu, memory := of.Requests["cpu"], of.Requests["memory"]; *of.Replicas != 10 || cpu.String() != "2" || memory.String() != "1Gi" {
		t.Errorf("a template with %d replicas that ask for %s and %s", *of.Replicas, cpu.String(), memory.String())
	}
}

func TestCarriable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}`:                                                                   true,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: kube-system}}`:                                                               false,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: kube-root-ca.crt, namespace: x}}`:                                                          false,
		`{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: x}}`:                                                              false,
		`{apiVersion: v1, kind: Service, metadata: {name: kubernetes, namespace: default}}`:                                                            false,
		`{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: a, namespace: x}}`:                                 false,
		`{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: howdah-federation}}`:                                                            false,
		`{apiVersion: v1, kind: Namespace, metadata: {name: shop}}`:                                                                                    true,
		`{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}`:                                                                             false,
		`{apiVersion: v1, kind: Node, metadata: {name: a}}`:                                                                                            false,
		`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: a, namespace: x, ownerReferences: [{kind: Deployment, name: d, controller: true}]}}`: false,
		`{apiVersion: federation.howdah.dev/v1, kind: Cluster, metadata: {name: a}}`:                                                                   false,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: admin, labels: {kubernetes.io/bootstrapping: rbac-defaults}}}`: false,
		`{apiVersion: example.com/v1, kind: Shop, metadata: {name: a, namespace: x}}`:                                                                  true,
	} {
		if err := Carriable(parse(t, text)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestSettled(t *testing.T) {
	t.Parallel()
	wanted, err := Wanted(Input{Template: parse(t, deployment), Cluster: cluster("a"), Federation: "f"})
	if err != nil {
		t.Fatal(err)
	}
	live := func(change func(o map[string]any)) *unstructured.Unstructured {
		o := wanted.DeepCopy()
		change(o.Object)
		return o
	}
	set := func(value any, path ...string) func(map[string]any) {
		return func(o map[string]any) {
			if err := unstructured.SetNestedField(o, value, path...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		change func(map[string]any)
		want   bool
	}{
		"the same":                     {func(map[string]any) {}, true},
		"what the member adds":         {set("x", "spec", "template", "spec", "schedulerName"), true},
		"replicas":                     {set(int64(3), "spec", "replicas"), false},
		"a field that was changed":     {set("other", "spec", "template", "spec", "serviceAccountName"), false},
		"another label that was added": {set("y", "metadata", "labels", "x"), true},
		"a label that was taken":       {func(o map[string]any) { unstructured.RemoveNestedField(o, "metadata", "labels", "app") }, false},
		"what was applied before":      {set("00", "metadata", "annotations", api.HashAnnotation), false},
		"fewer containers":             {set([]any{}, "spec", "template", "spec", "containers"), false},
	} {
		if got := Settled(live(test.change), wanted); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestScaledThere(t *testing.T) {
	t.Parallel()
	o := parse(t, deployment)
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	for name, test := range map[string]struct {
		entry metav1.ManagedFieldsEntry
		want  bool
	}{
		"an autoscaler":    {entry("kube-controller-manager", "scale", `{"f:spec":{"f:replicas":{}}}`), true},
		"kubectl scale":    {entry("kubectl", "scale", `{"f:spec":{"f:replicas":{}}}`), false},
		"status":           {entry("kube-controller-manager", "status", `{"f:spec":{"f:replicas":{}}}`), false},
		"something of it":  {entry("kube-controller-manager", "scale", `{"f:spec":{}}`), false},
		"nothing readable": {entry("kube-controller-manager", "scale", `[`), false},
	} {
		o.SetManagedFields([]metav1.ManagedFieldsEntry{test.entry})
		if got := ScaledThere(o); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	wanted := parse(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2}}`)
	if err := KeepReplicas(wanted, o); err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(wanted.Object, "spec", "replicas"); n != 10 || wanted.GetResourceVersion() != "7" {
		t.Errorf("%d replicas on condition of %q", n, wanted.GetResourceVersion())
	}
}

// TestOverridesStayWithTheirClusters holds that what a cluster gets depends on the overrides whose targets select it alone, and on their order.
func TestOverridesStayWithTheirClusters(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	names := []string{"a", "b", "c"}
	template := parse(t, deployment)
	before := text(template.Object)
	for range 500 {
		var all []api.Override
		last := map[string]string{}
		for i := range random.IntN(6) {
			target := names[random.IntN(len(names))]
			image := "image:" + string(rune('0'+i))
			over := api.Override{ClusterTarget: api.ClusterTarget{Clusters: []string{target}}, Patches: []api.Patch{{Op: "replace", Path: "/spec/template/spec/containers/0/image", Value: json.RawMessage(`"` + image + `"`)}}}
			switch random.IntN(3) {
			case 0:
				over.Resources = []api.OverriddenResource{{Kind: "Service"}}
			case 1:
				over.Resources = []api.OverriddenResource{{Kind: "Deployment", Name: "web"}}
				last[target] = image
			default:
				last[target] = image
			}
			all = append(all, over)
		}
		for _, name := range names {
			got, err := Wanted(Input{Template: template, Cluster: cluster(name), Federation: "f", Policy: &api.PolicySpec{Overrides: all}})
			if err != nil {
				t.Fatal(err)
			}
			want := last[name]
			if want == "" {
				want = "web:1"
			}
			containers, _, _ := unstructured.NestedSlice(got.Object, "spec", "template", "spec", "containers")
			if image := containers[0].(map[string]any)["image"]; image != want {
				t.Fatalf("%s gets %v, want %s of %s", name, image, want, text(all))
			}
		}
		if text(template.Object) != before {
			t.Fatal("the template was changed")
		}
	}
}

func TestOverridesThatFail(t *testing.T) {
	t.Parallel()
	for _, patch := range []api.Patch{
		{Op: "remove", Path: "/spec/none"},
		{Op: "replace", Path: "/metadata/name", Value: json.RawMessage(`"x"`)},
		{Op: "add", Path: "/spec/replicas"},
		{Op: "remove", Path: "/spec/replicas", Value: json.RawMessage(`1`)},
	} {
		_, err := Wanted(Input{Template: parse(t, deployment), Cluster: cluster("a"), Policy: &api.PolicySpec{Overrides: []api.Override{{Patches: []api.Patch{patch}}}}})
		if err == nil || !strings.Contains(err.Error(), "override 0") {
			t.Errorf("%+v: %v", patch, err)
		}
	}
}
