package plugin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/services/apiserver/internal/admission"
)

func env() *Env {
	e := &Env{Objects: world{}, Authorizer: may{}, Namespaces: &maker{}, Kinds: kindsOf{}, Clock: clocktesting.NewFakeClock(time.Unix(0, 0))}
	e.Configured = map[string]admission.Plugin{}
	for _, row := range Table() {
		e.Configured[row.Name] = AlwaysAdmit{}
	}
	return e
}

// onByDefault are the plugins that Kubernetes 1.36 runs unless told otherwise, and NodeRestriction.
var onByDefault = []string{
	"CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "ClusterTrustBundleAttest", "DefaultIngressClass",
	"DefaultStorageClass", "DefaultTolerationSeconds", "LimitRanger", "MutatingAdmissionWebhook", "NamespaceLifecycle", "NodeRestriction",
	"PersistentVolumeClaimResize", "PodSecurity", "PodTopologyLabels", "Priority", "ResourceQuota", "RuntimeClass", "ServiceAccount", "StorageObjectInUseProtection",
	"TaintNodesByCondition", "ValidatingAdmissionWebhook",
}

func TestTable(t *testing.T) {
	t.Parallel()
	var names []string
	on := map[string]bool{}
	for _, row := range Table() {
		if slices.Contains(names, row.Name) {
			t.Errorf("%s stands twice", row.Name)
		}
		names = append(names, row.Name)
		on[row.Name] = row.On
	}
	for _, name := range onByDefault {
		if !on[name] {
			t.Errorf("%s is off", name)
		}
	}
	for _, pair := range [][2]string{
		{"NamespaceAutoProvision", "NamespaceLifecycle"}, {"LimitRanger", "ServiceAccount"}, {"Priority", "DefaultTolerationSeconds"},
		{"PodTopologyLabels", "NodeDeclaredFeatureValidator"}, {"NodeDeclaredFeatureValidator", "JobValidation"}, {"JobValidation", "PodResizeValidator"},
		{"PodResizeValidator", "MutatingAdmissionPolicy"}, {"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"},
		{"ValidatingAdmissionWebhook", "ResourceQuota"}, {"ResourceQuota", "AlwaysDeny"},
	} {
		if slices.Index(names, pair[0]) > slices.Index(names, pair[1]) {
			t.Errorf("%s runs after %s", pair[0], pair[1])
		}
	}
	// Each can be made, but those that need a configuration.
	for _, row := range Table() {
		p, err := row.New(env(), nil)
		switch row.Name {
		case "EventRateLimit", "ImagePolicyWebhook":
			if err == nil {
				t.Errorf("%s is made", row.Name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", row.Name, err)
		} else if _, configured := env().Configured[row.Name]; !configured && p.Name() != row.Name {
			t.Errorf("%s calls itself %s", row.Name, p.Name())
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	build := func(s Settings) (string, error) {
		plugins, err := Build(env(), s)
		var names []string
		for _, p := range plugins {
			names = append(names, p.Name())
		}
		return strings.Join(names, " "), err
	}
	got, err := build(Settings{Enabled: []string{"AlwaysDeny", "AlwaysPullImages", "LimitRanger"}, Disabled: []string{"PodSecurity", "AlwaysAdmit"}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(got, "PodSecurity") || !strings.Contains(got, "AlwaysPullImages Priority") || !strings.HasSuffix(got, " AlwaysDeny") || strings.Count(got, "LimitRanger") != 1 {
		t.Errorf("runs %s", got)
	}
	for name, test := range map[string]struct {
		s    Settings
		want string
	}{
		"unknown":    {Settings{Enabled: []string{"Foo"}}, `enable-admission-plugins plugin "Foo" is unknown; the known ones are AlwaysAdmit, AlwaysDeny,`},
		"unknown 2":  {Settings{Disabled: []string{"Bar"}}, `disable-admission-plugins plugin "Bar" is unknown`},
		"both":       {Settings{Enabled: []string{"AlwaysDeny"}, Disabled: []string{"AlwaysDeny"}}, "AlwaysDeny in enable-admission-plugins and disable-admission-plugins overlapped"},
		"configured": {Settings{Config: map[string][]byte{"Priority": []byte("{}")}}, "admission plugin Priority: it takes no configuration"},
		"config of":  {Settings{Config: map[string][]byte{"Foo": []byte("{}")}}, `the admission configuration names the unknown plugin "Foo"`},
		"needs one":  {Settings{Enabled: []string{"EventRateLimit"}}, "admission plugin EventRateLimit: limits: Required value"},
	} {
		_, err := build(test.s)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

func TestExampleConfig(t *testing.T) {
	t.Parallel()
	config, err := ReadConfig(filepath.Join("..", "..", "..", "..", "..", "examples", "config", "admission.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Build(env(), Settings{Enabled: []string{"EventRateLimit", "PodNodeSelector"}, Config: config}); err != nil {
		t.Fatal(err)
	}
}

func TestReadConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file("selector.yaml", "podNodeSelectorPluginConfig: {a: b=c}")
	head := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	config, err := ReadConfig(file("a.yaml", head+"- {name: PodNodeSelector, path: selector.yaml}\n- {name: ResourceQuota, configuration: {kind: ResourceQuotaConfiguration}}\n"))
	if err != nil || string(config["PodNodeSelector"]) != "podNodeSelectorPluginConfig: {a: b=c}" || string(config["ResourceQuota"]) != `{"kind":"ResourceQuotaConfiguration"}` {
		t.Errorf("got %q, %v", config, err)
	}
	if config, err := ReadConfig(file("first.yaml", "apiVersion: apiserver.k8s.io/v1alpha1\nkind: AdmissionConfiguration\nplugins:\n- {name: PodNodeSelector, path: selector.yaml}\n")); len(config) != 1 || err != nil {
		t.Errorf("the group version that it began with: %q, %v", config, err)
	}
	if config, err := ReadConfig(""); config != nil || err != nil {
		t.Errorf("no file: %v, %v", config, err)
	}
	for name, text := range map[string]string{
		"garbage": "[", "kind": "apiVersion: apiserver.config.k8s.io/v1\nkind: Pod\n", "version": "apiVersion: v1\nkind: AdmissionConfiguration\n",
		"field": head + "- {name: A, colour: red}\n", "twice": head + "- {name: A, configuration: {a: b}}\n- {name: A, configuration: {a: b}}\n",
		"no name": head + "- {configuration: {a: b}}\n", "both": head + "- {name: A, path: x, configuration: {a: b}}\n", "no file": head + "- {name: A, path: x}\n",
	} {
		if _, err := ReadConfig(file(name+".yaml", text)); err == nil {
			t.Errorf("%s passes", name)
		}
	}
	if _, err := ReadConfig(filepath.Join(dir, "absent")); err == nil {
		t.Error("an absent file passes")
	}
}
