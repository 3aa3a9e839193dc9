package worker

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// What class a pod is of says which handler runs it, and a pod has users of its own where its handler can give it some.
func TestClassesAndUsers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		class   string
		own     bool
		handler string
		refused string // the end of the event, "" where it runs
	}{
		"neither":                       {},
		"a class":                       {class: "sandboxed", handler: "vm"},
		"a class of the default":        {class: "plain"},
		"a class that is not there":     {class: "none", refused: `RuntimeClass "none" not found`},
		"users of its own":              {own: true},
		"users of its own, in no way":   {own: true, class: "legacy", refused: `RuntimeClass handler "old" does not support user namespaces`},
		"the node's users, in that way": {class: "legacy", handler: "old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.handlers = map[string]string{"sandboxed": "vm", "plain": "", "legacy": "old"}
			m, _ := w.start()
			p := newPod("p", "a")
			host := !c.own
			p.Spec.HostUsers = &host
			if c.class != "" {
				p.Spec.RuntimeClassName = &c.class
			}
			m.Update(p)
			if c.refused != "" {
				w.eventually("refused", func() bool { return w.told(" FailedCreatePodSandBox: Failed to create pod sandbox: " + c.refused) })
				if started, failed := testutil.ToFloat64(m.cfg.Metrics.usersStarted), testutil.ToFloat64(m.cfg.Metrics.usersFailed); (started > 0) != c.own || (failed > 0) != c.own {
					t.Errorf("%v started, %v failed", started, failed)
				}
				for _, call := range w.runtime.Calls() {
					if strings.HasPrefix(call, "RunPodSandbox") {
						t.Error("it was asked to run all the same")
					}
				}
				return
			}
			w.eventually("ready", w.ready(p.UID))
			sandboxes, err := w.runtime.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{})
			if err != nil || len(sandboxes.GetItems()) != 1 || sandboxes.GetItems()[0].GetRuntimeHandler() != c.handler {
				t.Errorf("sandboxes: %v, %v", sandboxes, err)
			}
			namespace := w.runtime.Config("a").GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions()
			if (namespace != nil) != c.own {
				t.Errorf("users: %v", namespace)
			}
			if s := w.status(p.UID); s.Phase != corev1.PodRunning {
				t.Errorf("phase %s", s.Phase)
			}
		})
	}
}
