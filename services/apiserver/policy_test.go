package apiserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

const guards = `"matchConstraints":{"resourceRules":[{"operations":["CREATE","UPDATE","DELETE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]}`

// changes is guards without deletions, which nothing can mutate.
var changes = strings.Replace(guards, `,"DELETE"`, "", 1)

// bind makes a policy and a binding and waits until they are in force; the function that it returns removes them.
func (f *fixture) bind(kind, spec, binding string) func() {
	f.t.Helper()
	policies, bindings := kind+"admissionpolicies", kind+"admissionpolicybindings"
	f.must(f.create(registration+policies, "", fmt.Sprintf(`{"metadata":{"name":"p.example.com"},"spec":{%s}}`, spec)))
	f.must(f.create(registration+bindings, "", fmt.Sprintf(`{"metadata":{"name":"b"},"spec":{"policyName":"p.example.com"%s}}`, binding)))
	f.fresh()
	return func() {
		f.t.Helper()
		for _, err := range []error{f.remove(registration+policies, "", "p.example.com"), f.remove(registration+bindings, "", "b")} {
			if err != nil {
				f.t.Fatal(err)
			}
		}
		f.fresh()
	}
}

func (f *fixture) scale(name string, replicas int) ([]byte, error) {
	resp, err := f.api.Update(f.ctx, &apiv1.UpdateRequest{Group: "apps", Version: "v1", Resource: "deployments", Namespace: "default", Name: name, Subresource: "scale",
		Object: fmt.Appendf(nil, `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":%q,"namespace":"default"},"spec":{"replicas":%d}}`, name, replicas)})
	return resp.GetObject(), apistatus.FromGRPC(err)
}

func TestValidatingPolicies(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	f.must(f.create(configMaps, "default", `{"metadata":{"name":"limits","labels":{"limits":"yes"}},"data":{"a":"c"}}`))
	f.must(f.create("v1/namespaces", "", `{"metadata":{"name":"marked","labels":{"mark":"yes"}}}`))
	const (
		deny   = `,"validationActions":["Deny"]`
		prefix = `configmaps "x" is forbidden: ValidatingAdmissionPolicy 'p.example.com' with binding 'b' denied request: `
		params = `,"paramKind":{"apiVersion":"v1","kind":"ConfigMap"}`
		byName = `,"paramRef":{"name":"limits","namespace":"default","parameterNotFoundAction":"Deny"}`
		absent = `,"paramRef":{"name":"none","namespace":"default","parameterNotFoundAction":`
		lists  = `[1,2,3,4,5,6,7,8,9,10]`
	)
	one := func(validation string) string { return `,"validations":[{` + validation + `}]` }
	for name, test := range map[string]struct {
		spec, binding string
		code          int32
		message       string // of the refusal; empty lets the write pass
	}{
		"holds":             {one(`"expression":"object.data.a == 'b'"`), deny, 0, ""},
		"does not hold":     {one(`"expression":"object.data.a == 'c'"`), deny, 422, prefix + "failed expression: object.data.a == 'c'"},
		"says why":          {one(`"expression":"false","message":" no "`), deny, 422, prefix + "no"},
		"says why by CEL":   {one(`"expression":"false","message":"no","messageExpression":"'not ' + object.data.a"`), deny, 422, prefix + "not b"},
		"fails to say why":  {one(`"expression":"false","message":"no","messageExpression":"string(object.none)"`), deny, 422, prefix + "no"},
		"two lines":         {one(`"expression":"false","message":"no","messageExpression":"'a\\nb'"`), deny, 422, prefix + "no"},
		"has a reason":      {one(`"expression":"false","message":"no","reason":"Forbidden"`), deny, 403, prefix + "no"},
		"too large":         {one(`"expression":"false","message":"no","reason":"RequestEntityTooLarge"`), deny, 413, prefix + "no"},
		"cannot be asked":   {one(`"expression":"object.none == 'c'"`), deny, 422, prefix + "expression 'object.none == 'c'' resulted in error: no such key: none"},
		"may fail":          {`,"failurePolicy":"Ignore"` + one(`"expression":"object.none == 'c'"`), deny, 0, ""},
		"only warns":        {one(`"expression":"false"`), `,"validationActions":["Warn","Audit"]`, 0, ""},
		"variables":         {`,"variables":[{"name":"a","expression":"object.data.a"},{"name":"b","expression":"variables.a + '!'"}]` + one(`"expression":"variables.b == 'c!'","messageExpression":"variables.b"`), deny, 422, prefix + "b!"},
		"unused variables":  {`,"variables":[{"name":"a","expression":"object.none"}]` + one(`"expression":"true"`), deny, 0, ""},
		"condition":         {`,"matchConditions":[{"name":"c","expression":"object.data.a == 'c'"}]` + one(`"expression":"false"`), deny, 0, ""},
		"condition met":     {`,"matchConditions":[{"name":"c","expression":"object.data.a == 'b'"}]` + one(`"expression":"false","message":"no"`), deny, 422, prefix + "no"},
		"condition fails":   {`,"matchConditions":[{"name":"c","expression":"object.none == 'b'"}]` + one(`"expression":"true"`), deny, 422, prefix + "expression 'object.none == 'b'' resulted in error: no such key: none"},
		"parameter":         {params + one(`"expression":"object.data.a == params.data.a","messageExpression":"'want ' + params.data.a"`), deny + byName, 422, prefix + "want c"},
		"parameters":        {params + one(`"expression":"params.metadata.name != 'limits'","message":"no"`), deny + `,"paramRef":{"selector":{"matchLabels":{"limits":"yes"}},"namespace":"default","parameterNotFoundAction":"Deny"}`, 422, prefix + "no"},
		"no parameter":      {params + one(`"expression":"true"`), deny + absent + `"Deny"}`, 422, prefix + "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"},
		"none is fine":      {params + one(`"expression":"false"`), deny + absent + `"Allow"}`, 0, ""},
		"unknown parameter": {`,"paramKind":{"apiVersion":"example.com/v1","kind":"Limit"}` + one(`"expression":"true"`), deny + byName, 422, "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'p.example.com' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'"},
		"unbound parameter": {params + one(`"expression":"params == null"`), deny, 0, ""},
		"elsewhere":         {one(`"expression":"false"`), deny + `,"matchResources":{"namespaceSelector":{"matchLabels":{"mark":"yes"}}}`, 0, ""},
		"another object":    {one(`"expression":"false"`), deny + `,"matchResources":{"objectSelector":{"matchLabels":{"who":"y"}}}`, 0, ""},
		"the namespace":     {one(`"expression":"namespaceObject.metadata.name == 'default' && namespaceObject.status.phase == 'Active'"`), deny, 0, ""},
		"the request":       {one(`"expression":"request.operation == 'CREATE' && request.userInfo.username == 'admin' && request.resource.resource == 'configmaps' && request.namespace == 'default' && !request.dryRun && oldObject == null"`), deny, 0, ""},
		"the authorizer":    {one(`"expression":"authorizer.path('/healthz').check('get').allowed() && authorizer.requestResource.check('create').allowed()"`), deny, 0, ""},
		"somebody else":     {one(`"expression":"authorizer.serviceAccount('default', 'nobody').group('').resource('secrets').namespace('default').check('get').allowed()","message":"no"`), deny, 422, prefix + "no"},
		"libraries":         {one(`"expression":"quantity('1Ki').isGreaterThan(quantity('1')) && '10.0.0.1' == string(ip('10.0.0.1')) && url('https://a/b').getEscapedPath() == '/b' && 'abc'.find('b') == 'b' && semver('1.2.3').major() == 1"`), deny, 0, ""},
		"too expensive": {one(`"expression":"` + lists + `.all(a, ` + lists + `.all(b, ` + lists + `.all(c, ` + lists + `.all(d, ` + lists + `.all(e, ` + lists + `.all(f, ` + lists + `.all(g, a + b + c + d + e + f + g > 0)))))))"`), deny, 422,
			prefix + "..."},
		"annotation fails": {one(`"expression":"true"`) + `,"auditAnnotations":[{"key":"k","valueExpression":"string(object.none)"}]`, deny, 422, prefix + "..."},
	} {
		remove := f.bind("validating", guards+test.spec, test.binding)
		_, err := f.create(configMaps, "default", guardedMap("x"))
		remove()
		got := apistatus.Of(err)
		if test.message == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if err := f.remove(configMaps, "default", "x"); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, open := strings.CutSuffix(test.message, "...")
		if err == nil || got.Code != test.code || !strings.HasPrefix(got.Message, want) || !open && got.Message != want {
			t.Errorf("%s: %d %v\nwant %d %s", name, got.Code, err, test.code, test.message)
		}
	}
}

func TestValidatingPolicyDetails(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	remove := f.bind("validating", guards+`,"validations":[{"expression":"false","message":"no"}]`, `,"validationActions":["Warn"]`)
	warnings, err := f.warnings(configMaps, "default", guardedMap("x"))
	if err != nil || len(warnings) != 1 || warnings[0] != "Validation failed for ValidatingAdmissionPolicy 'p.example.com' with binding 'b': no" {
		t.Errorf("%q, %v", warnings, err)
	}
	remove()
	// Of several denials the first is the message, and its reason the status; deletions have only an old object.
	remove = f.bind("validating", guards+`,"validations":[{"expression":"request.operation != 'DELETE' || oldObject.data.a != 'b' || object != null","message":"keep it","reason":"Forbidden"}]`, `,"validationActions":["Deny"]`)
	err = f.remove(configMaps, "default", "x")
	if got := apistatus.Of(err); err == nil || got.Code != http.StatusForbidden || got.Reason != metav1.StatusReasonForbidden ||
		len(got.Details.Causes) != 1 || !strings.HasSuffix(got.Message, "denied request: keep it") {
		t.Errorf("a deletion: %+v", got)
	}
	remove()
	// A policy cannot keep itself from being repaired, and without a binding it does nothing.
	f.must(f.create(registration+"validatingadmissionpolicies", "", `{"metadata":{"name":"all"},"spec":{"matchConstraints":{"resourceRules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]}]},"validations":[{"expression":"false"}]}}`))
	f.fresh()
	if err := f.remove(configMaps, "default", "x"); err != nil {
		t.Error(err)
	}
	f.must(f.create(registration+"validatingadmissionpolicybindings", "", `{"metadata":{"name":"all"},"spec":{"policyName":"all","validationActions":["Deny"]}}`))
	f.fresh()
	if _, err := f.create(configMaps, "default", guardedMap("x")); err == nil {
		t.Error("what the policy denies was created")
	}
	for _, resource := range []string{"validatingadmissionpolicybindings", "validatingadmissionpolicies"} {
		if err := f.remove(registration+resource, "", "all"); err != nil {
			t.Error(err)
		}
	}
}

// Policies see Scales as such, and objects in the version that they name.
func TestValidatingPolicyVersions(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	const scale = `"matchConstraints":{"resourceRules":[{"operations":["UPDATE"],"apiGroups":["apps"],"apiVersions":["v1"],"resources":["deployments/scale"]}]}`
	const deployments = `"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":["apps"],"apiVersions":["v1"],"resources":["deployments"]}]}`
	body := `{"metadata":{"name":"d"},"spec":{"replicas":5,"selector":{"matchLabels":{"app":"x"}},"template":` + podTemplate + `}}`
	remove := f.bind("validating", deployments+`,"validations":[{"expression":"object.apiVersion == 'apps/v1' && object.spec.replicas < 5","messageExpression":"request.requestKind.group + ' ' + request.kind.group"}]`, `,"validationActions":["Deny"]`)
	if _, err := f.create("extensions/v1beta1/deployments", "default", body); err == nil || !strings.HasSuffix(err.Error(), "denied request: extensions apps") {
		t.Errorf("an older version: %v", err)
	}
	remove()
	f.must(f.create("extensions/v1beta1/deployments", "default", body))
	defer f.bind("validating", scale+`,"validations":[{"expression":"object.kind == 'Scale' && object.spec.replicas <= oldObject.spec.replicas","message":"no more"}]`, `,"validationActions":["Deny"]`)()
	if _, err := f.scale("d", 6); err == nil || !strings.HasSuffix(err.Error(), "denied request: no more") {
		t.Errorf("scaled up: %v", err)
	}
	if _, err := f.scale("d", 4); err != nil {
		t.Errorf("scaled down: %v", err)
	}
}

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

func TestMutatingPolicies(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	const prefix = `policy 'p.example.com' with binding 'b' denied request: `
	jsonPatch := func(text string) string {
		return `{"patchType":"JSONPatch","jsonPatch":{"expression":` + quoted(text) + `}}`
	}
	apply := func(text string) string {
		return `{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":` + quoted(text) + `}}`
	}
	for name, test := range map[string]struct {
		spec, mutations string
		want            map[string]string // data
		message         string
	}{
		"adds":         {"", jsonPatch(`[JSONPatch{op: "add", path: "/data/c", value: "d"}]`), map[string]string{"a": "b", "c": "d"}, ""},
		"applies":      {"", apply(`Object{data: Object.data{c: object.data.a + "!"}}`), map[string]string{"a": "b", "c": "b!"}, ""},
		"both":         {"", apply(`Object{data: Object.data{c: "1"}}`) + "," + jsonPatch(`[JSONPatch{op: "add", path: "/data/d", value: object.data.c}]`), map[string]string{"a": "b", "c": "1", "d": "1"}, ""},
		"variables":    {`,"variables":[{"name":"v","expression":"object.data.a + 'z'"}]`, apply(`Object{data: Object.data{c: string(variables.v)}}`), map[string]string{"a": "b", "c": "bz"}, ""},
		"condition":    {`,"matchConditions":[{"name":"c","expression":"object.data.a == 'c'"}]`, apply(`Object{data: Object.data{c: "d"}}`), map[string]string{"a": "b"}, ""},
		"test fails":   {"", jsonPatch(`[JSONPatch{op: "test", path: "/data/a", value: "x"}, JSONPatch{op: "add", path: "/data/c", value: "d"}]`), map[string]string{"a": "b"}, ""},
		"bad path":     {"", jsonPatch(`[JSONPatch{op: "remove", path: "/none"}]`), nil, prefix + "JSON Patch: ..."},
		"bad value":    {"", apply(`Object{data: Object.data{c: object.none}}`), nil, prefix + "expression 'Object{data: Object.data{c: object.none}}' resulted in error: no such key: none"},
		"may fail":     {`,"failurePolicy":"Ignore"`, jsonPatch(`[JSONPatch{op: "remove", path: "/none"}]`), map[string]string{"a": "b"}, ""},
		"nothing new":  {"", apply(`Object{data: Object.data{a: "b"}}`), map[string]string{"a": "b"}, ""},
		"labels":       {"", apply(`Object{metadata: Object.metadata{labels: Object.metadata.labels{x: "y"}}}`), map[string]string{"a": "b"}, ""},
		"wrong fields": {"", apply(`Object{nothing: "b"}`), nil, prefix + "error applying patch: failed to convert patch object to typed object: .nothing: field not declared in schema"},
	} {
		remove := f.bind("mutating", changes+`,"reinvocationPolicy":"Never","mutations":[`+test.mutations+`]`+test.spec, "")
		body, err := f.create(configMaps, "default", guardedMap("x"))
		remove()
		if test.message != "" {
			want, open := strings.CutSuffix(test.message, "...")
			if got := apistatus.Of(err); err == nil || got.Code != http.StatusForbidden || !strings.HasPrefix(got.Message, want) || !open && got.Message != want {
				t.Errorf("%s: %d %v\nwant %s", name, got.Code, err, test.message)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		cm := &corev1.ConfigMap{}
		if err := json.Unmarshal(body, cm); err != nil || fmt.Sprint(cm.Data) != fmt.Sprint(test.want) || name == "labels" && cm.Labels["x"] != "y" {
			t.Errorf("%s: %s", name, body)
		}
		if err := f.remove(configMaps, "default", "x"); err != nil {
			t.Fatal(err)
		}
	}
}

// What is posted to a subresource is theirs to change, too, where fields of its kind are known, or without them by JSON Patch.
func TestMutatingPoliciesChangeWhatIsPosted(t *testing.T) {
	t.Parallel()
	f := startMemory(t, withTokens(t))
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	post := func(resource, name, subresource, body string) ([]byte, error) {
		resp, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: resource, Namespace: "default", Name: name, Subresource: subresource, Object: []byte(body)})
		return resp.GetObject(), apistatus.FromGRPC(err)
	}
	pods := 0
	binding := func() ([]byte, error) {
		pods++
		name := fmt.Sprintf("p%d", pods)
		f.must(f.create("v1/pods", "default", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"containers":[{"name":"c","image":"i"}]}}`, name)))
		b, err := post("pods", name, "binding", fmt.Sprintf(`{"apiVersion":"v1","kind":"Binding","metadata":{"name":%q},"target":{"kind":"Node","name":"n"}}`, name))
		if err != nil {
			return b, err
		}
		return f.get("v1/pods", "default", name)
	}
	token := func() ([]byte, error) {
		return post("serviceaccounts", "default", "token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}`)
	}
	eviction := func() ([]byte, error) {
		pods++
		name := fmt.Sprintf("p%d", pods)
		f.must(f.create("v1/pods", "default", fmt.Sprintf(`{"metadata":{"name":%q,"finalizers":["example.com/f"]},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}`, name)))
		b, err := post("pods", name, "eviction", fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q},"deleteOptions":{"gracePeriodSeconds":5}}`, name))
		if err != nil {
			return b, err
		}
		return f.get("v1/pods", "default", name)
	}
	for name, test := range map[string]struct {
		resource, patch, expression string
		do                          func() ([]byte, error)
		want                        string // in what is answered, or the error
		code                        int32
	}{
		"a binding's annotations": {"pods/binding", "ApplyConfiguration", `Object{metadata: Object.metadata{annotations: {"zone": "z1"}}}`, binding, `"annotations":{"zone":"z1"}`, 0},
		"a binding's labels":      {"pods/binding", "JSONPatch", `[JSONPatch{op: "add", path: "/metadata/labels", value: {"zone": "z1"}}]`, binding, `"labels":{"zone":"z1"}`, 0},
		"what a binding has not":  {"pods/binding", "JSONPatch", `[JSONPatch{op: "add", path: "/spec", value: {"a": "b"}}]`, binding, `Internal error occurred: strict decoding error: unknown field "spec"`, 500},
		"how an eviction goes":    {"pods/eviction", "JSONPatch", `[JSONPatch{op: "replace", path: "/deleteOptions/gracePeriodSeconds", value: 77}]`, eviction, `"deletionGracePeriodSeconds":77`, 0},
		"what an eviction names":  {"pods/eviction", "JSONPatch", `[JSONPatch{op: "replace", path: "/metadata/name", value: "other"}]`, eviction, `name in URL does not match name in Eviction object`, 400},
		"an eviction without known types": {"pods/eviction", "ApplyConfiguration", `Object{metadata: Object.metadata{labels: {"zone": "z1"}}}`, eviction,
			`policy 'p.example.com' with binding 'b' denied request: error applying patch: failed to convert patch object to typed object: no corresponding type for policy/v1, Kind=Eviction`, 403},
		"how long a token holds": {"serviceaccounts/token", "JSONPatch", `[JSONPatch{op: "replace", path: "/spec/expirationSeconds", value: 7200}]`, token, `"expirationSeconds":7200`, 0},
		"a token without known types": {"serviceaccounts/token", "ApplyConfiguration", `Object{spec: Object.spec{expirationSeconds: 7200}}`, token,
			`policy 'p.example.com' with binding 'b' denied request: error applying patch: failed to convert patch object to typed object: no corresponding type for authentication.k8s.io/v1, Kind=TokenRequest`, 403},
	} {
		field := map[string]string{"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}[test.patch]
		remove := f.bind("mutating", fmt.Sprintf(`"reinvocationPolicy":"Never","matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],`+
			`"apiVersions":["v1"],"resources":[%q]}]},"mutations":[{"patchType":%q,%q:{"expression":%s}}]`, test.resource, test.patch, field, quoted(test.expression)), "")
		body, err := test.do()
		remove()
		if test.code == 0 && (err != nil || !strings.Contains(string(body), test.want)) {
			t.Errorf("%s: %s %v\nwant %s", name, body, err, test.want)
		}
		if got := apistatus.Of(err); test.code != 0 && (err == nil || got.Code != test.code || got.Message != test.want) {
			t.Errorf("%s: %d %v\nwant %d %s", name, got.Code, err, test.code, test.want)
		}
	}
}

// A policy that wants to is asked again when a webhook has changed the object after it.
func TestMutatingPolicyReinvocation(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	defer f.configure("mutatingwebhookconfigurations", "a", h.hook("a", "/patch-first", ""))()
	mutation := `{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":` + quoted(`has(object.data.first) ? Object{data: Object.data{seen: string(object.data.first)}} : Object{}`) + `}}`
	for policy, want := range map[string]bool{"Never": false, "IfNeeded": true} {
		remove := f.bind("mutating", changes+`,"reinvocationPolicy":"`+policy+`","mutations":[`+mutation+`]`, "")
		body, err := f.create(configMaps, "default", guardedMap(strings.ToLower(policy)))
		if err != nil || strings.Contains(string(body), `"seen":"1"`) != want {
			t.Errorf("%s: %s %v", policy, body, err)
		}
		remove()
	}
}

// Sidecars: lists are merged by their keys, and what is added is defaulted.
func TestMutatingPolicySidecar(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	const pods = `"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]}`
	defer f.bind("mutating", pods+`,"reinvocationPolicy":"IfNeeded","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":`+
		quoted(`Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: "proxy", image: "proxy:1", restartPolicy: "Always"}]}}`)+`}}]`, "")()
	body, err := f.create("v1/pods", "default", `{"metadata":{"name":"p"},"spec":{"initContainers":[{"name":"i","image":"i:1"}],"containers":[{"name":"c","image":"nginx:1"}]}}`)
	pod := &corev1.Pod{}
	if err != nil || json.Unmarshal(body, pod) != nil || len(pod.Spec.InitContainers) != 2 || pod.Spec.InitContainers[1].Name != "proxy" ||
		pod.Spec.InitContainers[1].TerminationMessagePath == "" || len(pod.Spec.Containers) != 1 {
		t.Errorf("%s %v", body, err)
	}
}

func TestPoliciesUnderConcurrency(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	defer f.bind("validating", guards+`,"variables":[{"name":"n","expression":"int(object.data.n)"}],"validations":[{"expression":"variables.n % 2 == 0","messageExpression":"string(variables.n) + ' is odd'"}]`, `,"validationActions":["Deny"]`)()
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			_, err := f.create(configMaps, "default", fmt.Sprintf(`{"metadata":{"name":"x%d"},"data":{"n":"%d"}}`, i, i))
			if i%2 == 0 && err != nil || i%2 == 1 && (!apierrors.IsInvalid(err) || !strings.HasSuffix(err.Error(), fmt.Sprintf(": %d is odd", i))) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

// What a job takes over from its template, as it is stored, was not there when it was judged.
func TestPoliciesSeeJobsAsTheyWereMade(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	f.bind("validating", `"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":["batch"],"apiVersions":["v1"],"resources":["jobs"]}]},
		"validations":[{"expression":"!has(object.metadata.labels) && 'batch.kubernetes.io/job-name' in object.spec.template.metadata.labels"}]`, `,"validationActions":["Deny"]`)
	job := f.object(f.create("batch/v1/jobs", "default", `{"metadata":{"name":"j"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`))
	if labels := job.GetLabels(); labels["job-name"] != "j" || len(labels) != 4 {
		t.Errorf("%v", labels)
	}
	if stored := f.object(f.get("batch/v1/jobs", "default", "j")); len(stored.GetLabels()) != 4 {
		t.Errorf("%v", stored.GetLabels())
	}
	const labelled = `{"metadata":{"name":"k"},"spec":{"template":{"metadata":{"labels":{"a":"b"}},"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`
	if _, err := f.create("batch/v1/jobs", "default", labelled); err == nil {
		t.Error("labels of the template are not the job's when it is judged")
	}
}

// What is validated of requests that are not plain writes: claims without a status, and evictions as their query wants them.
func TestPoliciesSeeWhatKubernetesShows(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`))
	f.bind("validating", `"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["persistentvolumeclaims","pods/eviction"]}]},
		"validations":[{"expression":"request.resource.resource != 'persistentvolumeclaims' || !has(object.status.phase)","message":"a status"},
			{"expression":"request.subResource != 'eviction' || !request.dryRun","message":"a dry run"}]`, `,"validationActions":["Deny"]`)
	claim := f.object(f.create("v1/persistentvolumeclaims", "default", `{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`))
	if phase := field(claim, "status", "phase"); phase != "Pending" {
		t.Errorf("%v", claim.Object)
	}
	evict := func(query ...string) error {
		_, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "p", Subresource: "eviction", DryRun: query,
			Object: []byte(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"},"deleteOptions":{"dryRun":["All"]}}`)})
		return apistatus.FromGRPC(err)
	}
	if err := evict(); err != nil {
		t.Errorf("a dry run that the body asks for: %v", err)
	}
	if err := evict("All"); err == nil || !strings.HasSuffix(err.Error(), "a dry run") {
		t.Errorf("one that the query asks for: %v", err)
	}
	if _, err := f.get("v1/pods", "default", "p"); err != nil {
		t.Errorf("the pod: %v", err)
	}
}
