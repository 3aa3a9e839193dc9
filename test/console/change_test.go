package console

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/test/internal/browser"
)

// awaitDeployment waits until the Deployment is as wanted.
func (c *cluster) awaitDeployment(name string, wanted func(*appsv1.Deployment) bool) {
	c.t.Helper()
	deployments := c.AppsV1().Deployments(c.namespace)
	w, err := deployments.Watch(c.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name, TimeoutSeconds: ptr.To(int64(browser.Patience / time.Second))})
	c.must("watch it", err)
	defer w.Stop()
	for e := range w.ResultChan() {
		if d, ok := e.Object.(*appsv1.Deployment); ok && wanted(d) {
			return
		}
	}
	d, err := deployments.Get(c.t.Context(), name, metav1.GetOptions{})
	text, _ := json.Marshal(d)
	c.t.Fatalf("the Deployment does not become what is wanted (%v): %s", err, text)
}

func TestDeployAndScale(t *testing.T) {
	c := setup(t)
	c.admin("/deploy")
	c.page.Fill("[name=namespace]", c.namespace)
	c.page.Fill("[name=name]", "web")
	c.page.Fill("[name=image]", "nginx:1.9.1")
	c.page.Fill("[name=replicas]", "2")
	c.page.Fill("[name=port]", "80")
	c.page.Click("main button", "Deploy")
	c.page.AwaitText(".results", "Service "+c.namespace+"/web")
	c.page.Click(".results a", "Deployment "+c.namespace+"/web")
	c.page.Await("document.querySelectorAll('[data-children=pods] tbody tr').length === 2")
	c.page.Await("[...document.querySelectorAll('[data-children=pods] .badge')].filter((e) => e.textContent === 'Running').length === 2")

	c.page.Click("button", "Scale")
	c.page.Fill("[name=replicas]", "3")
	c.page.Click("dialog button", "Scale")
	c.page.Await("document.querySelectorAll('[data-children=pods] tbody tr').length === 3")
	c.awaitDeployment("web", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 3 && d.Status.AvailableReplicas == 3 })

	c.page.Click("button", "Restart")
	c.page.Click("dialog button", "Restart")
	c.awaitDeployment("web", func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] != "" && d.Status.UpdatedReplicas == 3 && d.Status.Replicas == 3
	})
	c.page.Click("#revisions button", "Roll back")
	c.page.Click("dialog button", "Roll back")
	c.awaitDeployment("web", func(d *appsv1.Deployment) bool { return len(d.Spec.Template.Annotations) == 0 })
	c.page.Click("button", "Pause")
	c.page.Click("dialog button", "Pause")
	c.awaitDeployment("web", func(d *appsv1.Deployment) bool { return d.Spec.Paused })
	c.page.Click("button", "Resume")
	c.page.Click("dialog button", "Resume")
	c.awaitDeployment("web", func(d *appsv1.Deployment) bool { return !d.Spec.Paused })

	c.page.Click(".tabs a", "History")
	c.page.AwaitText(".history", "howdah-console")

	c.page.Click("button", "Delete")
	c.page.Fill("[name=policy]", "Foreground")
	c.page.Click("dialog button", "Delete")
	c.page.AwaitText("h1", "Deployments")
	c.page.Await("location.hash === '#/list/apps/v1/deployments' && !document.querySelector('" + row("web") + "')")

	node := "hollow-0001"
	c.open("/object/-/v1/nodes/-/" + node)
	c.page.Click("button", "Cordon")
	c.page.Click("dialog button", "Cordon")
	c.page.Click("button", "Uncordon")
	c.page.Click("dialog button", "Uncordon")
	c.page.Await("[...document.querySelectorAll('button')].some((b) => b.textContent === 'Cordon')")
	if n, err := c.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{}); err != nil || n.Spec.Unschedulable {
		t.Errorf("the node takes no pods (%v)", err)
	}
}

// replace replaces a text in the editor.
func (c *cluster) replace(before, after string) {
	c.t.Helper()
	c.page.Await(fmt.Sprintf("document.querySelector('.editor')?.value.includes(%q)", before))
	c.page.Run(fmt.Sprintf("(() => { const e = document.querySelector('.editor'); e.value = e.value.replace(%q, %q); })()", before, after))
}

func TestEdit(t *testing.T) {
	c := setup(t)
	c.configMap("settings", "one")
	ctx, maps := t.Context(), c.CoreV1().ConfigMaps(c.namespace)
	data := func() string {
		m, err := maps.Get(ctx, "settings", metav1.GetOptions{})
		c.must("get it", err)
		return m.Data["key"]
	}
	c.admin("/object/-/v1/configmaps/" + c.namespace + "/settings/edit")
	c.replace("key: value", "key: edited")
	if text := c.page.Value("document.querySelector('.editor').value.includes('managedFields')"); text != "false" {
		t.Error("managed fields are shown unasked")
	}
	c.page.Click("button", "Check")
	c.page.AwaitText(".notice.good", "It would be accepted.")
	if got := data(); got != "value" {
		t.Errorf("a check changed it to %q", got)
	}
	c.page.Click("button", "Save")
	c.page.AwaitText(".notice.good", "Saved.")
	if got := data(); got != "edited" {
		t.Errorf("%q is saved", got)
	}

	// Another one changes it meanwhile.
	c.replace("key: edited", "key: mine")
	_, err := maps.Patch(ctx, "settings", "application/merge-patch+json", []byte(`{"data":{"key":"theirs"}}`), metav1.PatchOptions{})
	c.must("change it", err)
	c.page.Click("button", "Save")
	c.page.AwaitText(".notice.bad", "409 Conflict")
	c.page.AwaitText(".notice.bad", "the object has been modified")
	if got := data(); got != "theirs" {
		t.Errorf("the conflict was lost: %q", got)
	}
	c.page.Click("button", "Load the current version, and lose these changes")
	c.replace("key: theirs", "key: ours")
	c.page.Click("button", "Save")
	c.page.AwaitText(".notice.good", "Saved.")
	if got := data(); got != "ours" {
		t.Errorf("%q is saved", got)
	}

	c.replace("kind: ConfigMap", "kind: ConfigMap\nunknown: 1")
	c.page.Click("button", "Save")
	c.page.AwaitText(".notice.bad", `unknown field "unknown"`)
	c.page.Fill("[name=format]", "JSON")
	c.replace(`"key": "ours"`, `"key": "json"`)
	c.page.Click("button", "Save")
	c.page.AwaitText(".notice.good", "Saved.")
	if got := data(); got != "json" {
		t.Errorf("%q is saved", got)
	}
}

func TestApply(t *testing.T) {
	c := setup(t)
	c.admin("/apply")
	c.page.Fill("[name=namespace]", c.namespace)
	c.page.Fill("[name=manifests]", "# two\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {key: value}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: B}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, nonsense: 1}\n")
	c.page.Click("button", "Apply")
	c.page.AwaitText(".notice.bad", `Document 2: item 1 (apply configmaps "B"`)
	c.page.AwaitText(".notice.bad", "Document 3")
	ctx, maps := t.Context(), c.CoreV1().ConfigMaps(c.namespace)
	if _, err := maps.Get(ctx, "a", metav1.GetOptions{}); err == nil {
		t.Error("a part of a transaction was applied")
	}
	c.page.Run("document.querySelector('[name=whole]').click()")
	c.page.Click("button", "Apply")
	c.page.AwaitText(".results", "ConfigMap "+c.namespace+"/a")
	m, err := maps.Get(ctx, "a", metav1.GetOptions{})
	c.must("get what was applied", err)
	if len(m.ManagedFields) != 1 || m.ManagedFields[0].Manager != "howdah-console" || m.ManagedFields[0].Operation != metav1.ManagedFieldsOperationApply {
		t.Errorf("managed by %+v", m.ManagedFields)
	}
	c.page.Click("button", "Check")
	c.page.AwaitText(".results", "unchanged")
}

func TestPending(t *testing.T) {
	c := setup(t)
	_, err := c.CoreV1().Pods(c.namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"is": "nowhere"}, Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}}, metav1.CreateOptions{})
	c.must("make a pod", err)
	c.admin("/object/-/v1/pods/" + c.namespace + "/p/placement")
	c.page.AwaitText(".notice.warn", "nodes are available")
	c.page.AwaitText("tbody", "node(s) didn't match Pod's node affinity/selector")
	c.page.Click(".tabs a", "Events")
	c.page.AwaitText("tbody", "FailedScheduling")
	c.page.Click(".tabs a", "Terminal")
	c.page.Click("button", "Connect")
	c.page.AwaitText(".notice.warn", "does not have a host assigned") // the reason that the browser itself does not tell
}
