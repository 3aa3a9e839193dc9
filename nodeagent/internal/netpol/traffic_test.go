package netpol

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"howdah.dev/nodeagent/internal/route/netnstest"
)

func policyObject(t testing.TB, text string) *networkingv1.NetworkPolicy {
	t.Helper()
	p := &networkingv1.NetworkPolicy{}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		t.Fatal(err)
	}
	if p.Namespace == "" {
		p.Namespace = "default"
	}
	return p
}

const denyIngress = `{metadata: {name: deny}, spec: {podSelector: {}, policyTypes: [Ingress]}}`
const denyEgress = `{metadata: {name: deny-egress}, spec: {podSelector: {}, policyTypes: [Egress]}}`

// A namespace that denies all: nothing comes in but from the node; what pods of it ask of others is answered.
func TestDefaultDeny(t *testing.T) {
	n := newNode(t)
	web, other := n.pod(podObject("default", "web", 2, nil)), n.pod(podObject("other", "client", 3, nil))
	for _, network := range []string{"tcp", "udp"} {
		web.Echo(t, network, ":80", "web")
		other.Echo(t, network, ":80", "other")
		n.outside.Echo(t, network, ":80", "outside")
	}
	n.start(namespaceObject("default", nil), namespaceObject("other", nil))
	targets := []string{"10.77.0.2:80", "[fd00:77::2]:80"}
	for _, network := range []string{"tcp", "udp"} {
		for _, target := range targets {
			n.passes(other.Namespace, network, target, "without policies, from a pod")
			n.passes(n.outside, network, target, "without policies, from outside")
		}
	}
	n.apply(policyObject(t, denyIngress))
	for _, network := range []string{"tcp", "udp"} {
		for _, target := range targets {
			n.stopped(other.Namespace, network, target, "isolated, from a pod")
			n.stopped(n.outside, network, target, "isolated, from outside")
			n.passes(n.ns, network, target, "isolated, from its node")
		}
		for _, target := range []string{"10.77.0.3:80", "[fd00:77::3]:80", outsideAddress + ":80", "[" + outsideAddress6 + "]:80"} {
			n.passes(web.Namespace, network, target, "isolated for ingress, to others")
		}
	}
	n.apply(policyObject(t, denyEgress))
	n.ns.Echo(t, "tcp", ":8080", "node")
	n.stopped(web.Namespace, "tcp", "10.77.0.3:80", "isolated for egress, to a pod")
	n.stopped(web.Namespace, "tcp", "[fd00:77::3]:80", "isolated for egress, to a pod")
	n.stopped(web.Namespace, "udp", outsideAddress+":80", "isolated for egress, to outside")
	n.passes(web.Namespace, "tcp", nodeAddress+":8080", "isolated for egress, to its node")
	n.passes(web.Namespace, "tcp", "["+nodeAddress6+"]:8080", "isolated for egress, to its node")
	if in, out := n.programs().drops(Ingress), n.programs().drops(Egress); in < 8 || out < 3 {
		t.Errorf("%v and %v packets were counted as dropped", in, out)
	}
	if forged := n.programs().spoofed(); forged != 0 {
		t.Errorf("%v packets were dropped for their source", forged)
	}
	n.remove(policyObject(t, denyIngress), policyObject(t, denyEgress))
	n.passes(other.Namespace, "tcp", "10.77.0.2:80", "after the policies")
	n.passes(web.Namespace, "udp", outsideAddress+":80", "after the policies")
}

// Who is let in by one direction is answered in spite of the other.
func TestAnswersPass(t *testing.T) {
	n := newNode(t)
	web, client := n.pod(podObject("default", "web", 2, map[string]string{"app": "web"})), n.pod(podObject("default", "client", 3, map[string]string{"app": "client"}))
	for _, network := range []string{"tcp", "udp"} {
		web.Echo(t, network, ":80", "web")
		client.Echo(t, network, ":80", "client")
	}
	n.start(namespaceObject("default", nil), policyObject(t, denyIngress), policyObject(t, denyEgress),
		policyObject(t, `{metadata: {name: in}, spec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: client}}}]}]}}`),
		policyObject(t, `{metadata: {name: out}, spec: {podSelector: {matchLabels: {app: client}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: web}}}]}]}}`))
	for _, network := range []string{"tcp", "udp"} {
		n.passes(client.Namespace, network, "10.77.0.2:80", "the way that is open")
		n.passes(client.Namespace, network, "[fd00:77::2]:80", "the way that is open")
		n.stopped(web.Namespace, network, "10.77.0.3:80", "the other way")
		n.stopped(web.Namespace, network, "[fd00:77::3]:80", "the other way")
	}
}

// A changed policy cuts open connections that it forbids, and no others.
func TestOpenConnections(t *testing.T) {
	n := newNode(t)
	web := n.pod(podObject("default", "web", 2, map[string]string{"app": "web"}))
	good, bad := n.pod(podObject("default", "good", 3, map[string]string{"app": "good"})), n.pod(podObject("default", "bad", 4, map[string]string{"app": "bad"}))
	web.Echo(t, "tcp", ":80", "web")
	n.outside.Echo(t, "tcp", ":80", "outside")
	n.start(namespaceObject("default", nil))
	open := func(from *machine, address string) func(wait time.Duration) error {
		c, err := from.Dial("tcp", address, 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		ask := func(wait time.Duration) error { _, err := netnstest.Talk(c, wait); return err }
		if err := ask(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		return ask
	}
	fromGood, fromBad, own := open(good, "10.77.0.2:80"), open(bad, "10.77.0.2:80"), open(web, outsideAddress+":80")
	only := `{metadata: {name: only}, spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress, Egress], ingress: [{from: [{podSelector: {matchLabels: {app: %s}}}]}], egress: [{to: [{ipBlock: {cidr: %s}}]}]}}`
	n.apply(policyObject(t, sprintf(only, "good", "192.0.2.0/24")))
	if err := fromGood(5 * time.Second); err != nil {
		t.Errorf("a connection that the policy allows: %v", err)
	}
	if err := own(5 * time.Second); err != nil {
		t.Errorf("the pod's own connection: %v", err)
	}
	if err := fromBad(patience); err == nil {
		t.Error("a connection that the policy forbids goes on")
	}
	fromGood = open(good, "10.77.0.2:80")
	n.apply(policyObject(t, sprintf(only, "bad", "198.51.100.0/24")))
	if err := fromGood(patience); err == nil {
		t.Error("a connection that the policy forbids now goes on")
	}
	if err := own(patience); err == nil {
		t.Error("the pod's own connection, which the policy forbids now, goes on")
	}
	n.passes(bad.Namespace, "tcp", "10.77.0.2:80", "who is let in now")
}

// Pods come, change their labels and end; namespaces change theirs.
func TestPeersChange(t *testing.T) {
	n := newNode(t)
	web := n.pod(podObject("default", "web", 2, map[string]string{"app": "web"}, corev1.ContainerPort{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}))
	web.Echo(t, "tcp", ":8080", "web")
	web.Echo(t, "tcp", ":8081", "web")
	n.elsewhere("10.78.0.9")
	n.start(namespaceObject("default", nil), namespaceObject("team", nil), policyObject(t, `
metadata: {name: team}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress:
  - from: [{namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {role: client}}}]
    ports: [{port: http}]
`))
	client := podObject("team", "client", 9, nil)
	client.Status.PodIPs = []corev1.PodIP{{IP: outsideAddress}}
	for _, s := range []struct {
		what   string
		change any
		passes bool
	}{
		{"an unknown pod", nil, false},
		{"a pod without the label", client, false},
		{"a pod with the label, in a namespace without", labelled(client, "role", "client"), false},
		{"both", namespaceObject("team", map[string]string{"team": "a"}), true},
		{"the pod without its label", labelled(client, "role", "other"), false},
		{"with it again", labelled(client, "role", "client"), true},
		{"with the network of its node", onHost(labelled(client, "role", "client")), false},
		{"without", labelled(client, "role", "client"), true},
		{"ended", ended(labelled(client, "role", "client")), false},
		{"running", labelled(client, "role", "client"), true},
		{"the namespace without its label", namespaceObject("team", nil), false},
	} {
		if s.change != nil {
			n.apply(s.change)
		}
		if s.passes {
			n.passes(n.outside, "tcp", "10.77.0.2:8080", s.what)
		} else {
			n.stopped(n.outside, "tcp", "10.77.0.2:8080", s.what)
		}
		n.stopped(n.outside, "tcp", "10.77.0.2:8081", s.what+", another port")
	}
}

// The policy of the book, seed 002, to the letter.
func TestBookPolicy(t *testing.T) {
	n := newNode(t)
	db := n.pod(podObject("default", "db", 2, map[string]string{"role": "db"}))
	front := n.pod(podObject("default", "front", 3, map[string]string{"role": "frontend"}))
	back := n.pod(podObject("default", "back", 4, map[string]string{"role": "backend"}))
	mine := n.pod(podObject("mine", "any", 5, nil))
	stranger := n.pod(podObject("strange", "front", 6, map[string]string{"role": "frontend"}))
	for _, a := range []string{"172.17.0.9", "172.17.1.9", "172.17.2.9", "172.18.0.9", "10.0.0.9", "10.0.1.9"} {
		n.elsewhere(a)
		for _, port := range []string{":5978", ":5979"} {
			n.outside.Echo(t, "tcp", a+port, a)
		}
	}
	db.Echo(t, "tcp", ":6379", "db")
	db.Echo(t, "tcp", ":6380", "db")
	db.Echo(t, "udp", ":6379", "db")
	n.start(namespaceObject("default", nil), namespaceObject("mine", map[string]string{"project": "myproject"}), namespaceObject("strange", nil), policyObject(t, bookPolicy))
	for _, m := range []*machine{front, mine} {
		n.passes(m.Namespace, "tcp", "10.77.0.2:6379", "a pod that is let in")
		n.stopped(m.Namespace, "tcp", "10.77.0.2:6380", "another port")
		n.stopped(m.Namespace, "udp", "10.77.0.2:6379", "another protocol")
	}
	for _, m := range []*machine{back, stranger} {
		n.stopped(m.Namespace, "tcp", "10.77.0.2:6379", "a pod that is not let in")
	}
	for from, passes := range map[string]bool{"172.17.0.9": true, "172.17.1.9": false, "172.17.2.9": true, "172.18.0.9": false} {
		n.from(from, "10.77.0.2:6379", passes)
		n.from(from, "10.77.0.2:6380", false)
	}
	n.passes(db.Namespace, "tcp", "10.0.0.9:5978", "a network that is let out to")
	n.stopped(db.Namespace, "tcp", "10.0.0.9:5979", "another port of it")
	n.stopped(db.Namespace, "tcp", "10.0.1.9:5978", "another network")
	n.stopped(db.Namespace, "tcp", "172.17.0.9:5978", "who is let in, asked")
	n.passes(front.Namespace, "tcp", "10.0.1.9:5979", "pods that it does not select")
}

const bookPolicy = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: test-network-policy
  namespace: default
spec:
  podSelector:
    matchLabels:
      role: db
  policyTypes:
  - Ingress
  - Egress
  ingress:
  - from:
    - ipBlock:
        cidr: 172.17.0.0/16
        except:
        - 172.17.1.0/24
    - namespaceSelector:
        matchLabels:
          project: myproject
    - podSelector:
        matchLabels:
          role: frontend
    ports:
    - protocol: TCP
      port: 6379
  egress:
  - to:
    - ipBlock:
        cidr: 10.0.0.0/24
    ports:
    - protocol: TCP
      port: 5978
`
