package netpol

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// cluster is the pods of the tables' tests.
func cluster(t testing.TB) *world {
	t.Helper()
	w := newWorld()
	tcp := func(name string, port int32) corev1.ContainerPort {
		return corev1.ContainerPort{Name: name, ContainerPort: port, Protocol: corev1.ProtocolTCP}
	}
	for _, o := range []any{
		namespaceObject("default", map[string]string{"kubernetes.io/metadata.name": "default"}),
		namespaceObject("a", map[string]string{"team": "a"}),
		namespaceObject("b", map[string]string{"team": "b"}),
		podObject("default", "self", 1, map[string]string{"app": "self"}, tcp("http", 8080), tcp("admin", 9090),
			corev1.ContainerPort{Name: "dns", ContainerPort: 5353, Protocol: corev1.ProtocolUDP}),
		podObject("default", "web", 2, map[string]string{"app": "web"}, tcp("http", 80)),
		podObject("a", "web", 3, map[string]string{"app": "web"}, tcp("http", 81)),
		podObject("a", "db", 4, map[string]string{"app": "db"}, tcp("sql", 5432)),
		podObject("b", "web", 5, map[string]string{"app": "web"}),
		onHost(podObject("a", "host", 6, map[string]string{"app": "web"}, tcp("http", 82))),
		ended(podObject("a", "ended", 7, map[string]string{"app": "web"}, tcp("http", 83))),
		podObject("unknown", "web", 8, map[string]string{"app": "web"}), // whose namespace is not known
	} {
		w.update(o, false)
	}
	return w
}

// The table of a pod "self" under policies: what may pass, as the kernel looks it up.
func TestTables(t *testing.T) {
	for _, tt := range []struct {
		name      string
		specs     []string
		direction Direction
		isolated  bool
		want      string // without the IPv6 addresses of pods
	}{
		{"no policy", nil, Ingress, false, ""},
		{"one for other pods", []string{`{podSelector: {matchLabels: {app: web}}}`}, Ingress, false, ""},
		{"empty selector, no rules", []string{`{podSelector: {}}`}, Ingress, true, ""},
		{"policyTypes left out: not for egress", []string{`{podSelector: {}}`}, Egress, false, ""},
		{"policyTypes left out: for egress with rules of it", []string{`{podSelector: {}, egress: [{}]}`}, Egress, true, "0.0.0.0/0: all\n::/0: all"},
		{"policyTypes left out: for ingress, too", []string{`{podSelector: {}, egress: [{}]}`}, Ingress, true, ""},
		{"policyTypes of egress: not for ingress", []string{`{podSelector: {}, policyTypes: [Egress], ingress: [{}]}`}, Ingress, false, ""},
		{"policyTypes of egress without rules", []string{`{podSelector: {}, policyTypes: [Egress]}`}, Egress, true, ""},
		{"policyTypes of ingress with rules of egress", []string{`{podSelector: {}, policyTypes: [Ingress], egress: [{}]}`}, Egress, false, ""},
		{"expressions", []string{`{podSelector: {matchExpressions: [{key: app, operator: In, values: [self, other]}]}, ingress: [{}]}`}, Ingress, true, "0.0.0.0/0: all\n::/0: all"},
		{"missing from", []string{`{podSelector: {}, ingress: [{ports: [{port: 80}]}]}`}, Ingress, true, "0.0.0.0/0: TCP 80\n::/0: TCP 80"},
		{"empty from", []string{`{podSelector: {}, ingress: [{from: [], ports: [{port: 80}]}]}`}, Ingress, true, "0.0.0.0/0: TCP 80\n::/0: TCP 80"},
		{"empty ports", []string{`{podSelector: {}, ingress: [{ports: []}]}`}, Ingress, true, "0.0.0.0/0: all\n::/0: all"},
		{"pods of the policy's namespace", []string{`{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}`}, Ingress, true, "10.77.0.2/32: all"},
		{"all pods of the policy's namespace", []string{`{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}`}, Ingress, true, "10.77.0.1/32: all\n10.77.0.2/32: all"},
		{"pods of namespaces", []string{`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: a}}}]}]}`}, Ingress, true, "10.77.0.3/32: all\n10.77.0.4/32: all"},
		{"all namespaces", []string{`{podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}`}, Ingress, true,
			"10.77.0.1/32: all\n10.77.0.2/32: all\n10.77.0.3/32: all\n10.77.0.4/32: all\n10.77.0.5/32: all"},
		{"a namespace by its name", []string{`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}}]}]}`}, Ingress, true, "10.77.0.1/32: all\n10.77.0.2/32: all"},
		{"pods AND namespaces in one peer", []string{`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {app: web}}}]}]}`}, Ingress, true, "10.77.0.3/32: all"},
		{"pods OR namespaces in two", []string{`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: a}}}, {podSelector: {matchLabels: {app: web}}}]}]}`}, Ingress, true,
			"10.77.0.2/32: all\n10.77.0.3/32: all\n10.77.0.4/32: all"},
		{"a block", []string{`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24}}]}]}`}, Ingress, true, "192.0.2.0/24: all"},
		{"a block with parts left out", []string{`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.64/26, 192.0.2.1/32]}}]}]}`}, Ingress, true,
			"192.0.2.0/24: all\n192.0.2.1/32: nothing\n192.0.2.64/26: nothing"},
		{"what one block leaves out another lets in", []string{`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24, except: [192.0.2.64/26]}}, {ipBlock: {cidr: 192.0.2.64/28}}]}]}`}, Ingress, true,
			"192.0.2.0/24: all\n192.0.2.64/26: nothing\n192.0.2.64/28: all"},
		{"a pod in a part left out", []string{`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.77.0.0/16, except: [10.77.0.2/32]}}], ports: [{port: 1}]}, {from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 2}]}]}`}, Ingress, true,
			"10.77.0.0/16: TCP 1\n10.77.0.2/32: TCP 2"},
		{"a pod in a block", []string{`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.77.0.0/16}}], ports: [{port: 1}]}, {from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 2}]}]}`}, Ingress, true,
			"10.77.0.0/16: TCP 1\n10.77.0.2/32: TCP 1, TCP 2"},
		{"IPv6", []string{`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: "2001:db8::/32", except: ["2001:db8:1::/48"]}}]}]}`}, Ingress, true, "2001:db8::/32: all\n2001:db8:1::/48: nothing"},
		{"all of IPv6 is not IPv4", []string{`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: "::/0"}}]}]}`}, Ingress, true, "0.0.0.0/0: nothing\n::/0: all"},
		{"IPv4 in IPv6", []string{`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: "::ffff:192.0.2.0/120"}}]}]}`}, Ingress, true, "192.0.2.0/24: all"},
		{"protocols", []string{`{podSelector: {}, ingress: [{ports: [{protocol: UDP}, {protocol: SCTP, port: 7}, {protocol: TCP, port: 53}]}]}`}, Ingress, true,
			"0.0.0.0/0: TCP 53, UDP, SCTP 7\n::/0: TCP 53, UDP, SCTP 7"},
		{"a range", []string{`{podSelector: {}, ingress: [{ports: [{port: 32000, endPort: 32003}]}]}`}, Ingress, true, "0.0.0.0/0: TCP 32000-32003\n::/0: TCP 32000-32003"},
		{"a range of several prefixes", []string{`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24}}], ports: [{port: 5, endPort: 9}]}]}`}, Ingress, true, "192.0.2.0/24: TCP 5, TCP 6-7, TCP 8-9"},
		{"a port in a range", []string{
			`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24}}], ports: [{port: 8, endPort: 9}]}]}`,
			`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 198.51.100.0/24}}], ports: [{port: 8}]}]}`}, Ingress, true,
			"192.0.2.0/24: TCP 8-9, TCP 8\n198.51.100.0/24: TCP 8"},
		{"named ports of ingress are the pod's own", []string{`{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: http}, {port: dns, protocol: UDP}]}]}`}, Ingress, true, "10.77.0.2/32: TCP 8080, UDP 5353"},
		{"a name of another protocol", []string{`{podSelector: {}, ingress: [{ports: [{port: dns}]}]}`}, Ingress, true, ""},
		{"a name that the pod has not", []string{`{podSelector: {}, ingress: [{ports: [{port: sql}, {port: 7}]}]}`}, Ingress, true, "0.0.0.0/0: TCP 7\n::/0: TCP 7"},
		{"named ports of egress are the others'", []string{`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {}}], ports: [{port: http}, {port: 7}]}]}`}, Egress, true,
			"10.77.0.1/32: TCP 7, TCP 8080\n10.77.0.2/32: TCP 7, TCP 80\n10.77.0.3/32: TCP 7, TCP 81\n10.77.0.4/32: TCP 7\n10.77.0.5/32: TCP 7"},
		{"named ports of egress to everybody", []string{`{podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: sql}]}]}`}, Egress, true, "10.77.0.4/32: TCP 5432"},
		{"named ports of egress to a block", []string{`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.77.0.0/30, except: [10.77.0.2/32]}}], ports: [{port: http}]}]}`}, Egress, true,
			"10.77.0.1/32: TCP 8080\n10.77.0.3/32: TCP 81"},
		{"rules and policies add up", []string{
			`{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 1}]}, {from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 2}]}]}`,
			`{podSelector: {matchLabels: {app: self}}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: web}}}], ports: [{port: 3, protocol: UDP}]}]}`}, Ingress, true,
			"10.77.0.2/32: TCP 1, TCP 2, UDP 3\n10.77.0.3/32: UDP 3\n10.77.0.5/32: UDP 3"},
		{"a block that cannot be read lets nobody in", []string{`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: nonsense}}]}]}`}, Ingress, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := cluster(t)
			for i, spec := range tt.specs {
				w.update(policyObject(t, sprintf("{metadata: {name: p%d}, spec: %s}", i, spec)), false)
			}
			key, g := w.groupOf(w.pods[types.NamespacedName{Namespace: "default", Name: "self"}], tt.direction)
			if (key != "") != tt.isolated {
				t.Fatalf("isolated as %q, want %v", key, tt.isolated)
			}
			if !tt.isolated {
				return
			}
			g.fill(w)
			var lines []string
			for _, line := range strings.Split(g.table.String(), "\n") {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "fd00:77::") {
					lines = append(lines, line)
				}
			}
			if got := strings.Join(lines, "\n"); got != tt.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}

// A pod's IPv6 addresses get what its IPv4 ones do.
func TestBothFamilies(t *testing.T) {
	t.Parallel()
	w := cluster(t)
	w.update(policyObject(t, `{metadata: {name: p}, spec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}}`), false)
	_, g := w.groupOf(w.pods[types.NamespacedName{Namespace: "default", Name: "self"}], Ingress)
	g.fill(w)
	for address, want := range map[string]bool{"10.77.0.2": true, "fd00:77::2": true, "10.77.0.3": false, "fd00:77::3": false} {
		if got := g.table.allows(netip.MustParseAddr(address), protocolTCP, 1); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

// More ranges of ports than bits: nothing passes, and it is said.
func TestTooManyRanges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ranges int
		passes bool
	}{{maxRanges, true}, {maxRanges + 1, false}} {
		w := cluster(t)
		var ports strings.Builder
		for i := range tt.ranges {
			ports.WriteString(sprintf("{port: %d},", 1000+i))
		}
		w.update(policyObject(t, sprintf("{metadata: {name: p}, spec: {podSelector: {}, ingress: [{ports: [%s]}]}}", ports.String())), false)
		_, g := w.groupOf(w.pods[types.NamespacedName{Namespace: "default", Name: "self"}], Ingress)
		g.fill(w)
		for _, port := range []int{1000, 1000 + tt.ranges - 1} {
			if got := g.table.allows(netip.MustParseAddr("192.0.2.1"), protocolTCP, uint16(port)); got != tt.passes {
				t.Errorf("%d ranges, port %d: %v", tt.ranges, port, got)
			}
		}
		if g.ranges != tt.ranges {
			t.Errorf("%d ranges are counted as %d", tt.ranges, g.ranges)
		}
	}
}

// Any range is cut into prefixes that have its ports and no others.
func TestRangesAsPrefixes(t *testing.T) {
	t.Parallel()
	for _, r := range []Range{{6, 0, 65535}, {6, 0, 0}, {6, 65535, 65535}, {6, 1, 65534}, {6, 5, 9}, {17, 32000, 32768}, {6, 1023, 1024}, {132, 8, 15}} {
		n := 0
		for _, p := range r.prefixes() {
			first, last := p.ends()
			if !r.covers(p) {
				t.Errorf("%v: %v is not in it", r, p)
			}
			n += int(last) - int(first) + 1
		}
		if want := int(r.Last) - int(r.First) + 1; n != want {
			t.Errorf("%v: %d ports in prefixes, want %d", r, n, want)
		}
	}
}
