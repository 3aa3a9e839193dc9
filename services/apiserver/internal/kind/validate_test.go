package kind_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/registry"
)

func parse(t *testing.T, text string) (*registry.Kind, registry.Object) {
	t.Helper()
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(text), &meta); err != nil {
		t.Fatal(err)
	}
	res := table(t).FindKind(schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind))
	if res == nil {
		t.Fatalf("%s %s is not served", meta.APIVersion, meta.Kind)
	}
	obj := res.New()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	res.Default(obj)
	return res.Kind, obj
}

func expect(t *testing.T, errs field.ErrorList, want ...string) {
	t.Helper()
	var got []string
	for _, e := range errs {
		got = append(got, e.Error())
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	const (
		configMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, "
		secret    = "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: default}, "
		lease     = "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a, namespace: default}, spec: "
		endpoints = "{apiVersion: v1, kind: Endpoints, metadata: {name: a, namespace: default}, subsets: "
		slice     = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a, namespace: default}, "
		node      = "{apiVersion: v1, kind: Node, metadata: {name: a}, "
		event     = "{apiVersion: v1, kind: Event, metadata: {name: a, namespace: default}, "
		class     = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: "
		key       = `a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`
	)
	for name, c := range map[string]struct {
		object string
		want   []string
	}{
		"config map":          {configMap + "data: {a.b: c}}", nil},
		"config map key":      {configMap + "data: {'a b': c}}", []string{`data[a b]: Invalid value: "a b": ` + key}},
		"config map both":     {configMap + "data: {a: c}, binaryData: {a: YQ==}}", []string{`data[a]: Invalid value: "a": duplicate of key present in binaryData`}},
		"secret opaque":       {secret + "stringData: {a: b}}", nil},
		"secret tls":          {secret + "type: kubernetes.io/tls, data: {tls.crt: YQ==}}", []string{"data[tls.key]: Required value"}},
		"secret docker":       {secret + "type: kubernetes.io/dockerconfigjson}", []string{"data[.dockerconfigjson]: Required value"}},
		"secret docker text":  {secret + "type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: nope}}", []string{`data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": invalid character 'o' in literal null (expecting 'u')`}},
		"secret basic":        {secret + "type: kubernetes.io/basic-auth}", []string{"data[username]: Required value", "data[password]: Required value"}},
		"secret ssh":          {secret + "type: kubernetes.io/ssh-auth}", []string{"data[ssh-privatekey]: Required value"}},
		"secret token":        {secret + "type: kubernetes.io/service-account-token}", []string{"metadata.annotations[kubernetes.io/service-account.name]: Required value"}},
		"lease":               {lease + "{leaseDurationSeconds: 0, leaseTransitions: -1}}", []string{"spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0", "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"}},
		"endpoints":           {endpoints + "[{ports: [{port: 80}]}]}", []string{"subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"}},
		"endpoints address":   {endpoints + "[{addresses: [{ip: 127.0.0.1}], ports: [{port: 80}, {port: 81, name: b}]}]}", []string{`subsets[0].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`, "subsets[0].ports[0].name: Required value"}},
		"slice without type":  {slice + "endpoints: []}", []string{"addressType: Required value"}},
		"slice type":          {slice + "addressType: IPX, endpoints: []}", []string{`addressType: Unsupported value: "IPX": supported values: "FQDN", "IPv4", "IPv6"`}},
		"slice address":       {slice + "addressType: IPv4, endpoints: [{addresses: []}, {addresses: [fd00::1]}]}", []string{"endpoints[0].addresses: Required value: must contain at least 1 address", `endpoints[1].addresses: Invalid value: "fd00::1": must be an IPv4 address`}},
		"slice ports":         {slice + "addressType: IPv4, endpoints: [], ports: [{name: a, port: 1}, {name: a, port: 2, protocol: X}]}", []string{`ports[1].name: Duplicate value: "a"`, `ports[1].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"`}},
		"node taints":         {node + "spec: {taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule}, {key: b, effect: Never}]}}", []string{`metadata.taints[1]: Duplicate value: {"key":"a","effect":"NoSchedule"}: taints must be unique by key and effect pair`, `metadata.taints[2].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`}},
		"node cidrs":          {node + "spec: {podCIDRs: [10.0.0.0/24, 10.0.1.0/24]}}", []string{`spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one CIDR for each IP family`}},
		"node capacity":       {node + "status: {capacity: {cpu: -1}, allocatable: {}}}", []string{`status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0`, `status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0`}},
		"event elsewhere":     {event + "involvedObject: {kind: Pod, namespace: other}}", []string{`involvedObject.namespace: Invalid value: "other": does not match event.namespace`}},
		"event of a node":     {event + "involvedObject: {kind: Node, name: n}}", nil},
		"event of the newer":  {event + "involvedObject: {namespace: default}, eventTime: '2026-01-02T03:04:05.000000Z', reason: r, action: a}", []string{`reportingComponent: Required value`, `reportingComponent: Invalid value: "": name part must be non-empty`, `reportingComponent: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`, `reportingInstance: Required value`}},
		"priority":            {class + "{name: a}, value: 2000000000}", []string{"value: Forbidden: maximum allowed value of a user defined priority is 1000000000"}},
		"priority of systems": {class + "{name: system-node-critical}, value: 2000001000}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, obj := parse(t, c.object)
			expect(t, problems(k, obj), c.want...)
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	t.Parallel()
	const (
		configMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, "
		secret    = "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: default}, "
		slice     = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a, namespace: default}, endpoints: [], "
		node      = "{apiVersion: v1, kind: Node, metadata: {name: a}, spec: "
		immutable = "field is immutable when `immutable` is set"
	)
	for name, c := range map[string]struct {
		old, now string
		want     []string
	}{
		"config map":       {configMap + "data: {a: b}}", configMap + "data: {a: c}}", nil},
		"made immutable":   {configMap + "data: {a: b}}", configMap + "immutable: true, data: {a: c}}", nil},
		"immutable":        {configMap + "immutable: true, data: {a: b}}", configMap + "data: {a: c}}", []string{"immutable: Forbidden: " + immutable, "data: Forbidden: " + immutable}},
		"immutable secret": {secret + "immutable: true, stringData: {a: b}}", secret + "immutable: true, stringData: {a: c}}", []string{"data: Forbidden: " + immutable}},
		"secret type":      {secret + "type: a}", secret + "type: b}", []string{`type: Invalid value: "b": field is immutable`}},
		"address type":     {slice + "addressType: IPv4}", slice + "addressType: IPv6}", []string{`addressType: Invalid value: "IPv6": field is immutable`}},
		"node taint":       {node + "{}}", node + "{unschedulable: true, taints: [{key: a, effect: NoSchedule}]}}", nil},
		"node cidr":        {node + "{}}", node + "{podCIDR: 10.0.0.0/24}}", nil},
		"other node cidr":  {node + "{podCIDR: 10.0.0.0/24}}", node + "{podCIDR: 10.0.1.0/24}}", []string{`spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid`}},
		"provider":         {node + "{providerID: a}}", node + "{providerID: b}}", []string{`spec.providerID: Forbidden: node updates may not change providerID except from "" to valid`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, old := parse(t, c.old)
			_, obj := parse(t, c.now)
			expect(t, k.ValidateUpdate(obj, old), c.want...)
		})
	}
}

func TestSecretKeepsItsType(t *testing.T) {
	t.Parallel()
	k, old := parse(t, "{apiVersion: v1, kind: Secret, metadata: {name: a}, type: my/type}")
	obj := k.New()
	k.PrepareUpdate(obj, old)
	expect(t, k.ValidateUpdate(obj, old))
}

func TestNamespaceLife(t *testing.T) {
	t.Parallel()
	k, obj := parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: team}}")
	k.PrepareCreate(obj)
	if !k.Holds(obj) {
		t.Error("a new namespace has nothing that holds it")
	}
	old := obj.DeepCopyObject().(registry.Object)
	k.BeginDelete(obj)
	now := metav1.Now()
	obj.SetDeletionTimestamp(&now)
	if got := k.Cells(obj)[1]; got != "Terminating" {
		t.Errorf("status %v", got)
	}
	expect(t, k.Status.ValidateUpdate(obj, old))
	// The main resource cannot take the finalizer away, "finalize" can.
	_, bare := parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: team}}")
	k.PrepareUpdate(bare, obj)
	if !k.Holds(bare) {
		t.Error("a PUT removed the finalizer")
	}
	_, bare = parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: team}}")
	k.Writes["finalize"].PrepareUpdate(bare, obj)
	if k.Holds(bare) {
		t.Error("finalize left the finalizer")
	}
	if got := k.Cells(bare)[1]; got != "Terminating" {
		t.Errorf("finalize changed the status to %v", got)
	}
}

// validation is an object and the texts of what is wrong with it.
type validation struct {
	object string
	want   []string
}

// problems are those of a new object.
func problems(k *registry.Kind, obj registry.Object) field.ErrorList {
	var errs field.ErrorList
	if k.Validate != nil {
		errs = k.Validate(obj)
	}
	if k.ValidateCreate != nil {
		errs = append(errs, k.ValidateCreate(obj)...)
	}
	return errs
}

func validates(t *testing.T, cases map[string]validation) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, obj := parse(t, c.object)
			expect(t, problems(k, obj), c.want...)
		})
	}
}

// change is an object before and after a write, and the texts of what is wrong with that.
type change struct {
	old, now string
	want     []string
}

func validatesUpdates(t *testing.T, cases map[string]change) {
	t.Helper()
	for name, c := range cases {
		t.Run("update "+name, func(t *testing.T) {
			t.Parallel()
			k, old := parse(t, c.old)
			_, obj := parse(t, c.now)
			if k.PrepareUpdate != nil {
				k.PrepareUpdate(obj, old)
			}
			expect(t, k.ValidateUpdate(obj, old), c.want...)
		})
	}
}
