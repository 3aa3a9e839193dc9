package clusterfile

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// flags know the setting logs alone, which is true or false.
type flags struct{}

func (flags) CheckSetting(flag, value string) error {
	if flag != "logs" {
		return errors.New("no such flag -" + flag)
	}
	if value != "true" && value != "false" {
		return errors.New("invalid argument")
	}
	return nil
}

func TestDefaultsAreWholeAndKept(t *testing.T) {
	t.Parallel()
	init, cluster := InitDefaults()
	text, err := Encode(init, cluster, JoinDefaults())
	if err != nil {
		t.Fatal(err)
	}
	d, err := Decode(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	d.Init.Complete(Host{})
	d.Cluster.Complete()
	d.Join.Complete(Host{})
	if !reflect.DeepEqual(*d.Init, init) || !reflect.DeepEqual(*d.Cluster, cluster) || !reflect.DeepEqual(*d.Join, JoinDefaults()) {
		t.Errorf("what is written is read otherwise:\n%s", text)
	}
	if problems := slices.Concat(d.Init.Validate(nil), d.Cluster.Validate(flags{}), d.Join.Validate()); len(problems) > 0 {
		t.Error(problems.ToAggregate())
	}
	if cluster.DNS.ClusterIP != "10.96.0.10" || cluster.ServiceIP() != "10.96.0.1" {
		t.Errorf("%+v", cluster)
	}
}

func TestDecodeIsStrict(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: howdah.dev/v1\nkind: ClusterConfiguration\n"
	for name, tt := range map[string]struct {
		text string
		want []string // parts of the error; none: it is fine
	}{
		"fine":                      {"# a comment\n---\n" + head + "---\n# nothing\n---\nkind: InitConfiguration\napiVersion: howdah.dev/v1\n", nil},
		"fields that are not known": {head + "networking:\n  podSubnets: x\n  dnsdomain: y\nnew: z\n", []string{"ClusterConfiguration", `unknown field "networking.podSubnets"`, `unknown field "new"`, `unknown field "networking.dnsdomain"`}},
		"in a list":                 {"apiVersion: howdah.dev/v1\nkind: InitConfiguration\nbootstrapTokens:\n- token: a\n- tokn: b\n", []string{`unknown field "bootstrapTokens[1].tokn"`}},
		"a field twice":             {head + "certSANs: []\ncertSANs: []\n", []string{"certSANs"}},
		"another type":              {head + "ports:\n  api: many\n", []string{"ports.api"}},
		"another kind":              {"apiVersion: howdah.dev/v1\nkind: Pod\n", []string{`"Pod" is none of`}},
		"another version":           {"apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n", []string{"is not howdah.dev/v1"}},
		"two of a kind":             {head + "---\n" + head, []string{"document 2: there is a second ClusterConfiguration"}},
		"all at once":               {head + "a: b\n---\nkind: X\n", []string{"document 1", "document 2"}},
		"nothing":                   {"# only words\n---\n", []string{"no document"}},
		"no YAML":                   {"a: b: c\n", []string{"document 1"}},
	} {
		_, err := Decode([]byte(tt.text))
		if (err == nil) != (len(tt.want) == 0) {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range tt.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v lacks %q", name, err, want)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	init, cluster := InitDefaults()
	text, err := Encode(init, cluster, JoinDefaults())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Decode(data)
		if err != nil {
			return
		}
		if d.Cluster != nil {
			d.Cluster.Complete()
			_ = d.Cluster.Validate(flags{})
		}
		if d.Init != nil {
			d.Init.Complete(Host{})
			_ = d.Init.Validate(nil)
		}
		if d.Join != nil {
			d.Join.Complete(Host{})
			_ = d.Join.Validate()
		}
	})
}
