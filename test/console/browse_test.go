package console

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSignIn(t *testing.T) {
	c := setup(t)
	c.page.Go(pageURL(""))
	c.page.Fill("#token", "nonsense")
	c.page.Click("button", "Sign in")
	c.page.AwaitText(".notice.bad", "401 Unauthorized")
	c.page.Fill("#token", c.token("admin", "cluster-admin", true))
	c.page.Click("button", "Sign in")
	c.page.AwaitText("header .user", "system:serviceaccount:"+c.namespace+":admin")
	c.page.AwaitText("#nodes .figure", "3 of 3 ready")
	c.page.AwaitText("#namespaces", c.namespace)
	c.page.AwaitText("#use", "no node has been measured")
	if where := c.page.Value("[sessionStorage.length > 0, localStorage.length, document.cookie.length]"); where != "true,0,0" {
		t.Errorf("what is stored: %s", where)
	}
	c.page.Click("header button", "Sign out")
	c.page.Await("document.querySelector('#token')")
	if left := c.page.Value("sessionStorage.length"); left != "0" {
		t.Errorf("%s values are left", left)
	}
	c.page.Go(pageURL("#/list/-/v1/pods"))
	c.page.Await("document.querySelector('#token')")
}

// configMap makes one with a label.
func (c *cluster) configMap(name, label string) {
	c.t.Helper()
	_, err := c.CoreV1().ConfigMaps(c.namespace).Create(c.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"is": label}}, Data: map[string]string{"key": "value"},
	}, metav1.CreateOptions{})
	c.must("make a ConfigMap", err)
}

// row is the selector of an object's row.
func row(name string) string { return `tr[data-name="` + name + `"]` }

func TestBrowse(t *testing.T) {
	c := setup(t)
	c.configMap("first", "one")
	c.admin("/list/-/v1/configmaps?namespace=" + c.namespace)
	c.page.AwaitText(row("first"), "first")
	c.page.AwaitText(".state", "Live")
	c.page.AwaitText("nav a[aria-current]", "ConfigMaps")
	c.configMap("second", "two") // appears by itself
	c.page.AwaitText(row("second"), "second")
	c.must("delete it", c.CoreV1().ConfigMaps(c.namespace).Delete(t.Context(), "first", metav1.DeleteOptions{}))
	c.page.Await("!document.querySelector('" + row("first") + "')")
	c.page.Fill("[name=labels]", "is=three")
	c.page.AwaitText(".live", "Nothing here")
	c.configMap("third", "three")
	c.page.AwaitText(row("third"), "third")
	if others := c.page.Value("document.querySelectorAll('tbody tr').length"); others != "1" {
		t.Errorf("%s rows are like the selector", others)
	}
	c.page.Fill("[name=labels]", "is=")
	c.page.Fill("[name=labels]", "(")
	c.page.AwaitText(".notice.bad", "400 BadRequest found '(', expected: !, identifier, or 'end of string'") // the server's own words
	c.page.Fill("[name=labels]", "")
	c.page.AwaitText(row("second"), "second")
	c.page.Fill("[name=search]", "thir")
	c.page.Await("!document.querySelector('" + row("second") + "')")
	c.page.Fill("[name=namespace]", "")
	c.page.AwaitText("tbody", "kube-system")
	c.open("/list/example.com/v1/gadgets")
	c.page.AwaitText(".notice", "The cluster serves no gadgets")
	c.open("/object/-/v1/configmaps/" + c.namespace + "/none")
	c.page.AwaitText(".notice.bad", `configmaps "none" not found`)
}

func TestForbidden(t *testing.T) {
	c := setup(t)
	c.signIn(c.token("viewer", "view", false), "/")
	c.page.AwaitText("#nodes .notice.bad", `cannot list resource "nodes" in API group "" at the cluster scope`)
	c.configMap("settings", "one")
	c.open("/list/-/v1/configmaps?namespace=kube-system")
	c.page.AwaitText(".notice.bad", `403 Forbidden configmaps is forbidden: User "system:serviceaccount:`+c.namespace+`:viewer" cannot list resource "configmaps" in API group "" in the namespace "kube-system"`)
	c.page.Fill("input[name=namespace]", c.namespace) // a field, since the namespaces cannot be listed
	c.page.AwaitText(row("settings"), "settings")
	c.open("/object/-/v1/configmaps/" + c.namespace + "/settings")
	c.page.Click("button", "Delete")
	c.page.Click("dialog button", "Delete")
	c.page.AwaitText("dialog .notice.bad", `cannot delete resource "configmaps"`)
}
