package apiserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/kind"
	"howdah.dev/services/apiserver/internal/registry"
)

const podTemplate = `{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"nginx:1"}]}}`

// bodies has the least valid spec of each kind, by resource; NAME and NS are filled in.
var bodies = map[string]string{
	"namespaces":      `{}`,
	"nodes":           `{"spec":{"podCIDR":"10.0.0.0/24"}}`,
	"pods":            `{"spec":{"containers":[{"name":"c","image":"nginx:1"}]}}`,
	"services":        `{"spec":{"selector":{"app":"x"},"ports":[{"port":80}]}}`,
	"endpoints":       `{"subsets":[{"addresses":[{"ip":"10.0.0.1"}],"ports":[{"port":80}]}]}`,
	"endpointslices":  `{"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"]}],"ports":[{"name":"","port":80,"protocol":"TCP"}]}`,
	"configmaps":      `{"data":{"a":"b"}}`,
	"secrets":         `{"stringData":{"a":"b"}}`,
	"serviceaccounts": `{}`,
	"deployments":     `{"spec":{"replicas":1,"selector":{"matchLabels":{"app":"x"}},"template":` + podTemplate + `}}`,
	"replicasets":     `{"spec":{"replicas":1,"selector":{"matchLabels":{"app":"x"}},"template":` + podTemplate + `}}`,
	"leases":          `{"spec":{"holderIdentity":"me","leaseDurationSeconds":15}}`,
	"priorityclasses": `{"value":1000}`,

	"resourcequotas":             `{"spec":{"hard":{"pods":"10"}}}`,
	"limitranges":                `{"spec":{"limits":[{"type":"Container","max":{"cpu":"1"}}]}}`,
	"persistentvolumes":          `{"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/srv"}}}`,
	"runtimeclasses":             `{"handler":"runc"}`,
	"ingresses":                  `{"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}}}}`,
	"ingressclasses":             `{"spec":{"controller":"example.com/c"}}`,
	"networkpolicies":            `{"spec":{"podSelector":{}}}`,
	"servicecidrs":               `{"spec":{"cidrs":["10.9.0.0/16"]}}`,
	"ipaddresses":                `{"spec":{"parentRef":{"resource":"services","namespace":"default","name":"x"}}}`,
	"storageclasses":             `{"provisioner":"example.com/p"}`,
	"volumeattachments":          `{"spec":{"attacher":"example.com","nodeName":"n","source":{"persistentVolumeName":"v"}}}`,
	"csidrivers":                 `{"spec":{}}`,
	"csinodes":                   `{"spec":{"drivers":[{"name":"example.com","nodeID":"n","topologyKeys":["a"]}]}}`,
	"csistoragecapacities":       `{"storageClassName":"fast"}`,
	"volumeattributesclasses":    `{"driverName":"example.com","parameters":{"a":"b"}}`,
	"certificatesigningrequests": `{"spec":{"request":"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISk1IRUNBUUF3RHpFTk1Bc0dBMVVFQXd3RWFtRnVaVEJaTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSApBMElBQkxuS0dpVFNmYStyQnF6cG9lNXROQ1Q1MWdzckRaeVh1NlJENmdHbzB4S1hXN0JKc3RxczAzR3FSdmZNCjcySTRYd0s0c1dGWi9Ec1kxUzdCZDhBV0VtK2dBREFLQmdncWhrak9QUVFEQWdOSUFEQkZBaUFaL0hYNVBpUlAKdkVRMkNWT0V1U1kxWXpmOWt4akxEWXJNc1U1dzEyYkJPUUloQUtJWlpLVFFIcFIyNHFLbUtMMVhyVzhML2tIbApPRjJvV2NnbmZ3azd5azVhCi0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=","signerName":"example.com/s","usages":["client auth"]}}`,

	"leasecandidates":            `{"spec":{"leaseName":"l","binaryVersion":"1.36.0","emulationVersion":"1.36.0","strategy":"OldestEmulationVersion"}}`,
	"devicetaintrules":           `{"spec":{"taint":{"key":"a","effect":"NoSchedule"}}}`,
	"resourcepoolstatusrequests": `{"spec":{"driver":"example.com"}}`,
	"storageversions":            `{"spec":{}}`,
	"podcertificaterequests":     `{"spec":{"signerName":"example.com/s","podName":"p","podUID":"1","serviceAccountName":"s","serviceAccountUID":"2","nodeName":"n","nodeUID":"3","stubPKCS10Request":"MIG6MGICAQAwADBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPqanVzwLlvRHs3KQ8cbUmxSVLz9Ko0kjspt3OT7axzgXCm78IqDpKv5UIB6GWUy6WUT4IoxlV+QxUo4+i4ocJigADAKBggqhkjOPQQDAgNIADBFAiEAkTOla3DX134eRXSS/W2+CRXO10mZJaDmJPkaXDHhLoMCIEeIx/+H0qKtZm5+oSdik2AnXvs8PeUTC1Rd6BdJs8Ao"}}`,
	"workloads":                  `{"spec":{"podGroupTemplates":[{"name":"t","schedulingPolicy":{"basic":{}}}]}}`,
	"podgroups":                  `{"spec":{"schedulingPolicy":{"gang":{"minCount":2}}}}`,
	"storageversionmigrations":   `{"spec":{"resource":{"resource":"pods"}}}`,
	"clustertrustbundles":        `{"spec":{"trustBundle":"-----BEGIN CERTIFICATE-----\nMIIBcTCCARegAwIBAgIUJVNrHc7bjkEAOrgVBJP42K/QOhIwCgYIKoZIzj0EAwIw\nDTELMAkGA1UEAwwCY2EwIBcNMjYxMTIxMjAyNjE5WhgPMjEyNjEwMjgyMDI2MTla\nMA0xCzAJBgNVBAMMAmNhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEHeSP7NKJ\nj+64TlqBKXxT9wMKt77Cj/9mE1+iVHcZGQKrbkGbGTyjniajBrxNTDaTLh7WRVi5\nhxF597gdLOx5mKNTMFEwHQYDVR0OBBYEFD8O+2nTCEXcvQA6lQc6ZTZ4j7s/MB8G\nA1UdIwQYMBaAFD8O+2nTCEXcvQA6lQc6ZTZ4j7s/MA8GA1UdEwEB/wQFMAMBAf8w\nCgYIKoZIzj0EAwIDSAAwRQIhAPwqpbOvUGFtnnsV1UtlAxcDkpXQF4ya/LHJ09dn\nMdqtAiASKLJt2tgzPAWwcW9rOcxA5r8PncuM86mpUym5c/63ow==\n-----END CERTIFICATE-----\n"}}`,

	"replicationcontrollers":   `{"spec":{"replicas":1,"selector":{"app":"x"},"template":` + podTemplate + `}}`,
	"podtemplates":             `{"template":` + podTemplate + `}`,
	"persistentvolumeclaims":   `{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`,
	"statefulsets":             `{"spec":{"replicas":1,"serviceName":"x","selector":{"matchLabels":{"app":"x"}},"template":` + podTemplate + `}}`,
	"daemonsets":               `{"spec":{"selector":{"matchLabels":{"app":"x"}},"template":` + podTemplate + `}}`,
	"controllerrevisions":      `{"revision":1,"data":{"spec":{"a":"b"}}}`,
	"jobs":                     `{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"nginx:1"}]}}}}`,
	"cronjobs":                 `{"spec":{"schedule":"@daily","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"nginx:1"}]}}}}}}`,
	"horizontalpodautoscalers": `{"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"x"}}}`,
	"poddisruptionbudgets":     `{"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"x"}}}}`,

	"apiservices": `{"spec":{"group":"walk","version":"v1","groupPriorityMinimum":100,"versionPriority":10}}`,

	"deviceclasses":          `{"spec":{"selectors":[{"cel":{"expression":"device.driver == 'example.com'"}}]}}`,
	"resourceclaims":         `{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c"}}]}}}`,
	"resourceclaimtemplates": `{"spec":{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c"}}]}}}}`,
	"resourceslices":         `{"spec":{"driver":"example.com","nodeName":"n","pool":{"name":"n","resourceSliceCount":1},"devices":[{"name":"d","attributes":{"model":{"string":"m"}}}]}}`,

	"flowschemas":                 `{"spec":{"priorityLevelConfiguration":{"name":"exempt"},"rules":[{"subjects":[{"kind":"Group","group":{"name":"g"}}],"nonResourceRules":[{"verbs":["get"],"nonResourceURLs":["/version"]}]}]}}`,
	"prioritylevelconfigurations": `{"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Queue","queuing":{}}}}}`,

	"validatingwebhookconfigurations":   `{"webhooks":[{"name":"a.example.com","clientConfig":{"url":"https://hook.example.com"},"sideEffects":"None","admissionReviewVersions":["v1"],"rules":[{"operations":["CREATE"],"apiGroups":["example.com"],"apiVersions":["v1"],"resources":["x"]}]}]}`,
	"mutatingwebhookconfigurations":     `{"webhooks":[{"name":"a.example.com","clientConfig":{"url":"https://hook.example.com"},"sideEffects":"None","admissionReviewVersions":["v1"],"rules":[{"operations":["CREATE"],"apiGroups":["example.com"],"apiVersions":["v1"],"resources":["x"]}]}]}`,
	"validatingadmissionpolicies":       `{"spec":{"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":["example.com"],"apiVersions":["v1"],"resources":["x"]}]},"validations":[{"expression":"true"}]}}`,
	"validatingadmissionpolicybindings": `{"spec":{"policyName":"p","validationActions":["Deny"]}}`,
	"mutatingadmissionpolicies":         `{"spec":{"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":["example.com"],"apiVersions":["v1"],"resources":["x"]}]},"reinvocationPolicy":"Never","mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'remove', path: '/a'}]"}}]}}`,
	"mutatingadmissionpolicybindings":   `{"spec":{"policyName":"p"}}`,

	"roles":               `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`,
	"clusterroles":        `{"rules":[{"nonResourceURLs":["/healthz"],"verbs":["get"]}]}`,
	"rolebindings":        `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"u","apiGroup":"rbac.authorization.k8s.io"}]}`,
	"clusterrolebindings": `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"},"subjects":[{"kind":"Group","name":"g","apiGroup":"rbac.authorization.k8s.io"}]}`,
}

// eventBodies are by version: the fields differ.
var eventBodies = map[string]string{
	"v1":                    `{"involvedObject":{"kind":"Pod","namespace":"NS","name":"p"},"reason":"R","message":"m","type":"Normal"}`,
	"events.k8s.io/v1beta1": newerEvent,
	"events.k8s.io/v1":      newerEvent,
}

const newerEvent = `{"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"c.io/x","reportingInstance":"i","action":"a","regarding":{"kind":"Pod","namespace":"NS","name":"p"},"reason":"R","type":"Normal"}`

// olderBodies are those of v1beta1 whose fields differ.
var olderBodies = map[string]string{
	"ingresses":              `{"spec":{"backend":{"serviceName":"s","servicePort":80}}}`,
	"resourceclaims":         `{"spec":{"devices":{"requests":[{"name":"r","deviceClassName":"c"}]}}}`,
	"resourceclaimtemplates": `{"spec":{"spec":{"devices":{"requests":[{"name":"r","deviceClassName":"c"}]}}}}`,
	"resourceslices":         `{"spec":{"driver":"example.com","nodeName":"n","pool":{"name":"n","resourceSliceCount":1},"devices":[{"name":"d","basic":{"attributes":{"model":{"string":"m"}}}}]}}`,
}

// walker takes one resource through the API.
type walker struct {
	*fixture
	t         *testing.T
	res       *registry.Resource
	namespace string
}

func (w *walker) body(name string) map[string]any {
	text, ok := bodies[w.res.Kind.Resource]
	if old, other := olderBodies[w.res.GVR.Resource]; other && w.res.GVR.Version == "v1beta1" {
		text = old
	}
	if w.res.Kind.Resource == "events" {
		text, ok = eventBodies[w.res.GVK.GroupVersion().String()]
	}
	if !ok {
		w.t.Fatalf("there is no body for %s: add one to the test", w.res.GVR)
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(text, "NS", w.namespace)), &body); err != nil {
		w.t.Fatal(err)
	}
	if spec, ok := body["spec"].(map[string]any); ok && w.res.Kind.Resource == "apiservices" { // its name says what it serves
		_, spec["group"], _ = strings.Cut(name, ".")
	}
	u := &unstructured.Unstructured{Object: body}
	u.SetGroupVersionKind(w.res.GVK)
	u.SetName(name)
	u.SetNamespace(w.namespace)
	return body
}

func (w *walker) encode(body map[string]any) []byte {
	b, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *walker) decode(b []byte) *unstructured.Unstructured {
	w.t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(b); err != nil {
		w.t.Fatalf("%v: %s", err, b)
	}
	if u.GroupVersionKind() != w.res.GVK {
		w.t.Fatalf("the answer is a %s, not a %s: %s", u.GroupVersionKind(), w.res.GVK, b)
	}
	return u
}

func (w *walker) must(b []byte, err error) *unstructured.Unstructured {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(apistatus.FromGRPC(err))
	}
	return w.decode(b)
}

func (w *walker) create(body map[string]any, dryRun bool) ([]byte, error) {
	req := &apiv1.CreateRequest{
		Group: w.res.GVR.Group, Version: w.res.GVR.Version, Resource: w.res.GVR.Resource, Namespace: w.namespace,
		Object: w.encode(body), FieldManager: "walker",
	}
	if dryRun {
		req.DryRun = []string{"All"}
	}
	resp, err := w.api.Create(w.ctx, req)
	return resp.GetObject(), err
}

func (w *walker) get(name, accept string) ([]byte, error) {
	resp, err := w.api.Get(w.ctx, &apiv1.GetRequest{
		Group: w.res.GVR.Group, Version: w.res.GVR.Version, Resource: w.res.GVR.Resource, Namespace: w.namespace, Name: name, Accept: accept,
	})
	return resp.GetObject(), err
}

func (w *walker) patch(name, contentType, subresource, body string) ([]byte, error) {
	resp, err := w.api.Patch(w.ctx, &apiv1.PatchRequest{
		Group: w.res.GVR.Group, Version: w.res.GVR.Version, Resource: w.res.GVR.Resource, Namespace: w.namespace, Name: name,
		ContentType: contentType, Object: []byte(body), FieldManager: "walker", Subresource: subresource,
	})
	return resp.GetObject(), err
}

func (w *walker) update(u *unstructured.Unstructured, subresource string) ([]byte, error) {
	resp, err := w.api.Update(w.ctx, &apiv1.UpdateRequest{
		Group: w.res.GVR.Group, Version: w.res.GVR.Version, Resource: w.res.GVR.Resource, Namespace: w.namespace, Name: u.GetName(),
		Object: w.encode(u.Object), FieldManager: "walker", Subresource: subresource,
	})
	return resp.GetObject(), err
}

func (w *walker) listRequest(accept string) *apiv1.ListRequest {
	return &apiv1.ListRequest{
		Group: w.res.GVR.Group, Version: w.res.GVR.Version, Resource: w.res.GVR.Resource, Namespace: w.namespace,
		LabelSelector: "walk=yes", Accept: accept,
	}
}

func TestEveryKindThroughTheAPI(t *testing.T) {
	// Nobody is here to take the finalizers of claims and volumes off.
	f := startMemory(t, func(c *Config) {
		c.DisabledAdmission = []string{"StorageObjectInUseProtection", "PodGroupProtection"}
		c.Clock = clocktesting.NewFakeClock(time.Now()) // the server itself tells flow schemas each second whether their level exists
	})
	table, err := registry.NewTable(kind.All(kind.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	for n, res := range table.Resources() {
		if res.Kind.Resource == "customresourcedefinitions" {
			continue // the server itself writes their status: they have a test of their own
		}
		t.Run(strings.ReplaceAll(res.GVR.String(), "/", "_"), func(t *testing.T) {
			w := &walker{fixture: f, t: t, res: res}
			if res.Kind.Namespaced {
				w.namespace = fmt.Sprintf("walk-%d", n)
				if _, err := f.create("v1/namespaces", "", `{"metadata":{"name":"`+w.namespace+`"}}`); err != nil {
					t.Fatal(err)
				}
				if _, err := f.create("v1/serviceaccounts", w.namespace, `{"metadata":{"name":"default"}}`); err != nil {
					t.Fatal(err)
				}
			}
			w.walk()
		})
	}
}

func (w *walker) walk() {
	t, name := w.t, "walk-me"
	if w.res.Kind.Resource == "priorityclasses" || w.res.Kind.Resource == "namespaces" {
		name = fmt.Sprintf("walk-me-%s", w.res.GVR.Version)
	}
	switch w.res.Kind.Resource {
	case "ipaddresses":
		name = "10.9.8.7"
	case "apiservices":
		name = "v1.walk-me"
	case "storageversions":
		name = "walk.me"
	}
	body := w.body(name)
	(&unstructured.Unstructured{Object: body}).SetLabels(map[string]string{"walk": "yes"})

	// A dry run answers as the write would, and writes nothing.
	if dry := w.must(w.create(body, true)); dry.GetUID() == "" {
		t.Error("a dry run answers without a uid")
	}
	if _, err := w.get(name, ""); !apierrors.IsNotFound(apistatus.FromGRPC(err)) {
		t.Fatalf("after a dry run: %v", err)
	}

	watch := w.watch()
	created := w.must(w.create(body, false))
	if created.GetUID() == "" || created.GetResourceVersion() == "" || created.GetCreationTimestamp().Unix() <= 0 {
		t.Errorf("created without metadata: %v", created.Object["metadata"])
	}
	if fields := created.GetManagedFields(); len(fields) == 0 || fields[0].Manager != "walker" || fields[0].APIVersion != w.res.GVK.GroupVersion().String() {
		t.Errorf("managed fields: %v", fields)
	}
	if _, err := w.create(body, false); !apierrors.IsAlreadyExists(apistatus.FromGRPC(err)) {
		t.Errorf("a second creation: %v", err)
	}
	watch.expect("ADDED", created)

	w.reads(name, created)

	// An update that changes nothing is not written.
	same := w.must(w.update(created, ""))
	if same.GetResourceVersion() != created.GetResourceVersion() {
		t.Errorf("an update without a change went from revision %s to %s", created.GetResourceVersion(), same.GetResourceVersion())
	}
	changed := created.DeepCopy()
	changed.SetAnnotations(map[string]string{"updated": "yes"})
	updated := w.must(w.update(changed, ""))
	watch.expect("MODIFIED", updated)
	if _, err := w.update(changed, ""); !apierrors.IsConflict(apistatus.FromGRPC(err)) ||
		!strings.Contains(apistatus.FromGRPC(err).Error(), "the object has been modified; please apply your changes to the latest version and try again") {
		t.Errorf("an update of a past revision: %v", err)
	}
	w.patches(name, watch)
	w.subresources(name)
	w.deletes(name)
}

func (w *walker) reads(name string, created *unstructured.Unstructured) {
	t := w.t
	if got := w.must(w.get(name, "")); got.GetResourceVersion() != created.GetResourceVersion() {
		t.Errorf("get answers revision %s, not %s", got.GetResourceVersion(), created.GetResourceVersion())
	}
	raw, err := w.get(name, "application/vnd.kubernetes.protobuf")
	if err != nil || string(raw[:4]) != "k8s\x00" {
		t.Fatalf("protobuf: %v", err)
	}
	var unknown runtime.Unknown
	obj := w.res.New()
	if err := unknown.Unmarshal(raw[4:]); err != nil {
		t.Fatal(err)
	}
	if err := obj.(interface{ Unmarshal([]byte) error }).Unmarshal(unknown.Raw); err != nil {
		t.Fatal(err)
	}
	if obj.GetResourceVersion() != created.GetResourceVersion() || obj.GetUID() != created.GetUID() || unknown.Kind != w.res.GVK.Kind {
		t.Errorf("protobuf says %s %s, JSON %s %s", obj.GetResourceVersion(), obj.GetUID(), created.GetResourceVersion(), created.GetUID())
	}
	if raw, err = w.get(name, "application/yaml"); err != nil || !strings.Contains(string(raw), "\nkind: "+w.res.GVK.Kind) {
		t.Errorf("YAML: %v\n%s", err, raw)
	}
	for accept, want := range map[string][2]string{
		"application/json": {w.res.ListKind, "items"},
		"application/json;as=Table;v=v1;g=meta.k8s.io,application/json":      {"Table", "rows"},
		"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io":   {"PartialObjectMetadataList", "items"},
		"application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json": {"Table", "rows"},
	} {
		raw, err := w.list(w.listRequest(accept))
		var list map[string]any
		if err == nil {
			err = json.Unmarshal(raw, &list)
		}
		if items, _ := list[want[1]].([]any); err != nil || list["kind"] != want[0] || len(items) != 1 {
			t.Errorf("list as %s: %v\n%s", accept, err, raw)
		}
	}
	raw, err = w.list(w.listRequest("application/vnd.kubernetes.protobuf"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unknown.Unmarshal(raw[4:]); err != nil {
		t.Fatal(err)
	}
	list := w.res.NewList()
	if err := list.(interface{ Unmarshal([]byte) error }).Unmarshal(unknown.Raw); err != nil {
		t.Fatal(err)
	}
}

func (w *walker) patches(name string, watch *watching) {
	t := w.t
	for _, c := range []struct{ media, body, label string }{
		{"application/json-patch+json", `[{"op":"add","path":"/metadata/labels/json","value":"yes"}]`, "json"},
		{"application/merge-patch+json", `{"metadata":{"labels":{"merge":"yes"}}}`, "merge"},
		{"application/strategic-merge-patch+json", `{"metadata":{"labels":{"strategic":"yes"}}}`, "strategic"},
		{"application/apply-patch+yaml", "apiVersion: " + w.res.GVK.GroupVersion().String() + "\nkind: " + w.res.GVK.Kind + "\nmetadata:\n  name: " + name + "\n  labels:\n    apply: \"yes\"\n", "apply"},
	} {
		patched := w.must(w.patch(name, c.media, "", c.body))
		if patched.GetLabels()[c.label] != "yes" {
			t.Errorf("%s leaves labels %v", c.media, patched.GetLabels())
		}
		watch.expect("MODIFIED", patched)
		again := w.must(w.patch(name, c.media, "", c.body))
		if again.GetResourceVersion() != patched.GetResourceVersion() {
			t.Errorf("%s again went from revision %s to %s", c.media, patched.GetResourceVersion(), again.GetResourceVersion())
		}
	}
	if _, err := w.patch(name, "text/plain", "", "x"); apistatus.Of(err).Code != 415 {
		t.Errorf("an unknown patch type: %v", err)
	}
}

func (w *walker) subresources(name string) {
	t := w.t
	if w.res.Kind.Status != nil {
		before := w.must(w.get(name, ""))
		if after := w.must(w.update(before, "status")); after.GetGeneration() != before.GetGeneration() {
			t.Errorf("a status update went from generation %d to %d", before.GetGeneration(), after.GetGeneration())
		}
		if _, err := w.patch(name, "application/merge-patch+json", "status", `{"metadata":{"annotations":{"a":"b"}}}`); err != nil {
			t.Errorf("a status patch: %v", err)
		}
	}
	if w.res.Kind.Scale != nil {
		resp, err := w.api.Patch(w.ctx, &apiv1.PatchRequest{
			Group: w.res.GVR.Group, Version: w.res.GVR.Version, Resource: w.res.GVR.Resource, Namespace: w.namespace, Name: name,
			Subresource: "scale", ContentType: "application/merge-patch+json", Object: []byte(`{"spec":{"replicas":3}}`),
		})
		if err != nil || !strings.Contains(string(resp.GetObject()), `"kind":"Scale"`) || !strings.Contains(string(resp.GetObject()), `"replicas":3`) {
			t.Errorf("scale: %v %s", err, resp.GetObject())
		}
	}
	if _, err := w.api.Get(w.ctx, &apiv1.GetRequest{
		Group: w.res.GVR.Group, Version: w.res.GVR.Version, Resource: w.res.GVR.Resource, Namespace: w.namespace, Name: name, Subresource: "nonsense",
	}); apistatus.Of(err).Code != 404 {
		t.Errorf("an unknown subresource: %v", err)
	}
}

func (w *walker) deletes(name string) {
	t := w.t
	req := &apiv1.DeleteRequest{Group: w.res.GVR.Group, Version: w.res.GVR.Version, Resource: w.res.GVR.Resource, Namespace: w.namespace, Name: name}
	req.DryRun = []string{"All"}
	if _, err := w.api.Delete(w.ctx, req); err != nil {
		t.Errorf("a dry deletion: %v", err)
	}
	if got := w.must(w.get(name, "")); got.GetDeletionTimestamp() != nil {
		t.Error("a dry deletion began one")
	}
	req.DryRun, req.PropagationPolicy = nil, "Background" // some leave dependents alone else
	resp, err := w.api.Delete(w.ctx, req)
	if err != nil {
		t.Fatalf("delete: %v", err)
	}
	if w.res.Kind.Resource == "namespaces" { // waits for its finalizer
		if ns := w.decode(resp.GetObject()); ns.GetDeletionTimestamp() == nil {
			t.Errorf("the namespace's deletion has not begun: %s", resp.GetObject())
		}
		return
	}
	if _, err := w.get(name, ""); !apierrors.IsNotFound(apistatus.FromGRPC(err)) {
		t.Errorf("after the deletion: %v", err)
	}
	for i := range 3 {
		name := fmt.Sprintf("walk-%d", i)
		switch w.res.Kind.Resource {
		case "ipaddresses":
			name = fmt.Sprintf("10.9.0.%d", i)
		case "apiservices":
			name = "v1." + name
		case "storageversions":
			name = "walk." + name
		}
		body := w.body(name)
		(&unstructured.Unstructured{Object: body}).SetLabels(map[string]string{"walk": "yes"})
		w.must(w.create(body, false))
	}
	_, err = w.api.DeleteCollection(w.ctx, &apiv1.DeleteCollectionRequest{
		Group: w.res.GVR.Group, Version: w.res.GVR.Version, Resource: w.res.GVR.Resource, Namespace: w.namespace, LabelSelector: "walk=yes", PropagationPolicy: "Background",
	})
	if err != nil {
		t.Errorf("delete the collection: %v", err)
	}
	raw, err := w.list(w.listRequest(""))
	if err != nil || !strings.Contains(string(raw), `"items":[]`) {
		t.Errorf("after deleting the collection: %v %s", err, raw)
	}
}
