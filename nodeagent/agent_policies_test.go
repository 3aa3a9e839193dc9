package nodeagent_test

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/netpol"
)

// testPolicies has a pod that a network policy is about from its first moment on, and policies that come and go.
func (n *node) testPolicies(t *testing.T) {
	outer := n
	n = n.in(t)
	policies := object.For(n.client, object.NetworkPolicy)
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "guarded"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guest"}}}},
				Ports: []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromString("web"))}},
			}},
		},
	}
	for _, name := range []string{"guest", "stranger"} {
		n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "stranger"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{shell("exec sleep 1000")}}})
		n.await(name, "ready", time.Minute, ready)
	}
	n.testPassing(t)
	guest := []byte(`{"metadata":{"labels":{"app":"guest"}}}`)
	if _, err := object.For(n.client, object.Pod).Patch(t.Context(), "default", "guest", types.MergePatchType, guest, ""); err != nil {
		t.Fatal(err)
	}
	// Without a policy the agent follows its own pods alone.
	followed := n.api.Calls("watch pods")
	if _, err := policies.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, func() string {
		if now := n.api.Calls("watch pods"); now != followed+1 {
			return fmt.Sprintf("%d watches of pods with the first policy, %d before", now, followed)
		}
		return ""
	})
	c := shell("echo page >/tmp/index.html; httpd -p 8080 -h /tmp; httpd -p 8081 -h /tmp; exec sleep 1000")
	c.Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}
	// The node asks from outside of the policy, and is let in.
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/index.html", Port: intstr.FromInt32(8081)}}, PeriodSeconds: 1}
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "guarded", Labels: map[string]string{"app": "guarded"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}})
	address := n.await("guarded", "ready", time.Minute, ready).Status.PodIP
	// "page" is an answer, "" is silence.
	ask := func(from string, port int) string {
		stdout, stderr, outcome := n.run(from, fmt.Sprintf(`printf 'GET /index.html HTTP/1.0\r\n\r\n' | nc -w 1 %s %d`, address, port), "")
		switch {
		case strings.HasSuffix(stdout, "\npage\n"):
			return "page"
		case stdout == "" && strings.Contains(stderr, "timed out"):
			return ""
		}
		return stdout + stderr + outcome
	}
	eventually(t, time.Minute, func() string { // the guest's address is news to the policy, too
		if got := ask("guest", 8080); got != "page" {
			return fmt.Sprintf("the guest is not let in: %s\n%s", got, n.rules(t))
		}
		return ""
	})
	for _, try := range []struct {
		from string
		port int
	}{{"guest", 8081}, {"stranger", 8080}, {"stranger", 8081}} {
		if got := ask(try.from, try.port); got != "" {
			t.Errorf("%s at port %d: %q", try.from, try.port, got)
		}
	}
	// Without an agent, and with the next one, the policy is in force.
	n.stop()
	n.startAgent()
	outer.stop, outer.agent, outer.streams = n.stop, n.agent, n.streams
	eventually(t, time.Minute, func() string { // the agent lives again once it knows its pods
		if log := n.log("stranger", ""); log != "" {
			return log
		}
		return ""
	})
	if got := ask("stranger", 8080); got != "" {
		t.Errorf("the stranger, after a restart of the agent: %q", got)
	}
	if err := policies.Delete(t.Context(), "default", "guarded", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, func() string {
		if got := ask("stranger", 8081); got != "page" {
			return "the stranger is not let in without the policy: " + got
		}
		return ""
	})
	for _, name := range []string{"guarded", "guest", "stranger"} {
		n.remove(name)
	}
}

// testPassing has a pod that goes before there is any policy: what stands for its interface goes with it.
func (n *node) testPassing(t *testing.T) {
	n.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "passing"}, Spec: corev1.PodSpec{Containers: []corev1.Container{shell("exec sleep 1000")}}})
	address := n.await("passing", "ready", time.Minute, ready).Status.PodIP
	routes, err := netlink.RouteGet(net.ParseIP(address))
	if err != nil || len(routes) == 0 {
		t.Fatalf("the way to %s: %v", address, err)
	}
	line := fmt.Sprintf("interface %d ingress: not isolated", routes[0].LinkIndex)
	if rules := n.rules(t); !strings.Contains(rules, line) {
		t.Fatalf("no line %q in\n%s", line, rules)
	}
	n.remove("passing")
	eventually(t, time.Minute, func() string { // a resync would do it after five minutes
		if rules := n.rules(t); strings.Contains(rules, line) {
			return fmt.Sprintf("the line %q stays in\n%s", line, rules)
		}
		return ""
	})
}

// rules are those in the kernel, of all pods of the node.
func (n *node) rules(t *testing.T) string {
	t.Helper()
	rules, err := netpol.Dump("/sys/fs/bpf/howdah-test-" + filepath.Base(n.dir) + "-policy")
	if err != nil {
		t.Fatal(err)
	}
	return rules
}
