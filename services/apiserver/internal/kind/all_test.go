package kind_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/kind"
	"howdah.dev/services/apiserver/internal/registry"
)

var update = flag.Bool("update", false, "write the golden files anew")

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func all() []*registry.Kind {
	return kind.All(kind.Config{Now: func() time.Time { return now }})
}

func table(t *testing.T) *registry.Table {
	t.Helper()
	tab, err := registry.NewTable(all())
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// Every row of the table keeps what the machinery relies on.
func TestRows(t *testing.T) {
	t.Parallel()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range table(t).Resources() {
		t.Run(r.GVR.String(), func(t *testing.T) {
			t.Parallel()
			k := r.Kind
			if k.Singular != strings.ToLower(k.GVK.Kind) {
				t.Errorf("singular %q of %s", k.Singular, k.GVK.Kind)
			}
			gvks, _, err := known.ObjectKinds(r.New())
			if err != nil || gvks[0] != r.GVK {
				t.Errorf("New returns %v (%v), want %v", gvks, err, r.GVK)
			}
			lists, _, err := known.ObjectKinds(r.NewList())
			if err != nil || lists[0] != r.GVK.GroupVersion().WithKind(r.ListKind) {
				t.Errorf("NewList returns %v (%v)", lists, err)
			}
			obj := k.New()
			if k.Cells == nil {
				// The machinery shows the name and the time of creation.
				k.Cells = func(registry.Object) []any { return nil }
			}
			want := len(k.Columns)
			if k.Resource == "ipaddresses" {
				want++ // Kubernetes' rows have their age, of which its columns do not tell
			}
			if cells := k.Cells(obj); len(cells) != want {
				t.Errorf("%d cells for %d columns, want %d", len(cells), len(k.Columns), want)
			}
			// Nothing may panic on an empty object: that is what a client may send.
			r.Default(r.New())
			if k.Default != nil {
				k.Default(obj)
			}
			if k.PrepareCreate != nil {
				k.PrepareCreate(obj)
			}
			wrong := map[string]bool{}
			if k.Validate != nil {
				for _, err := range k.Validate(obj) {
					wrong[err.Error()] = true
				}
			}
			if k.SelectableFields != nil {
				k.SelectableFields(obj)
			}
			k.Cells(obj)
			old := obj.DeepCopyObject().(registry.Object)
			if k.PrepareUpdate != nil {
				k.PrepareUpdate(obj, old)
			}
			if k.ValidateUpdate != nil && (k.Validate != nil || k.ValidateCreate == nil) { // others validate all of it there
				for _, err := range k.ValidateUpdate(obj, old) {
					if !wrong[err.Error()] { // some repeat what Validate finds
						t.Errorf("an update that changes nothing is refused: %v", err)
					}
				}
			}
			if k.Release != nil {
				k.Release(obj)
			}
		})
	}
}

// What is served, as kubectl api-resources shows it.
func TestServed(t *testing.T) {
	t.Parallel()
	type row struct {
		name, short string
		namespaced  bool
	}
	want := map[string]row{
		"v1/Namespace":                                     {"namespaces", "ns", false},
		"v1/Node":                                          {"nodes", "no", false},
		"v1/Pod":                                           {"pods", "po", true},
		"v1/Service":                                       {"services", "svc", true},
		"v1/Endpoints":                                     {"endpoints", "ep", true},
		"v1/ConfigMap":                                     {"configmaps", "cm", true},
		"v1/Secret":                                        {"secrets", "", true},
		"v1/ServiceAccount":                                {"serviceaccounts", "sa", true},
		"v1/Event":                                         {"events", "ev", true},
		"events.k8s.io/v1/Event":                           {"events", "ev", true},
		"coordination.k8s.io/v1/Lease":                     {"leases", "", true},
		"discovery.k8s.io/v1/EndpointSlice":                {"endpointslices", "", true},
		"apps/v1/Deployment":                               {"deployments", "deploy", true},
		"apps/v1beta1/Deployment":                          {"deployments", "deploy", true},
		"apps/v1beta2/Deployment":                          {"deployments", "deploy", true},
		"extensions/v1beta1/Deployment":                    {"deployments", "deploy", true},
		"apps/v1/ReplicaSet":                               {"replicasets", "rs", true},
		"apps/v1beta2/ReplicaSet":                          {"replicasets", "rs", true},
		"extensions/v1beta1/ReplicaSet":                    {"replicasets", "rs", true},
		"scheduling.k8s.io/v1/PriorityClass":               {"priorityclasses", "pc", false},
		"v1/ReplicationController":                         {"replicationcontrollers", "rc", true},
		"v1/PodTemplate":                                   {"podtemplates", "", true},
		"v1/PersistentVolumeClaim":                         {"persistentvolumeclaims", "pvc", true},
		"apps/v1/StatefulSet":                              {"statefulsets", "sts", true},
		"apps/v1beta1/StatefulSet":                         {"statefulsets", "sts", true},
		"apps/v1beta2/StatefulSet":                         {"statefulsets", "sts", true},
		"apps/v1/DaemonSet":                                {"daemonsets", "ds", true},
		"apps/v1beta2/DaemonSet":                           {"daemonsets", "ds", true},
		"extensions/v1beta1/DaemonSet":                     {"daemonsets", "ds", true},
		"apps/v1/ControllerRevision":                       {"controllerrevisions", "", true},
		"apps/v1beta1/ControllerRevision":                  {"controllerrevisions", "", true},
		"apps/v1beta2/ControllerRevision":                  {"controllerrevisions", "", true},
		"batch/v1/Job":                                     {"jobs", "", true},
		"batch/v1/CronJob":                                 {"cronjobs", "cj", true},
		"autoscaling/v1/HorizontalPodAutoscaler":           {"horizontalpodautoscalers", "hpa", true},
		"autoscaling/v2/HorizontalPodAutoscaler":           {"horizontalpodautoscalers", "hpa", true},
		"policy/v1/PodDisruptionBudget":                    {"poddisruptionbudgets", "pdb", true},
		"v1/ResourceQuota":                                 {"resourcequotas", "quota", true},
		"v1/LimitRange":                                    {"limitranges", "limits", true},
		"v1/PersistentVolume":                              {"persistentvolumes", "pv", false},
		"node.k8s.io/v1/RuntimeClass":                      {"runtimeclasses", "", false},
		"certificates.k8s.io/v1/CertificateSigningRequest": {"certificatesigningrequests", "csr", false},
		"apiextensions.k8s.io/v1/CustomResourceDefinition": {"customresourcedefinitions", "crd,crds", false},
		"networking.k8s.io/v1/Ingress":                     {"ingresses", "ing", true},
		"networking.k8s.io/v1/IngressClass":                {"ingressclasses", "", false},
		"networking.k8s.io/v1/NetworkPolicy":               {"networkpolicies", "netpol", true},
		"networking.k8s.io/v1/ServiceCIDR":                 {"servicecidrs", "", false},
		"networking.k8s.io/v1/IPAddress":                   {"ipaddresses", "ip", false},
		"storage.k8s.io/v1/StorageClass":                   {"storageclasses", "sc", false},
		"storage.k8s.io/v1/VolumeAttachment":               {"volumeattachments", "", false},
		"storage.k8s.io/v1/CSIDriver":                      {"csidrivers", "", false},
		"storage.k8s.io/v1/CSINode":                        {"csinodes", "", false},
		"storage.k8s.io/v1/CSIStorageCapacity":             {"csistoragecapacities", "", true},
		"storage.k8s.io/v1/VolumeAttributesClass":          {"volumeattributesclasses", "vac", false},
		"rbac.authorization.k8s.io/v1/Role":                {"roles", "", true},
		"rbac.authorization.k8s.io/v1/RoleBinding":         {"rolebindings", "", true},
		"rbac.authorization.k8s.io/v1/ClusterRole":         {"clusterroles", "", false},
		"rbac.authorization.k8s.io/v1/ClusterRoleBinding":  {"clusterrolebindings", "", false},

		"admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration":      {"validatingwebhookconfigurations", "", false},
		"admissionregistration.k8s.io/v1/MutatingWebhookConfiguration":        {"mutatingwebhookconfigurations", "", false},
		"admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy":           {"validatingadmissionpolicies", "", false},
		"admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding":    {"validatingadmissionpolicybindings", "", false},
		"admissionregistration.k8s.io/v1/MutatingAdmissionPolicy":             {"mutatingadmissionpolicies", "", false},
		"admissionregistration.k8s.io/v1/MutatingAdmissionPolicyBinding":      {"mutatingadmissionpolicybindings", "", false},
		"admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy":        {"mutatingadmissionpolicies", "", false},
		"admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicyBinding": {"mutatingadmissionpolicybindings", "", false},

		"flowcontrol.apiserver.k8s.io/v1/FlowSchema":                 {"flowschemas", "", false},
		"flowcontrol.apiserver.k8s.io/v1/PriorityLevelConfiguration": {"prioritylevelconfigurations", "", false},

		"batch/v1beta1/CronJob":                                                {"cronjobs", "cj", true},
		"certificates.k8s.io/v1beta1/CertificateSigningRequest":                {"certificatesigningrequests", "csr", false},
		"coordination.k8s.io/v1beta1/Lease":                                    {"leases", "", true},
		"discovery.k8s.io/v1beta1/EndpointSlice":                               {"endpointslices", "", true},
		"events.k8s.io/v1beta1/Event":                                          {"events", "ev", true},
		"extensions/v1beta1/Ingress":                                           {"ingresses", "ing", true},
		"extensions/v1beta1/NetworkPolicy":                                     {"networkpolicies", "netpol", true},
		"networking.k8s.io/v1beta1/Ingress":                                    {"ingresses", "ing", true},
		"networking.k8s.io/v1beta1/IngressClass":                               {"ingressclasses", "", false},
		"networking.k8s.io/v1beta1/IPAddress":                                  {"ipaddresses", "ip", false},
		"admissionregistration.k8s.io/v1alpha1/MutatingAdmissionPolicy":        {"mutatingadmissionpolicies", "", false},
		"admissionregistration.k8s.io/v1alpha1/MutatingAdmissionPolicyBinding": {"mutatingadmissionpolicybindings", "", false},
		"certificates.k8s.io/v1alpha1/ClusterTrustBundle":                      {"clustertrustbundles", "", false},
		"certificates.k8s.io/v1beta1/ClusterTrustBundle":                       {"clustertrustbundles", "", false},
		"certificates.k8s.io/v1beta1/PodCertificateRequest":                    {"podcertificaterequests", "", true},
		"scheduling.k8s.io/v1alpha2/PodGroup":                                  {"podgroups", "", true},
		"scheduling.k8s.io/v1alpha2/Workload":                                  {"workloads", "", true},
		"coordination.k8s.io/v1alpha2/LeaseCandidate":                          {"leasecandidates", "", true},
		"coordination.k8s.io/v1beta1/LeaseCandidate":                           {"leasecandidates", "", true},
		"internal.apiserver.k8s.io/v1alpha1/StorageVersion":                    {"storageversions", "", false},
		"resource.k8s.io/v1alpha3/DeviceTaintRule":                             {"devicetaintrules", "", false},
		"resource.k8s.io/v1alpha3/ResourcePoolStatusRequest":                   {"resourcepoolstatusrequests", "", false},
		"resource.k8s.io/v1beta2/DeviceTaintRule":                              {"devicetaintrules", "", false},
		"storagemigration.k8s.io/v1beta1/StorageVersionMigration":              {"storageversionmigrations", "", false},
		"networking.k8s.io/v1beta1/ServiceCIDR":                                {"servicecidrs", "", false},
		"node.k8s.io/v1beta1/RuntimeClass":                                     {"runtimeclasses", "", false},
		"policy/v1beta1/PodDisruptionBudget":                                   {"poddisruptionbudgets", "pdb", true},
		"rbac.authorization.k8s.io/v1beta1/Role":                               {"roles", "", true},
		"rbac.authorization.k8s.io/v1beta1/RoleBinding":                        {"rolebindings", "", true},
		"rbac.authorization.k8s.io/v1beta1/ClusterRole":                        {"clusterroles", "", false},
		"rbac.authorization.k8s.io/v1beta1/ClusterRoleBinding":                 {"clusterrolebindings", "", false},
		"scheduling.k8s.io/v1beta1/PriorityClass":                              {"priorityclasses", "pc", false},
		"storage.k8s.io/v1beta1/StorageClass":                                  {"storageclasses", "sc", false},
		"storage.k8s.io/v1beta1/VolumeAttachment":                              {"volumeattachments", "", false},
		"storage.k8s.io/v1beta1/CSIDriver":                                     {"csidrivers", "", false},
		"storage.k8s.io/v1beta1/CSINode":                                       {"csinodes", "", false},
		"storage.k8s.io/v1beta1/CSIStorageCapacity":                            {"csistoragecapacities", "", true},
		"storage.k8s.io/v1beta1/VolumeAttributesClass":                         {"volumeattributesclasses", "vac", false},

		"apiregistration.k8s.io/v1/APIService": {"apiservices", "", false},

		"resource.k8s.io/v1/DeviceClass":           {"deviceclasses", "", false},
		"resource.k8s.io/v1/ResourceClaim":         {"resourceclaims", "", true},
		"resource.k8s.io/v1/ResourceClaimTemplate": {"resourceclaimtemplates", "", true},
		"resource.k8s.io/v1/ResourceSlice":         {"resourceslices", "", false},

		"resource.k8s.io/v1beta1/DeviceClass":           {"deviceclasses", "", false},
		"resource.k8s.io/v1beta1/ResourceClaim":         {"resourceclaims", "", true},
		"resource.k8s.io/v1beta1/ResourceClaimTemplate": {"resourceclaimtemplates", "", true},
		"resource.k8s.io/v1beta1/ResourceSlice":         {"resourceslices", "", false},
		"resource.k8s.io/v1beta2/DeviceClass":           {"deviceclasses", "", false},
		"resource.k8s.io/v1beta2/ResourceClaim":         {"resourceclaims", "", true},
		"resource.k8s.io/v1beta2/ResourceClaimTemplate": {"resourceclaimtemplates", "", true},
		"resource.k8s.io/v1beta2/ResourceSlice":         {"resourceslices", "", false},
	}
	got := table(t).Resources()
	if len(got) != len(want) {
		t.Errorf("%d resources are served, want %d", len(got), len(want))
	}
	for _, r := range got {
		key := r.GVK.GroupVersion().String() + "/" + r.GVK.Kind
		w, ok := want[key]
		have := row{r.GVR.Resource, strings.Join(r.Kind.ShortNames, ","), r.Kind.Namespaced}
		if !ok || have != w {
			t.Errorf("%s: %+v, want %+v", key, have, w)
		}
	}
}

// What a client sends, and what it gets back: testdata/defaults/*.in.yaml and *.out.yaml.
func TestDefaults(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/defaults/*.in.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	tab := table(t)
	for _, in := range files {
		t.Run(strings.TrimSuffix(filepath.Base(in), ".in.yaml"), func(t *testing.T) {
			t.Parallel()
			res, obj := decode(t, tab, in)
			res.Default(obj)
			stored, err := res.ToStored(obj)
			if err != nil {
				t.Fatal(err)
			}
			if res.Kind.PrepareCreate != nil {
				res.Kind.PrepareCreate(stored)
			}
			if res.Kind.Complete != nil {
				res.Kind.Complete(stored, registry.Caller{Name: "jane", Groups: []string{"team"}, Extra: map[string][]string{"a": {"b"}}})
			}
			if res.Kind.Settle != nil {
				res.Kind.Settle(stored)
			}
			got, err := yaml.Marshal(stored)
			if err != nil {
				t.Fatal(err)
			}
			out := strings.Replace(in, ".in.", ".out.", 1)
			if *update {
				if err := os.WriteFile(out, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			// Defaults are a fixed point, and what they make of good input is valid.
			if res.Kind.Default != nil {
				res.Kind.Default(stored)
			}
			again, err := yaml.Marshal(stored)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again, got) {
				t.Errorf("defaulted again\n%s\nwas\n%s", again, got)
			}
			if res.Kind.Validate == nil {
				return
			}
			if errs := res.Kind.Validate(stored); len(errs) > 0 {
				t.Errorf("not valid: %v", errs.ToAggregate())
			}
		})
	}
}

func decode(t *testing.T, tab *registry.Table, file string) (*registry.Resource, registry.Object) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(data, &meta); err != nil {
		t.Fatal(err)
	}
	res := tab.FindKind(schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind))
	if res == nil {
		t.Fatalf("%s: %s %s is not served", file, meta.APIVersion, meta.Kind)
	}
	obj := res.New()
	if err := yaml.UnmarshalStrict(data, obj); err != nil {
		t.Fatal(err)
	}
	return res, obj
}
