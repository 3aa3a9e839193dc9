package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// webhook answers TokenReviews (the token "hooked" is hank's) and SubjectAccessReviews (hank may list nodes), and returns a
// kubeconfig that names it.
func webhook(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var kind metav1.TypeMeta
		body := json.NewDecoder(r.Body)
		var raw json.RawMessage
		if body.Decode(&raw) != nil || json.Unmarshal(raw, &kind) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if kind.Kind == "TokenReview" {
			var review authenticationv1.TokenReview
			_ = json.Unmarshal(raw, &review)
			if review.Spec.Token == "hooked" {
				review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "hank", Groups: []string{"hooked"}}}
			}
			_ = json.NewEncoder(w).Encode(review)
			return
		}
		var review authorizationv1.SubjectAccessReview
		_ = json.Unmarshal(raw, &review)
		a := review.Spec.ResourceAttributes
		review.Status.Allowed = review.Spec.User == "hank" && a != nil && a.Verb == "list" && a.Resource == "nodes"
		review.Status.Reason = "the webhook decides"
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{
		Server: server.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	config.Contexts["x"], config.CurrentContext = &clientcmdapi.Context{Cluster: "c"}, "x"
	path := filepath.Join(t.TempDir(), "webhook")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// heldToken is what a Secret for tokens of the account default gets.
func heldToken(t *testing.T, admin kubernetes.Interface) string {
	t.Helper()
	secrets := admin.CoreV1().Secrets("default")
	_, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "held", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := secrets.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=held", TimeoutSeconds: ptr.To(int64(60))})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for e := range watch.ResultChan() {
		if s, ok := e.Object.(*corev1.Secret); ok && len(s.Data[corev1.ServiceAccountTokenKey]) > 0 {
			return string(s.Data[corev1.ServiceAccountTokenKey])
		}
	}
	t.Fatal("the Secret has no token after a minute")
	return ""
}

// TestIdentities asks a standalone who one is, with each kind of credential, and what one may do.
func TestIdentities(t *testing.T) {
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hook := webhook(t)
	admin, address, dir := runStandalone(t, "--authorization-mode", "Node,RBAC,ABAC,Webhook",
		"--token-auth-file", file("tokens", "static,tom,7,\"devs,ops\"\n"), "--basic-auth-file", file("passwords", "secret,bea,8\n"),
		"--enable-bootstrap-token-auth", "--authentication-token-webhook-config-file", hook, "--authorization-webhook-config-file", hook,
		"--authorization-policy-file", file("policies", `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"bea","namespace":"default","resource":"pods","readonly":true}}`))
	ctx := t.Context()
	_, err := admin.CoreV1().Secrets("kube-system").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	account, err := admin.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	held := heldToken(t, admin)
	if claims, err := base64.RawURLEncoding.DecodeString(strings.Split(held, ".")[1]); err != nil || !strings.Contains(string(claims), `"kubernetes.io/serviceaccount/secret.name":"held"`) {
		t.Errorf("the Secret's token claims %s (%v)", claims, err)
	}
	anonymous := &rest.Config{Host: "https://" + address, TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(dir, "gateway", "ca.crt")}}
	client := func(change func(*rest.Config)) kubernetes.Interface {
		config := rest.CopyConfig(anonymous)
		change(config)
		return kubernetes.NewForConfigOrDie(config)
	}
	token := func(token string) func(*rest.Config) { return func(c *rest.Config) { c.BearerToken = token } }
	bea := func(c *rest.Config) { c.Username, c.Password = "bea", "secret" }
	for _, c := range []struct{ name, credential, want string }{
		{"static token", "static", "tom 7 [devs ops system:authenticated]"},
		{"bootstrap token", "abcdef.0123456789abcdef", "system:bootstrap:abcdef  [system:bootstrappers system:authenticated]"},
		{"webhook", "hooked", "hank  [hooked system:authenticated]"},
		{"service account", account.Status.Token, "[system:serviceaccounts system:serviceaccounts:default system:authenticated]"},
		{"token of a Secret", held, "[system:serviceaccounts system:serviceaccounts:default system:authenticated]"},
		{"password", "", "bea 8 [system:authenticated]"},
		{"unknown token", "nonsense", "Unauthorized"},
		{"another bootstrap token", "abcdef.0123456789abcdeg", "Unauthorized"},
	} {
		change := token(c.credential)
		if c.credential == "" {
			change = bea
		}
		review, err := client(change).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			u := review.Status.UserInfo
			got = u.Username + " " + u.UID + " [" + strings.Join(u.Groups, " ") + "]"
		}
		if !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	for name, c := range map[string]struct {
		err  error
		want string // empty is allowed
	}{
		"ABAC allows":                {second(client(bea).CoreV1().Pods("default").List(ctx, metav1.ListOptions{})), ""},
		"ABAC does not":              {second(client(bea).CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{})), `User "bea" cannot list resource "pods" in API group "" in the namespace "kube-system"`},
		"the webhook allows":         {second(client(token("hooked")).CoreV1().Nodes().List(ctx, metav1.ListOptions{})), ""},
		"the webhook does not":       {second(client(token("hooked")).CoreV1().Secrets("").List(ctx, metav1.ListOptions{})), "at the cluster scope: No policy matched.\nthe webhook decides"},
		"anonymous":                  {second(client(func(*rest.Config) {}).CoreV1().Pods("default").List(ctx, metav1.ListOptions{})), `pods is forbidden: User "system:anonymous" cannot list resource "pods"`},
		"anonymous asks who it is":   {second(client(func(*rest.Config) {}).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})), `User "system:anonymous" cannot create`},
		"anonymous asks the version": {second(client(func(*rest.Config) {}).Discovery().ServerVersion()), ""},
	} {
		if c.want == "" && c.err != nil || c.want != "" && (!apierrors.IsForbidden(c.err) || !strings.Contains(c.err.Error(), c.want)) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	raw := client(func(*rest.Config) {}).Discovery().RESTClient().Get().AbsPath("/apis").SetHeader("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json")
	var code int
	body, err := raw.Do(ctx).StatusCode(&code).Raw()
	if want := `"message":"forbidden: User \"system:anonymous\" cannot get path \"/apis\": No policy matched.`; code != http.StatusForbidden || !strings.Contains(string(body), want) {
		t.Errorf("anonymous asks for the groups: %d %s %v", code, body, err)
	}
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Fatal("kubectl is missing: hack/install.sh --test installs it")
	}
	run := func(args ...string) string {
		out, _ := exec.CommandContext(ctx, kubectl, append([]string{"--kubeconfig", filepath.Join(dir, "admin", "kubeconfig")}, args...)...).CombinedOutput()
		return string(out)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"auth", "whoami"}, "kubernetes-admin"},
		{[]string{"auth", "whoami", "--as", "jane", "--as-group", "devs", "--as-uid", "9"}, "jane"},
		{[]string{"get", "pods", "--as", "jane"}, `pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"`},
		{[]string{"auth", "can-i", "list", "pods", "--as", "system:serviceaccount:kube-system:namespace-controller"}, "yes"},
		{[]string{"auth", "can-i", "--list", "--as", "jane"}, "selfsubjectreviews.authentication.k8s.io"},
		{[]string{"get", "pods", "--as-group", "devs"}, "without impersonating a user"},
	} {
		if out := run(c.args...); !strings.Contains(out, c.want) {
			t.Errorf("kubectl %v: %s", c.args, out)
		}
	}
}
