package kind_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/kind"
	"howdah.dev/services/apiserver/internal/registry"
)

const (
	notQualified = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
	notLabel     = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)

// previewOf returns the kind that is stored in a version of which there is no stable one.
func previewOf(t *testing.T, gvk schema.GroupVersionKind) *registry.Kind {
	t.Helper()
	for _, k := range kind.All(kind.Config{Now: func() time.Time { return time.Unix(1000, 0) }}) {
		if k.GVK == gvk {
			return k
		}
	}
	t.Fatalf("there is no %s", gvk)
	return nil
}

func decodePreview(t *testing.T, text string) (*registry.Kind, registry.Object) {
	t.Helper()
	var meta struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal([]byte(text), &meta); err != nil {
		t.Fatal(err)
	}
	gv, err := schema.ParseGroupVersion(meta.APIVersion)
	if err != nil {
		t.Fatal(err)
	}
	k := previewOf(t, gv.WithKind(meta.Kind))
	obj := k.New()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	if k.Default != nil {
		k.Default(obj)
	}
	return k, obj
}

// What Kubernetes 1.36 says of new objects of kinds that have no stable version.
func TestPreviewsAreChecked(t *testing.T) {
	t.Parallel()
	const (
		candidate = "{apiVersion: coordination.k8s.io/v1beta1, kind: LeaseCandidate, metadata: {name: a}, spec: "
		rule      = "{apiVersion: resource.k8s.io/v1beta2, kind: DeviceTaintRule, metadata: {name: a}, spec: "
		pools     = "{apiVersion: resource.k8s.io/v1alpha3, kind: ResourcePoolStatusRequest, metadata: {name: a}, spec: "
		migration = "{apiVersion: storagemigration.k8s.io/v1beta1, kind: StorageVersionMigration, metadata: {name: a}, spec: {resource: "
		bundle    = "{apiVersion: certificates.k8s.io/v1beta1, kind: ClusterTrustBundle, metadata: {name: "
		load      = "{apiVersion: scheduling.k8s.io/v1alpha2, kind: Workload, metadata: {name: a}, spec: {podGroupTemplates: "
		group     = "{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {name: a}, spec: {schedulingPolicy: "
		anchor    = `spec.trustBundle: Invalid value: "<value omitted>": `
	)
	for text, want := range map[string]string{
		candidate + "{leaseName: l, binaryVersion: 1.2.3, emulationVersion: 1.2.0, strategy: OldestEmulationVersion}}": "",
		candidate + "{}}": "spec.leaseName: Required value\nspec.binaryVersion: Required value\nspec.strategy: Required value",
		candidate + "{leaseName: l, binaryVersion: v1.2.3, emulationVersion: 1.2.0, strategy: OldestEmulationVersion}}": `spec.binaryVersion: Invalid value: "v1.2.3": must be a valid semantic version` + "\n" +
			"spec.binaryVersion: Invalid value: \"v1.2.3\": must be greater than or equal to `emulationVersion`",
		candidate + "{leaseName: l, emulationVersion: x, strategy: a/b}}":                     `spec.emulationVersion: Invalid value: "x": must be a valid semantic version` + "\nspec.binaryVersion: Required value",
		candidate + "{leaseName: l, binaryVersion: 1.2.3, strategy: OldestEmulationVersion}}": "spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'",
		candidate + "{leaseName: l, binaryVersion: 1.2.3, strategy: X}}":                      `spec.strategy.strategy: Unsupported value: "X": supported values: "OldestEmulationVersion"`,
		candidate + "{leaseName: l, binaryVersion: 1.2.3, strategy: /x}}":                     `spec.strategy.strategy: Invalid value: "/x": prefix part must be non-empty`,

		rule + "{taint: {key: a, effect: NoSchedule}}}":                         "",
		rule + "{taint: {key: a b, effect: X}}}":                                `spec.taint.key: Invalid value: "a b": ` + notQualified + "\n" + `spec.taint.effect: Unsupported value: "X": supported values: "NoExecute", "NoSchedule", "None"`,
		rule + "{deviceSelector: {driver: ''}, taint: {key: a, effect: None}}}": "spec.deviceSelector.driver: Required value",

		pools + "{driver: d.example.com, poolName: a/b}}": "",
		pools + "{limit: 1001}}":                          "spec.driver: Required value\nspec.limit: Invalid value: 1001: must be less than or equal to 1000",
		pools + "{driver: d, poolName: '', limit: 0}}":    `spec.poolName: Invalid value: "": segment 0: must not be empty` + "\nspec.limit: Invalid value: 0: must be greater than or equal to 1",

		migration + "{group: apps, resource: deployments}}}": "",
		migration + "{}}}":              "spec.resource.resource: Required value: resource is required to be set",
		migration + "{resource: A_b}}}": `spec.resource.resource: Invalid value: "A_b": ` + notLabel,

		load + "[{name: t, schedulingPolicy: {gang: {minCount: 2}}}]}}": "",
		load + "[]}}": "spec.podGroupTemplates: Required value",
		load + "[{name: a.b, schedulingPolicy: {}}, {name: a.b, schedulingPolicy: {basic: {}, gang: {minCount: -1}}}], controllerRef: {kind: a/b}}}": `spec.controllerRef.kind: Invalid value: "a/b": may not contain '/'` + "\n" +
			"spec.controllerRef.name: Required value\n" + `spec.podGroupTemplates[1]: Duplicate value: {"name":"a.b","schedulingPolicy":{"basic":{},"gang":{"minCount":-1}},"schedulingConstraints":null}` + "\n" +
			`spec.podGroupTemplates[0].name: Invalid value: "a.b": must not contain dots` + "\n" + "spec.podGroupTemplates[0].schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`\n" +
			`spec.podGroupTemplates[1].name: Invalid value: "a.b": must not contain dots` + "\n" + "spec.podGroupTemplates[1].schedulingPolicy: Invalid value: \"{basic, gang}\": must specify exactly one of: `basic`, `gang`\n" +
			"spec.podGroupTemplates[1].schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
		group + "{basic: {}}}}":                                                     "",
		group + "{gang: {}}, podGroupTemplateRef: {}}}":                             "spec.podGroupTemplateRef: Invalid value: \"\": must specify one of: `workload`\nspec.schedulingPolicy.gang.minCount: Required value",
		group + "{basic: {}}, podGroupTemplateRef: {workload: {workloadName: w}}}}": "spec.podGroupTemplateRef.workload.podGroupTemplateName: Required value",

		bundle + "a}, spec: {trustBundle: x}}":                                                                     anchor + "at least one trust anchor must be provided",
		bundle + "'a:b'}, spec: {trustBundle: x}}":                                                                 `metadata.name: Invalid value: "a:b": ClusterTrustBundle without signer name must not have ":" in its name` + "\n" + anchor + "at least one trust anchor must be provided",
		bundle + "a}, spec: {signerName: a.com/b, trustBundle: x}}":                                                `metadata.name: Invalid value: "a": ClusterTrustBundle for signerName a.com/b must be named with prefix a.com:b:` + "\n" + anchor + "at least one trust anchor must be provided",
		bundle + "a}, spec: {trustBundle: \"-----BEGIN X-----\\nAAAA\\n-----END X-----\\n\"}}":                     anchor + "entry 0 has bad block type: X",
		bundle + "a}, spec: {trustBundle: \"-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----\\n\"}}": anchor + "entry 0 does not parse as X.509",
	} {
		k, obj := decodePreview(t, text)
		var got []string
		if k.Validate != nil {
			for _, e := range k.Validate(obj) {
				got = append(got, e.Error())
			}
		}
		if k.ValidateCreate != nil {
			for _, e := range k.ValidateCreate(obj) {
				got = append(got, e.Error())
			}
		}
		if all := strings.Join(got, "\n"); all != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, all, want)
		}
	}
}

func TestPreviewStatusesAreChecked(t *testing.T) {
	t.Parallel()
	const (
		pools  = "{apiVersion: resource.k8s.io/v1alpha3, kind: ResourcePoolStatusRequest, metadata: {name: a}, spec: {driver: d}, status: "
		stored = "{apiVersion: internal.apiserver.k8s.io/v1alpha1, kind: StorageVersion, metadata: {name: a.b}, spec: {}, status: "
		move   = "{apiVersion: storagemigration.k8s.io/v1beta1, kind: StorageVersionMigration, metadata: {name: a}, spec: {resource: {resource: pods}}, status: "
	)
	for text, want := range map[string]string{
		pools + "{poolCount: 1}}": "",
		pools + "{}}":             "status.poolCount: Required value",
		pools + "{poolCount: 1, pools: [{driver: '', poolName: '', generation: 0}]}}":                                              "status.pools[0].driver: Required value\nstatus.pools[0].poolName: Required value\nstatus.pools[0].generation: Required value",
		stored + "{storageVersions: [{apiServerID: x, encodingVersion: v1, decodableVersions: [v1]}]}}":                            "status.commonEncodingVersion: Invalid value: null: the common encoding version is v1",
		stored + "{storageVersions: [{apiServerID: x, encodingVersion: v1, decodableVersions: [v2]}], commonEncodingVersion: v2}}": `status.storageVersions[0].decodableVersions: Invalid value: ["v2"]: decodableVersions must include encodingVersion v1` + "\n" + `status.commonEncodingVersion: Invalid value: "v2": the actual common encoding version is v1`,
		stored + "{commonEncodingVersion: v1}}":                                                                                    `status.commonEncodingVersion: Invalid value: "v1": should be nil if servers do not agree on the same encoding version, or if there is no server reporting the supported versions yet`,
		move + "{resourceVersion: abc}}":                                                                                           `status.resourceVersion: Invalid value: "abc": resource version is not well formed: abc`,
		move + "{resourceVersion: '12'}}":                                                                                          "",
	} {
		k, obj := decodePreview(t, text)
		var got []string
		for _, e := range k.Status.ValidateUpdate(obj, k.New()) {
			got = append(got, e.Error())
		}
		if all := strings.Join(got, "\n"); all != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, all, want)
		}
	}
}

func TestNamesOfStorageVersions(t *testing.T) {
	t.Parallel()
	k := previewOf(t, schema.GroupVersionKind{Group: "internal.apiserver.k8s.io", Version: "v1alpha1", Kind: "StorageVersion"})
	for name, want := range map[string]string{
		"apps.deployments": "", "a.b.c": "", "nodot": "name must be in the form of <group>.<resource>", "a.": "the resource segment " + notLabel,
	} {
		if got := strings.Join(k.NameIsValid(name, false), "\n"); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// The time of a taint is set anew when the effect changes, and it alone.
func TestTaintRulesTellSinceWhen(t *testing.T) {
	t.Parallel()
	const text = "{apiVersion: resource.k8s.io/v1beta2, kind: DeviceTaintRule, metadata: {name: a, generation: 1}, spec: {taint: {key: a, value: VALUE, effect: EFFECT, timeAdded: '1970-01-01T00:00:05Z'}}}"
	with := func(value, effect string) (*registry.Kind, registry.Object) {
		return decodePreview(t, strings.NewReplacer("VALUE", value, "EFFECT", effect).Replace(text))
	}
	k, old := with("x", "None")
	for _, test := range []struct{ value, effect, want string }{{"y", "None", "00:00:05"}, {"x", "NoExecute", "00:16:40"}} {
		_, now := with(test.value, test.effect)
		k.PrepareUpdate(now, old)
		b, err := yaml.Marshal(now)
		if err != nil || !strings.Contains(string(b), "T"+test.want+"Z") || now.GetGeneration() != 2 {
			t.Errorf("%+v: %s %v", test, b, err)
		}
	}
}

// A group keeps what it was made with, and forgets what takes feature gates that are off.
func TestPodGroupsStay(t *testing.T) {
	t.Parallel()
	const text = "{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {name: a}, spec: {schedulingPolicy: {basic: {}}, priority: 1, disruptionMode: PodGroup}}"
	k, obj := decodePreview(t, text)
	k.PrepareCreate(obj)
	if b, err := yaml.Marshal(obj); err != nil || strings.Contains(string(b), "priority") || !strings.Contains(string(b), "disruptionMode: Pod\n") {
		t.Errorf("%s %v", b, err)
	}
	_, changed := decodePreview(t, strings.Replace(text, "basic: {}", "gang: {minCount: 1}", 1))
	k.PrepareUpdate(changed, obj)
	const want = "spec.schedulingPolicy: Invalid value: null: field is immutable\nspec.disruptionMode: Forbidden"
	if got := listed(k.ValidateUpdate(changed, obj)); got != want {
		t.Errorf("%s", got)
	}
}

// Fields of pods by feature gate, as they are and as they are with the gate on.
func TestGatedFieldsOfPods(t *testing.T) {
	t.Parallel()
	const spec = "{schedulingGroup: {podGroupName: g}, containers: [{name: c, image: i, lifecycle: {stopSignal: SIGHUP}}], volumes: [{name: v, projected: {sources: [{podCertificate: {signerName: a.b/c}}, {clusterTrustBundle: {name: b}}]}}]}"
	for text, gvk := range map[string]schema.GroupVersionKind{
		"{spec: " + spec + "}": {Version: "v1", Kind: "Pod"}, "{template: {spec: " + spec + "}}": {Version: "v1", Kind: "PodTemplate"},
		"{spec: {template: {spec: " + spec + "}}}":                        {Group: "apps", Version: "v1", Kind: "Deployment"},
		"{spec: {jobTemplate: {spec: {template: {spec: " + spec + "}}}}}": {Group: "batch", Version: "v1", Kind: "CronJob"},
	} {
		for _, on := range []bool{false, true} {
			for _, k := range kind.All(kind.Config{Features: map[string]bool{"GenericWorkload": on, "PodCertificateRequest": on, "ClusterTrustBundleProjection": on, "ContainerStopSignals": on}}) {
				if k.GVK != gvk {
					continue
				}
				obj := k.New()
				if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
					t.Fatal(err)
				}
				k.Default(obj)
				k.PrepareCreate(obj)
				b, err := yaml.Marshal(obj)
				if err != nil || strings.Contains(string(b), "schedulingGroup") != on || strings.Contains(string(b), "podCertificate") != on ||
					strings.Contains(string(b), "clusterTrustBundle") != on || strings.Contains(string(b), "lifecycle") != on {
					t.Errorf("%s, %v: %s %v", gvk.Kind, on, b, err)
				}
				// What was stored while the gates were on stays when they are off.
				old, next := k.New(), k.New()
				for _, o := range []registry.Object{old, next} {
					if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
						t.Fatal(err)
					}
				}
				k.PrepareUpdate(next, old)
				if b, err := yaml.Marshal(next); err != nil || !strings.Contains(string(b), "podCertificate") || !strings.Contains(string(b), "clusterTrustBundle") ||
					!strings.Contains(string(b), "stopSignal") || !strings.Contains(string(b), "schedulingGroup") {
					t.Errorf("%s, %v, of an old one: %s %v", gvk.Kind, on, b, err)
				}
			}
		}
	}
}

// A StatefulSet says how many of its pods may be unavailable where that gate is on: one, if it is not told.
func TestUnavailablePodsOfSets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{ // without and with the gate
		"{spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 3}}}}": {"", "3"},
		"{spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {}}}}":                  {"", "1"},
		"{spec: {}}": {"", "1"},
		"{spec: {updateStrategy: {type: OnDelete}}}": {"", ""},
	} {
		for i, on := range []bool{false, true} {
			for _, k := range kind.All(kind.Config{Features: map[string]bool{"MaxUnavailableStatefulSet": on}}) {
				s, is := k.New().(*appsv1.StatefulSet)
				if !is {
					continue
				}
				if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
					t.Fatal(err)
				}
				k.Default(s)
				k.PrepareCreate(s)
				got := ""
				if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil && r.MaxUnavailable != nil {
					got = r.MaxUnavailable.String()
				}
				if got != want[i] {
					t.Errorf("%s, %v: %q, want %q", text, on, got, want[i])
				}
				if old := s.DeepCopy(); on && got == "3" { // the gate is off afterwards
					for _, k := range kind.All(kind.Config{}) {
						if _, is := k.New().(*appsv1.StatefulSet); !is {
							continue
						}
						if k.PrepareUpdate(s, old); s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable == nil {
							t.Errorf("%s: it is lost", text)
						}
					}
				}
			}
		}
	}
}

// Names of candidates are those of keys, and as long.
func TestNamesOfCandidates(t *testing.T) {
	t.Parallel()
	k := previewOf(t, schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1beta1", Kind: "LeaseCandidate"})
	for name, good := range map[string]bool{"A_b.c": true, strings.Repeat("x", 253): true, strings.Repeat("x", 254): false, "a/b": false, "a b": false} {
		if got := len(k.NameIsValid(name, false)) == 0; got != good {
			t.Errorf("%.20s: %v", name, got)
		}
	}
}
