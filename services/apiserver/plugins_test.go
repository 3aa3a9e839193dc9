package apiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/admission/plugin"
	"howdah.dev/services/apiserver/internal/memstore"
)

// pluginCase is what an admission plugin does and nothing else does in its place.
type pluginCase struct {
	// with and without are other plugins to switch on and off, config the plugin's own configuration.
	with, without []string
	config        string
	// before makes what the plugin acts by, whether it runs or not; each is a resource, a namespace and an object.
	before [][3]string
	// resource, namespace and object are what is created; try does something else.
	resource, namespace, object string
	try                         func(f *fixture) (string, error)
	// acts is in the answer, the error's text too, where the plugin runs; not where it does not.
	acts string
	// roles says that it goes by who may do what; the others need not wait for the roles that every cluster has.
	roles bool
	// absent is in the answer where the plugin does not run; empty: the request succeeds.
	absent string
}

const (
	aPod      = `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i:1"}]}}`
	aMap      = `{"metadata":{"name":"m"}}`
	nowhere   = `"clientConfig":{"url":"https://127.0.0.1:1/x"},"sideEffects":"None","admissionReviewVersions":["v1"],"failurePolicy":"Fail","timeoutSeconds":1`
	mapsMade  = `"rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]`
	mapsMatch = `"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]}`
	privilege = `{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i","securityContext":{"privileged":true}}]}}`
	registers = "admissionregistration.k8s.io/v1/"
)

func podWith(meta, spec string) string {
	return `{"metadata":{"name":"p"` + meta + `},"spec":{"containers":[{"name":"c","image":"i:1"}]` + spec + `}}`
}

// intoPod asks for a shell in the pod p.
func intoPod(f *fixture) (string, error) {
	stream, err := f.api.Connect(f.ctx)
	if err == nil {
		err = stream.Send(&apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Open{Open: &apiv1.ConnectOpen{
			Version: "v1", Resource: "pods", Namespace: "default", Name: "p", Subresource: "exec", Method: "POST", Query: "command=sh",
		}}})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	return "", apistatus.FromGRPC(err)
}

// as creates for another user.
func as(user rpc.User, resource, namespace, object string) func(*fixture) (string, error) {
	return func(f *fixture) (string, error) {
		g, v, r := split(resource)
		resp, err := apiv1.NewObjectServiceClient(f.dial(user)).Create(f.ctx, &apiv1.CreateRequest{
			Group: g, Version: v, Resource: r, Namespace: namespace, Object: []byte(object), ContentType: "application/json",
		})
		return string(resp.GetObject()), apistatus.FromGRPC(err)
	}
}

// growing makes a bound claim and asks for more of it.
func growing(f *fixture) (string, error) {
	const claim = `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"v"},"spec":{"volumeName":"x","storageClassName":"fixed","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"SIZE"}}},"status":{"phase":"Bound"}}`
	sized := func(size string) []byte { return []byte(strings.Replace(claim, "SIZE", size, 1)) }
	f.must(f.create("v1/persistentvolumeclaims", "default", string(sized("1Gi"))))
	for _, step := range []struct{ subresource, size string }{{"status", "1Gi"}, {"", "2Gi"}} {
		_, err := f.api.Update(f.ctx, &apiv1.UpdateRequest{Version: "v1", Resource: "persistentvolumeclaims", Namespace: "default", Name: "v", Subresource: step.subresource, Object: sized(step.size)})
		if err != nil {
			return "", apistatus.FromGRPC(err)
		}
	}
	return "", nil
}

// pluginCases are the plugins of Kubernetes and of its past. Those of the table that are not here are seen elsewhere, or do nothing to see.
var pluginCases = map[string]pluginCase{
	"AlwaysPullImages":         {resource: "v1/pods", object: aPod, acts: `"imagePullPolicy":"Always"`},
	"DefaultIngressClass":      {before: [][3]string{{"networking.k8s.io/v1/ingressclasses", "", `{"metadata":{"name":"d","annotations":{"ingressclass.kubernetes.io/is-default-class":"true"}},"spec":{"controller":"a.b/c"}}`}}, resource: "networking.k8s.io/v1/ingresses", object: `{"metadata":{"name":"i"},"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}}}}`, acts: `"ingressClassName":"d"`},
	"DefaultStorageClass":      {before: [][3]string{{"storage.k8s.io/v1/storageclasses", "", `{"metadata":{"name":"d","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"a.b/c"}`}}, resource: "v1/persistentvolumeclaims", object: `{"metadata":{"name":"v"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`, acts: `"storageClassName":"d"`},
	"DefaultTolerationSeconds": {resource: "v1/pods", object: aPod, acts: `"tolerationSeconds":300`},
	"DenyEscalatingExec":       {before: [][3]string{{"v1/pods", "default", privilege}}, try: intoPod, acts: "cannot exec into or attach to a privileged container", absent: `"n" not found`},
	"DenyExecOnPrivileged":     {before: [][3]string{{"v1/pods", "default", privilege}}, try: intoPod, acts: "cannot exec into or attach to a privileged container", absent: `"n" not found`},
	"DenyServiceExternalIPs":   {resource: "v1/services", object: `{"metadata":{"name":"s"},"spec":{"ports":[{"port":80}],"externalIPs":["1.2.3.4"]}}`, acts: "Use of external IPs is denied by admission control"},
	"EventRateLimit": {config: `{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: Namespace, qps: 1, burst: 1}]}`,
		try: func(f *fixture) (string, error) {
			const event = `{"metadata":{"generateName":"e"},"involvedObject":{"namespace":"default","name":"p"}}`
			for range 5 {
				if _, err := f.create("v1/events", "default", event); err != nil {
					return "", err
				}
			}
			return "", nil
		}, acts: "limit reached on type Namespace"},
	"ExtendedResourceToleration":       {resource: "v1/pods", object: `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"example.com/gpu":"1"},"limits":{"example.com/gpu":"1"}}}]}}`, acts: `"key":"example.com/gpu"`},
	"ImagePolicyWebhook":               {config: `{imagePolicy: {kubeConfigFile: DIR/kubeconfig, defaultAllow: false}}`, resource: "v1/pods", object: aPod, acts: "is forbidden"},
	"Initializers":                     {resource: "v1/pods", try: as(rpc.User{Name: "system:admin", Groups: []string{"system:masters"}}, "v1/pods", "default", `{"metadata":{"name":"p","initializers":{"pending":[{"name":"bad"}]}},"spec":{"containers":[{"name":"c","image":"i:1"}]}}`), acts: "should be a domain with at least three segments"},
	"LimitPodHardAntiAffinityTopology": {resource: "v1/pods", object: podWith("", `,"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone","labelSelector":{}}]}}`), acts: "has TopologyKey zone but only key kubernetes.io/hostname is allowed"},
	"LimitRanger":                      {before: [][3]string{{"v1/limitranges", "default", `{"metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","max":{"cpu":"1"}}]}}`}}, resource: "v1/pods", object: `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"2"}}}]}}`, acts: "maximum cpu usage per Container is 1, but limit is 2"},
	"MutatingAdmissionPolicy": {before: [][3]string{
		{registers + "mutatingadmissionpolicies", "", `{"metadata":{"name":"p.example.com"},"spec":{"reinvocationPolicy":"Never",` + mapsMatch + `,"mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{metadata: Object.metadata{labels: {'was':'here'}}}"}}]}}`},
		{registers + "mutatingadmissionpolicybindings", "", `{"metadata":{"name":"b"},"spec":{"policyName":"p.example.com"}}`},
	}, resource: "v1/configmaps", object: aMap, acts: `"was":"here"`},
	"MutatingAdmissionWebhook":     {before: [][3]string{{registers + "mutatingwebhookconfigurations", "", `{"metadata":{"name":"w"},"webhooks":[{"name":"w.example.com",` + nowhere + `,` + mapsMade + `}]}`}}, resource: "v1/configmaps", object: aMap, acts: `failed calling webhook "w.example.com"`},
	"NamespaceAutoProvision":       {resource: "v1/configmaps", namespace: "fresh", object: aMap, acts: `"name":"m"`, absent: `namespaces "fresh" not found`},
	"NamespaceExists":              {without: []string{"NamespaceLifecycle"}, resource: "v1/configmaps", namespace: "fresh", object: aMap, acts: `namespaces "fresh" not found`},
	"NamespaceLifecycle":           {resource: "v1/configmaps", namespace: "fresh", object: aMap, acts: `namespaces "fresh" not found`},
	"NodeRestriction":              {try: as(rpc.User{Name: "system:node:a", Groups: []string{"system:nodes"}}, "v1/nodes", "", `{"metadata":{"name":"b"}}`), acts: `node "a" is not allowed to modify node "b"`},
	"PersistentVolumeClaimResize":  {before: [][3]string{{"storage.k8s.io/v1/storageclasses", "", `{"metadata":{"name":"fixed"},"provisioner":"a.b/c"}`}}, try: growing, acts: "only dynamically provisioned pvc can be resized"},
	"PersistentVolumeLabel":        {config: `{apiVersion: persistentvolumelabel.admission.howdah.dev/v1alpha1, kind: Configuration, volumes: [{source: cinder, id: "*", zone: z1}]}`, resource: "v1/persistentvolumes", object: `{"metadata":{"name":"v"},"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"cinder":{"volumeID":"x"}}}`, acts: `"topology.kubernetes.io/zone":"z1"`},
	"PodNodeSelector":              {before: [][3]string{{"v1/namespaces", "", `{"metadata":{"name":"n","annotations":{"scheduler.alpha.kubernetes.io/node-selector":"disk=fast"}}}`}}, resource: "v1/pods", namespace: "n", object: aPod, acts: `"disk":"fast"`},
	"PodSecurity":                  {before: [][3]string{{"v1/namespaces", "", `{"metadata":{"name":"n","labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`}}, resource: "v1/pods", namespace: "n", object: privilege, acts: `violates PodSecurity "baseline:latest": privileged`},
	"PodSecurityPolicy":            {resource: "v1/pods", object: aPod, acts: "no providers available"},
	"PodTolerationRestriction":     {before: [][3]string{{"v1/namespaces", "", `{"metadata":{"name":"n","annotations":{"scheduler.alpha.kubernetes.io/defaultTolerations":"[{\"key\":\"ours\",\"operator\":\"Exists\"}]"}}}`}}, resource: "v1/pods", namespace: "n", object: aPod, acts: `"key":"ours"`},
	"Priority":                     {before: [][3]string{{"scheduling.k8s.io/v1/priorityclasses", "", `{"metadata":{"name":"high"},"value":77}`}}, resource: "v1/pods", object: podWith("", `,"priorityClassName":"high"`), acts: `"priority":77`},
	"RuntimeClass":                 {before: [][3]string{{"node.k8s.io/v1/runtimeclasses", "", `{"metadata":{"name":"r"},"handler":"h","overhead":{"podFixed":{"cpu":"77m"}}}`}}, resource: "v1/pods", object: podWith("", `,"runtimeClassName":"r"`), acts: `"overhead":{"cpu":"77m"}`},
	"SecurityContextDeny":          {resource: "v1/pods", object: podWith("", `,"securityContext":{"runAsUser":7}`), acts: "pod.Spec.SecurityContext.RunAsUser is forbidden"},
	"ServiceAccount":               {before: [][3]string{{"v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`}}, resource: "v1/pods", object: aPod, acts: `"serviceAccountName":"default"`},
	"StorageObjectInUseProtection": {resource: "v1/persistentvolumeclaims", object: `{"metadata":{"name":"v"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`, acts: "kubernetes.io/pvc-protection"},
	"TaintNodesByCondition":        {resource: "v1/nodes", object: `{"metadata":{"name":"n"}}`, acts: `"key":"node.kubernetes.io/not-ready"`},
	"ValidatingAdmissionPolicy": {before: [][3]string{
		{registers + "validatingadmissionpolicies", "", `{"metadata":{"name":"p.example.com"},"spec":{` + mapsMatch + `,"validations":[{"expression":"false","message":"never"}]}}`},
		{registers + "validatingadmissionpolicybindings", "", `{"metadata":{"name":"b"},"spec":{"policyName":"p.example.com","validationActions":["Deny"]}}`},
	}, resource: "v1/configmaps", object: aMap, acts: "ValidatingAdmissionPolicy 'p.example.com' with binding 'b' denied request: never"},
	"ValidatingAdmissionWebhook": {before: [][3]string{{registers + "validatingwebhookconfigurations", "", `{"metadata":{"name":"w"},"webhooks":[{"name":"w.example.com",` + nowhere + `,` + mapsMade + `}]}`}}, resource: "v1/configmaps", object: aMap, acts: `failed calling webhook "w.example.com"`},
	"OwnerReferencesPermissionEnforcement": {roles: true, before: [][3]string{
		{"rbac.authorization.k8s.io/v1/roles", "default", `{"metadata":{"name":"maker"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["create"]}]}`},
		{"rbac.authorization.k8s.io/v1/rolebindings", "default", `{"metadata":{"name":"maker"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"maker"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"maker"}]}`},
	}, try: as(rpc.User{Name: "maker"}, "v1/configmaps", "default", `{"metadata":{"name":"m","ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"d","uid":"1","blockOwnerDeletion":true}]}}`), acts: "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"},
	"ResourceQuota": {try: func(f *fixture) (string, error) {
		setQuota(f, "default", "q", map[string]string{"configmaps": "0"})
		_, err := f.create("v1/configmaps", "default", aMap)
		return "", err
	}, acts: "exceeded quota: q, requested: configmaps=1, used: configmaps=0, limited: configmaps=0"},
}

// run makes the case's objects and its request, and compares the answer.
func (c pluginCase) run(t *testing.T, name string, on bool) {
	f := startMemory(t, c.settings(t, name, on))
	for _, b := range c.before {
		f.must(f.create(b[0], b[1], b[2]))
	}
	f.fresh()
	try := c.try
	if try == nil {
		g, v, r := split(c.resource)
		namespace := c.namespace
		if found := f.server.known.Table.Find(schema.GroupVersionResource{Group: g, Version: v, Resource: r}); namespace == "" && found != nil && found.Kind.Namespaced {
			namespace = "default"
		}
		try = func(f *fixture) (string, error) {
			body, err := f.create(c.resource, namespace, c.object)
			return string(body), err
		}
	}
	answer, err := try(f)
	if err != nil {
		answer = err.Error()
	}
	switch acts := strings.Contains(answer, c.acts); {
	case acts != on:
		t.Errorf("switched on: %v, answers %s", on, answer)
	case !on && c.absent == "" && err != nil, !on && !strings.Contains(answer, c.absent):
		t.Errorf("switched off it answers %s", answer)
	}
}

// settings switch the plugin, and what is in its way.
func (c pluginCase) settings(t *testing.T, name string, on bool) func(*Config) {
	return func(cfg *Config) {
		cfg.EnabledAdmission, cfg.DisabledAdmission = slices.Clone(c.with), slices.Clone(c.without)
		if !c.roles {
			cfg.AuthorizationModes = []string{"AlwaysAllow"}
		}
		if name != "ServiceAccount" {
			cfg.DisabledAdmission = append(cfg.DisabledAdmission, "ServiceAccount")
		}
		if on {
			cfg.EnabledAdmission = append(cfg.EnabledAdmission, name)
		} else {
			cfg.DisabledAdmission = append(cfg.DisabledAdmission, name)
		}
		if c.config == "" {
			return
		}
		dir := t.TempDir()
		config := strings.ReplaceAll(c.config, "DIR", dir)
		file := filepath.Join(dir, "admission.yaml")
		text := fmt.Sprintf("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: %s\n  configuration: %s\n", name, config)
		kubeconfig := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n"
		for path, content := range map[string]string{file: text, filepath.Join(dir, "kubeconfig"): kubeconfig} {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg.AdmissionConfig = file
	}
}

// TestPluginsBySwitch runs API servers with each plugin on, and with it off: it acts in the first, and not in the second.
func TestPluginsBySwitch(t *testing.T) {
	t.Parallel()
	for name, c := range pluginCases {
		for _, on := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s=%v", name, on), func(t *testing.T) { c.run(t, name, on) })
		}
	}
}

// TestPluginsHaveCases names the plugins of the table that have no case here, and why.
func TestPluginsHaveCases(t *testing.T) {
	t.Parallel()
	elsewhere := []string{
		"AlwaysAdmit",                                                                                            // does nothing
		"AlwaysDeny",                                                                                             // TestAlwaysDeny
		"PodPreset",                                                                                              // TestAdmissionBySettings
		"CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "ClusterTrustBundleAttest", // by their own tests
		"PodTopologyLabels", "PodGroupProtection", "PodGroupWorkloadExists", "NodeDeclaredFeatureValidator", "JobValidation", "PodResizeValidator",
	}
	for _, row := range plugin.Table() {
		if _, has := pluginCases[row.Name]; has == slices.Contains(elsewhere, row.Name) {
			t.Errorf("%s: has a case here: %v", row.Name, has)
		}
	}
}

// TestRefusalsLeaveNothing has the last plugin refuse what the others have counted and reserved.
func TestRefusalsLeaveNothing(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	remove := f.bind("validating", `"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["services"]}]},"validations":[{"expression":"false","message":"never"}]`, `,"validationActions":["Deny"]`)
	setQuota(f, "default", "q", map[string]string{"services": "1", "services.nodeports": "1"})
	const service = `{"metadata":{"name":"s"},"spec":{"type":"NodePort","clusterIP":"10.96.7.7","ports":[{"port":80,"nodePort":30777}]}}`
	for range 3 {
		if _, err := f.create("v1/services", "default", service); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "never") {
			t.Fatalf("got %v", err)
		}
	}
	if got := used(f, "default", "q", "services") + used(f, "default", "q", "services.nodeports"); got != "00" {
		t.Errorf("the quota has used %s", got)
	}
	if _, err := f.get("networking.k8s.io/v1/ipaddresses", "", "10.96.7.7"); !apierrors.IsNotFound(err) {
		t.Errorf("the address is held: %v", err)
	}
	remove()
	deadline := time.Now().Add(time.Minute)
	_, err := f.create("v1/services", "default", service)
	for ; err != nil && strings.Contains(err.Error(), "never") && time.Now().Before(deadline); _, err = f.create("v1/services", "default", service) {
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Errorf("address or port are taken: %v", err)
	}
	if _, err := f.create("v1/services", "default", strings.NewReplacer(`"s"`, `"t"`, "7.7", "7.8", "30777", "30778").Replace(service)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("got %v", err)
	}
	if _, err := f.get("networking.k8s.io/v1/ipaddresses", "", "10.96.7.8"); !apierrors.IsNotFound(err) {
		t.Errorf("the address is held: %v", err)
	}
}

// TestAlwaysDeny switches the plugin on for a cluster that stands: it serves, and refuses all writes.
func TestAlwaysDeny(t *testing.T) {
	t.Parallel()
	st := memory{memstore.New()}
	t.Run("off", func(t *testing.T) { start(t, st) })
	f := start(t, st, func(c *Config) { c.EnabledAdmission = []string{"AlwaysDeny"} })
	if _, err := f.create("v1/configmaps", "default", aMap); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "admission control is denying all modifications") {
		t.Errorf("got %v", err)
	}
	if _, err := f.get("v1/namespaces", "", "default"); err != nil {
		t.Error(err)
	}
}
