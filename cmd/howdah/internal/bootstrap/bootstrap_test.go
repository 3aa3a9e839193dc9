package bootstrap

import (
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/kit/pki/pkitest"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	seen := map[Token]bool{}
	for range 50 {
		token, err := NewToken()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseToken(token.String()); err != nil || again != token || seen[token] {
			t.Errorf("%s: %v, %v", token, again, err)
		}
		seen[token] = true
	}
	for _, bad := range []string{"", "abcdef", "abcdef.", "abcdef.0123456789abcde", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcdef\n", "abcdef-0123456789abcdef"} {
		if token, err := ParseToken(bad); err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v, %v", bad, token, err)
		}
	}
	for text, want := range map[string]string{"abcdef": "abcdef", "abcdef.0123456789abcdef": "abcdef", "abc": "", "abcdef.x": ""} {
		if id, err := ParseID(text); id != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, id, err)
		}
	}
}

func TestGrant(t *testing.T) {
	t.Parallel()
	token := Token{"abcdef", "0123456789abcdef"}
	g := Grant{Token: token, Description: "d", Expires: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Usages: []string{"authentication", "signing"}, Groups: []string{DefaultGroup, "system:bootstrappers:x"}}
	secret := g.Secret()
	want := map[string]string{
		"token-id": "abcdef", "token-secret": "0123456789abcdef", "description": "d", "expiration": "2030-01-02T03:04:05Z",
		"usage-bootstrap-signing": "true", "usage-bootstrap-authentication": "true", "auth-extra-groups": DefaultGroup + ",system:bootstrappers:x",
	}
	if secret.Name != "bootstrap-token-abcdef" || secret.Namespace != "kube-system" || secret.Type != "bootstrap.kubernetes.io/token" || len(secret.Data) != len(want) {
		t.Errorf("%+v", secret)
	}
	for key, value := range want {
		if string(secret.Data[key]) != value {
			t.Errorf("%s is %q", key, secret.Data[key])
		}
	}
	again, err := GrantOf(secret)
	if err != nil || again.Token != token || !again.Expires.Equal(g.Expires) || !slices.Equal(again.Usages, g.Usages) || !slices.Equal(again.Groups, g.Groups) || again.Description != "d" {
		t.Errorf("%+v, %v", again, err)
	}
	never := Grant{Token: token, Usages: []string{"signing"}}.Secret()
	if again, err := GrantOf(never); err != nil || !again.Expires.IsZero() || len(never.Data) != 3 {
		t.Errorf("%+v, %v", again, err)
	}
	secret.Data["expiration"] = []byte("soon")
	if _, err := GrantOf(secret); err == nil || !strings.Contains(err.Error(), `"soon"`) {
		t.Errorf("%v", err)
	}
	never.Name = "bootstrap-token-other0"
	if _, err := GrantOf(never); err == nil {
		t.Error("a Secret of another name is a token")
	}
	for want, g := range map[string]Grant{
		"at least one usage":  {},
		`usage "x"`:           {Usages: []string{"x"}},
		`group "masters"`:     {Usages: []string{"authentication"}, Groups: []string{"masters"}},
		"groups are for":      {Usages: []string{"signing"}, Groups: []string{DefaultGroup}},
		`"system:bootstrap"`:  {Usages: []string{"authentication"}, Groups: []string{"system:bootstrap"}},
		`bootstrappers:A" is`: {Usages: []string{"authentication"}, Groups: []string{"system:bootstrappers:A"}},
	} {
		if err := g.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", g, err, want)
		}
	}
}

// TestCheckSignature has signatures that were made with another HMAC, Python's.
func TestCheckSignature(t *testing.T) {
	t.Parallel()
	by := Token{"abcdef", "0123456789abcdef"}
	const (
		header = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9" // {"alg":"HS256","kid":"abcdef"}
		none   = "eyJhbGciOiJub25lIiwia2lkIjoiYWJjZGVmIn0"  // {"alg":"none","kid":"abcdef"}
		good   = "MxsnbCjBaYzcbNIFa06F-wuF9LX26rhMlrL4zA1511s"
	)
	for name, tt := range map[string]struct {
		content, signature string
		by                 Token
		want               string
	}{
		"good":            {"hello", header + ".." + good, by, ""},
		"other content":   {"hello!", header + ".." + good, by, "not signed with this token"},
		"other secret":    {"hello", header + ".." + good, Token{"abcdef", "1123456789abcdef"}, "not signed with this token"},
		"other token":     {"hello", header + ".." + good, Token{"abcdeg", "0123456789abcdef"}, `signed by "abcdef"`},
		"no algorithm":    {"hello", none + "..", by, "with none"},
		"with a payload":  {"hello", header + ".aGVsbG8." + good, by, "without payload"},
		"a broken header": {"hello", "%.." + good, by, "header"},
		"no JSON":         {"hello", "aGVsbG8.." + good, by, "header"},
		"a broken end":    {"hello", header + "..%", by, "the signature"},
	} {
		err := CheckSignature(tt.content, tt.signature, tt.by)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func FuzzCheckSignature(f *testing.F) {
	f.Add("content", "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..AAAA")
	f.Fuzz(func(t *testing.T, content, signature string) {
		if CheckSignature(content, signature, Token{"abcdef", "0123456789abcdef"}) == nil {
			t.Errorf("%q is a signature of %q", signature, content)
		}
	})
}

func TestInfo(t *testing.T) {
	t.Parallel()
	a := pkitest.Authority(t)
	text, err := Info{"https://192.0.2.1:6443", a.PEM()}.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	info, err := ParseInfo(text)
	if err != nil || info.Server != "https://192.0.2.1:6443" || string(info.CA) != string(a.PEM()) {
		t.Errorf("%+v, %v", info, err)
	}
	for want, text := range map[string]string{
		"no kubeconfig":              "{",
		"does not say which cluster": "apiVersion: v1\nkind: Config\n",
		"names no server":            "apiVersion: v1\nkind: Config\nclusters: [{name: '', cluster: {certificate-authority-data: YQ==}}]\n",
		"certificate-authority-data": "apiVersion: v1\nkind: Config\nclusters: [{name: one, cluster: {server: 'https://x'}}]\n",
	} {
		if _, err := ParseInfo(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestPins(t *testing.T) {
	t.Parallel()
	a, b := pkitest.Authority(t), pkitest.Authority(t)
	both := slices.Concat(a.PEM(), b.PEM())
	pin := Pin(b.Certificate)
	if err := CheckPinForm(pin); err != nil {
		t.Error(err)
	}
	for name, tt := range map[string]struct {
		ca   []byte
		pins []string
		want string
	}{
		"its own":       {b.PEM(), []string{pin}, ""},
		"in capitals":   {b.PEM(), []string{strings.ToUpper(pin)}, ""},
		"one of two":    {both, []string{pin}, ""},
		"one of pins":   {b.PEM(), []string{Pin(a.Certificate), pin}, ""},
		"another":       {a.PEM(), []string{pin}, "none of those given"},
		"no authority":  {[]byte("x"), []string{pin}, "no certificate"},
		"without a pin": {a.PEM(), nil, "none of those given"},
	} {
		err := CheckPins(tt.ca, tt.pins)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	for _, bad := range []string{"", "sha256:", "sha256:abcd", "md5:" + pin[7:], pin[7:], pin + "00"} {
		if CheckPinForm(bad) == nil {
			t.Errorf("%q is a pin", bad)
		}
	}
}

func TestEnsure(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	ctx := t.Context()
	cluster := Cluster{Info: Info{"https://192.0.2.1:6443", pkitest.Authority(t).PEM()}, Settings: map[string]string{"apiserver": "dns:///x:7443"}}
	configs := object.For(client, object.ConfigMap)
	for range 2 {
		if err := Ensure(ctx, client, cluster); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range bindings {
		got, err := object.For(client, clusterRoleBindings).Get(ctx, "", b.name)
		if err != nil || got.RoleRef.Name != b.role || !slices.Equal(got.Subjects, []rbacv1.Subject{b.subject}) {
			t.Errorf("%s: %v, %v", b.name, got, err)
		}
	}
	for _, r := range readable {
		role, err := object.For(client, roles).Get(ctx, r.namespace, r.role)
		if err != nil || !slices.Equal(role.Rules[0].ResourceNames, []string{r.name}) || !slices.Equal(role.Rules[0].Verbs, []string{"get"}) {
			t.Errorf("%s: %v, %v", r.role, role, err)
		}
		binding, err := object.For(client, roleBindings).Get(ctx, r.namespace, r.role)
		if err != nil || !slices.Equal(binding.Subjects, r.subjects) {
			t.Errorf("%s: %v, %v", r.role, binding, err)
		}
	}

	// What others have added stays: the signatures of tokens, and an administrator's settings.
	info, err := configs.Get(ctx, "kube-public", InfoName)
	if err != nil {
		t.Fatal(err)
	}
	info.Data[SignaturePrefix+"abcdef"] = "x..y"
	config, err := configs.Get(ctx, "kube-system", ConfigName)
	if err != nil {
		t.Fatal(err)
	}
	config.Data["max-pods"] = "50"
	if _, err := configs.Update(ctx, info); err != nil {
		t.Fatal(err)
	}
	if _, err := configs.Update(ctx, config); err != nil {
		t.Fatal(err)
	}
	cluster.Server, cluster.Settings["apiserver"] = "https://192.0.2.2:6443", "dns:///y:7443"
	if err := Ensure(ctx, client, cluster); err != nil {
		t.Fatal(err)
	}
	if info, err = configs.Get(ctx, "kube-public", InfoName); err != nil || !strings.Contains(info.Data[InfoKey], "https://192.0.2.2:6443") || info.Data[SignaturePrefix+"abcdef"] == "" {
		t.Errorf("%v, %v", info, err)
	}
	if config, err = configs.Get(ctx, "kube-system", ConfigName); err != nil || config.Data["max-pods"] != "50" || config.Data["apiserver"] != "dns:///y:7443" {
		t.Errorf("%v, %v", config, err)
	}
}
