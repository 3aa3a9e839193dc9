package plugin

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/registry"
)

// everyKind knows all kinds.
type everyKind struct{}

func (everyKind) ResourceOf(schema.GroupVersionKind) (schema.GroupVersionResource, bool, bool) {
	return schema.GroupVersionResource{}, true, true
}

func initializerConfigurations(t *testing.T, texts ...string) world {
	t.Helper()
	var all []registry.Object
	for _, text := range texts {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
			t.Fatal(err)
		}
		all = append(all, obj)
	}
	return world{"initializerconfigurations": all}
}

func TestInitializers(t *testing.T) {
	t.Parallel()
	p := &Initializers{Kinds: everyKind{}, Authorizer: may{"ini initialize /pods/ p"}, Objects: initializerConfigurations(t,
		`{metadata: {name: late}, initializers: [{name: z.late.com, rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods]}]}]}`,
		`{metadata: {name: early}, initializers: [{name: z.early.com, rules: [{apiGroups: [apps], apiVersions: ["*"], resources: ["*"]}, {apiGroups: [""], apiVersions: ["*"], resources: [pods]}]},
			{name: a.early.com, rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}, {name: v2.early.com, rules: [{apiGroups: ["*"], apiVersions: [v2], resources: ["*"]}]}]}`)}
	const waits = `annotations: {howdah.dev/initializers: '{"pending":[{"name":"a.b.c"}]}'}`
	pod := func(meta string) string {
		return "{metadata: {name: p, " + meta + "}, spec: {containers: [{name: c, image: i}]}}"
	}
	change := func(who, from, to string) write {
		w := write{op: admission.Update, object: pod(to), old: pod(from)}
		w.user.Name = who
		return w
	}
	by := func(who, meta string) write { w := write{object: pod(meta)}; w.user.Name = who; return w }
	verdicts(t, p, map[string]verdict{
		"in order":      {write: by("x", ""), becomes: []string{`'{"pending":[{"name":"z.early.com"},{"name":"a.early.com"},{"name":"z.late.com"}]}'`}},
		"any rule":      {write: write{resource: "configmaps", object: "{metadata: {name: m}}"}, becomes: []string{`'{"pending":[{"name":"a.early.com"}]}'`}},
		"mirror":        {write: by("x", `annotations: {kubernetes.io/config.mirror: y}`), not: []string{"initializers"}},
		"own, denied":   {write: by("x", waits), refused: `pods "p" is forbidden: create with initializers denied`},
		"own":           {write: by("ini", waits), becomes: []string{"a.b.c"}, not: []string{"early"}},
		"bypass":        {write: by("ini", `annotations: {howdah.dev/initializers: '{"pending":[]}'}`), not: []string{"initializers"}},
		"touch, denied": {write: change("x", waits, waits), refused: `pods "p" is forbidden: update to uninitialized resource denied`},
		"end, denied":   {write: change("x", waits, ""), refused: "update to uninitialized resource denied"},
		"end":           {write: change("ini", waits, ""), not: []string{"initializers"}},
		"end, empty":    {write: change("ini", waits, `annotations: {howdah.dev/initializers: '{"pending":null}'}`), not: []string{"initializers"}},
		"again":         {write: change("ini", "", waits), refused: "field is immutable once initialization has completed"},
		"never":         {write: change("x", "", `annotations: {howdah.dev/initializers: '{"pending":[]}'}`), not: []string{"initializers"}},
		"subresource":   {write: write{op: admission.Update, subresource: "resize", object: pod(""), old: pod(waits)}, becomes: []string{"a.b.c"}},
	})
}

// A pod that waits gets from these plugins what a new one gets.
func TestPodsThatWaitBegin(t *testing.T) {
	t.Parallel()
	const waits = `{metadata: {name: p, annotations: {howdah.dev/initializers: '{"pending":[{"name":"a.b.c"}]}'}}, spec: {containers: [{name: c, image: i}]}}`
	change := write{op: admission.Update, object: waits, old: waits}
	limits := &LimitRanger{Objects: worldOf(t, map[string][]string{"limitranges": {"{metadata: {name: l, namespace: default}, spec: {limits: [{type: Container, default: {cpu: 300m}}]}}"}})}
	verdicts(t, limits, map[string]verdict{
		"waits": {write: change, becomes: []string{"cpu: 300m"}},
		"runs":  {write: write{op: admission.Update, object: plainPod, old: plainPod}, not: []string{"cpu: 300m"}},
	})
	nodes := &PodNodeSelector{Objects: worldOf(t, map[string][]string{"namespaces": {"{metadata: {name: default, annotations: {scheduler.alpha.kubernetes.io/node-selector: disk=fast}}}"}})}
	verdicts(t, nodes, map[string]verdict{"selected": {write: change, becomes: []string{"disk: fast"}}})
}
