package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/registry"
)

func parse(t *testing.T, spec string) *corev1.Service {
	t.Helper()
	var s corev1.Service
	if err := yaml.UnmarshalStrict([]byte("metadata: {name: web, namespace: default}\nspec: "+spec), &s); err != nil {
		t.Fatal(err)
	}
	fill(&s)
	pair(&s.Spec)
	return &s
}

func TestValidate(t *testing.T) {
	t.Parallel()
	const label = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	for name, c := range map[string]struct {
		spec string
		want []string
	}{
		"good":                        {"{ports: [{port: 80}]}", nil},
		"headless":                    {"{clusterIP: None}", nil},
		"external":                    {"{type: ExternalName, externalName: example.com.}", nil},
		"no ports":                    {"{}", []string{"spec.ports: Required value"}},
		"bad type":                    {"{type: Other, ports: [{port: 80}]}", []string{`spec.type: Unsupported value: "Other": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"`}},
		"bad port":                    {"{ports: [{port: 0, targetPort: 80}]}", []string{"spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"}},
		"unnamed":                     {"{ports: [{port: 80}, {port: 81, name: a}]}", []string{"spec.ports[0].name: Required value"}},
		"same name":                   {"{ports: [{port: 80, name: a}, {port: 81, name: a}]}", []string{`spec.ports[1].name: Duplicate value: "a"`}},
		"bad name":                    {"{ports: [{port: 80, name: A}]}", []string{`spec.ports[0].name: Invalid value: "A": ` + label}},
		"same port":                   {"{ports: [{port: 80, name: a}, {port: 80, name: b}]}", []string{`spec.ports[1]: Duplicate value: {"protocol":"TCP","port":80,"targetPort":0}`}},
		"same number, other protocol": {"{ports: [{port: 53, name: a}, {port: 53, name: b, protocol: UDP}]}", nil},
		"target":                      {"{ports: [{port: 80, targetPort: Not_A_Name}]}", []string{`spec.ports[0].targetPort: Invalid value: "Not_A_Name": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)`}},
		"node port":                   {"{ports: [{port: 80, nodePort: 30000}]}", []string{"spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"}},
		"same node port":              {"{type: NodePort, ports: [{port: 80, name: a, nodePort: 30000}, {port: 81, name: b, nodePort: 30000}]}", []string{"spec.ports[1].nodePort: Duplicate value: 30000"}},
		"headless balancer":           {"{type: LoadBalancer, clusterIP: None, ports: [{port: 80}]}", []string{`spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for LoadBalancer services`}},
		"agent's port":                {"{type: LoadBalancer, ports: [{port: 10250}]}", nil},
		"external with ip":            {"{type: ExternalName, externalName: a.b, clusterIP: 10.96.0.1}", []string{"spec.clusterIPs: Forbidden: may not be set for ExternalName services"}},
		"external nowhere":            {"{type: ExternalName}", []string{"spec.externalName: Required value"}},
		"affinity":                    {"{sessionAffinity: Cookie, ports: [{port: 80}]}", []string{`spec.sessionAffinity: Unsupported value: "Cookie": supported values: "ClientIP", "None"`}},
		"affinity timeout":            {"{sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 90000}}, ports: [{port: 80}]}", []string{"spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 90000: must be greater than 0 and less than 86400"}},
		"bad ip":                      {"{clusterIP: 1.2.3, ports: [{port: 80}]}", []string{`spec.clusterIPs[0]: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`}},
		"first ip":                    {"{clusterIP: 10.96.0.1, clusterIPs: [10.96.0.2], ports: [{port: 80}]}", []string{`spec.clusterIPs: Invalid value: ["10.96.0.2"]: first value must match ` + "`clusterIP`"}},
		"family of ip":                {"{clusterIP: 10.96.0.1, ipFamilies: [IPv6], ports: [{port: 80}]}", []string{`spec.clusterIPs[0]: Invalid value: "10.96.0.1": expected an IPv6 value as indicated by ` + "`ipFamilies[0]`"}},
		"families twice":              {"{ipFamilies: [IPv4, IPv4], ports: [{port: 80}]}", []string{`spec.ipFamilies[1]: Duplicate value: "IPv4"`}},
		"external ip":                 {"{externalIPs: [127.0.0.1], ports: [{port: 80}]}", []string{`spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`}},
		"ranges":                      {"{loadBalancerSourceRanges: [10.0.0.0/8], ports: [{port: 80}]}", []string{"spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"}},
		"class":                       {"{loadBalancerClass: a, ports: [{port: 80}]}", []string{"spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"}},
		"outside policy":              {"{externalTrafficPolicy: Local, ports: [{port: 80}]}", []string{`spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services`}},
		"inside policy":               {"{internalTrafficPolicy: Near, ports: [{port: 80}]}", []string{`spec.internalTrafficPolicy: Unsupported value: "Near": supported values: "Cluster", "Local"`}},
		"health port":                 {"{type: LoadBalancer, healthCheckNodePort: 30001, ports: [{port: 80}]}", []string{"spec.healthCheckNodePort: Invalid value: 30001: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, e := range validate(parse(t, c.spec)) {
				got = append(got, e.Error())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
	}
}

// pools is an Allocator over two ranges, that remembers what it gave.
type pools struct {
	taken map[registry.Reservation]bool
	next  int
}

func (p *pools) Reserve(_ context.Context, r registry.Reservation) error {
	if p.taken[r] && r.Pool == poolPorts {
		return errTakenPort
	}
	if p.taken[r] {
		return errors.New("provided IP is already allocated")
	}
	p.taken[r] = true
	return nil
}

func (p *pools) Next(_ context.Context, pool string) (string, error) {
	p.next++
	v := map[string]string{poolIPs + "/IPv4": "10.96.0.%d", poolIPs + "/IPv6": "fd00::%d", poolPorts: "3000%d"}[pool]
	v = fmt.Sprintf(v, p.next)
	p.taken[registry.Reservation{Pool: strings.Split(pool, "/")[0], Value: v}] = true
	return v, nil
}

func (p *pools) Free(r registry.Reservation) { delete(p.taken, r) }

func (p *pools) list() string {
	var all []string
	for r := range p.taken {
		all = append(all, r.Value)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

var (
	single = allocation{families: []corev1.IPFamily{"IPv4"}}
	dual   = allocation{families: []corev1.IPFamily{"IPv4", "IPv6"}}
)

func TestAllocate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		allocation allocation
		spec       string
		ips        string
		ports      []int32
		health     int32
		held       string
	}{
		"one address":       {single, "{ports: [{port: 80}]}", "10.96.0.1", []int32{0}, 0, "10.96.0.1"},
		"asked for":         {single, "{clusterIP: 10.96.0.10, ports: [{port: 80}]}", "10.96.0.10", []int32{0}, 0, "10.96.0.10"},
		"headless":          {single, "{clusterIP: None, ports: [{port: 80}]}", "None", []int32{0}, 0, ""},
		"external name":     {single, "{type: ExternalName, externalName: a.b}", "", nil, 0, ""},
		"node port":         {single, "{type: NodePort, ports: [{port: 80}]}", "10.96.0.1", []int32{30002}, 0, "10.96.0.1 30002"},
		"node port given":   {single, "{type: NodePort, ports: [{port: 80, nodePort: 31000}]}", "10.96.0.1", []int32{31000}, 0, "10.96.0.1 31000"},
		"twins share":       {single, "{type: NodePort, ports: [{port: 53, name: a}, {port: 53, name: b, protocol: UDP}]}", "10.96.0.1", []int32{30002, 30002}, 0, "10.96.0.1 30002"},
		"balancer":          {single, "{type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]}", "10.96.0.1", []int32{30002}, 30003, "10.96.0.1 30002 30003"},
		"balancer without":  {single, "{type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 80}]}", "10.96.0.1", []int32{0}, 0, "10.96.0.1"},
		"dual":              {dual, "{ipFamilyPolicy: PreferDualStack, ports: [{port: 80}]}", "10.96.0.1 fd00::2", []int32{0}, 0, "10.96.0.1 fd00::2"},
		"dual where it may": {single, "{ipFamilyPolicy: PreferDualStack, ports: [{port: 80}]}", "10.96.0.1", []int32{0}, 0, "10.96.0.1"},
		"second family":     {dual, "{ipFamilies: [IPv6], ports: [{port: 80}]}", "fd00::1", []int32{0}, 0, "fd00::1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := &pools{taken: map[registry.Reservation]bool{}}, parse(t, c.spec)
			if err := c.allocation.allocate(t.Context(), p, s, nil); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(s.Spec.ClusterIPs, " "); got != c.ips {
				t.Errorf("addresses %q, want %q", got, c.ips)
			}
			if len(s.Spec.ClusterIPs) > 0 && s.Spec.ClusterIP != s.Spec.ClusterIPs[0] {
				t.Errorf("clusterIP %q", s.Spec.ClusterIP)
			}
			for i, n := range c.ports {
				if s.Spec.Ports[i].NodePort != n {
					t.Errorf("node port %d, want %d", s.Spec.Ports[i].NodePort, n)
				}
			}
			if s.Spec.HealthCheckNodePort != c.health {
				t.Errorf("health port %d", s.Spec.HealthCheckNodePort)
			}
			if got := p.list(); got != c.held {
				t.Errorf("reserved %q, want %q", got, c.held)
			}
			if errs := validate(s); len(errs) > 0 {
				t.Errorf("not valid: %v", errs)
			}
			for _, r := range c.allocation.reservations(s) {
				p.Free(r)
			}
			if got := p.list(); got != "" {
				t.Errorf("a deletion leaves %q reserved", got)
			}
		})
	}
}

func TestAllocateRefuses(t *testing.T) {
	t.Parallel()
	taken := func() *pools {
		return &pools{taken: map[registry.Reservation]bool{{Pool: poolIPs, Value: "10.96.0.1"}: true, {Pool: poolPorts, Value: "30000"}: true}}
	}
	for name, c := range map[string]struct{ spec, want string }{
		"address": {"{clusterIP: 10.96.0.1, ports: [{port: 80}]}", `Service "web" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.1"]: failed to allocate IP 10.96.0.1: provided IP is already allocated`},
		"port":    {"{type: NodePort, ports: [{port: 80, nodePort: 30000}]}", `Service "web" is invalid: spec.ports[0].nodePort: Invalid value: 30000: provided port is already allocated`},
		"dual":    {"{ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}", `Service "web" is invalid: spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services`},
		"family":  {"{ipFamilies: [IPv6], ports: [{port: 80}]}", `Service "web" is invalid: spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := single.allocate(t.Context(), taken(), parse(t, c.spec), nil)
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

// What is said of families follows what the cluster has, and comes before what else is wrong.
func TestFamilies(t *testing.T) {
	t.Parallel()
	const mixed = "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple "
	for name, c := range map[string]struct {
		allocation allocation
		spec, want string
	}{
		"two families":           {dual, "{ipFamilies: [IPv6, IPv4], sessionAffinity: X}", mixed + "IP families are specified"},
		"two addresses":          {dual, "{clusterIP: 10.96.0.9, clusterIPs: [10.96.0.9, 'fd00::9']}", mixed + "cluster IPs are specified"},
		"two families are one":   {single, "{ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack}", "[spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services, spec.ipFamilies[1]: Invalid value: \"IPv6\": not configured on this cluster]"},
		"other address":          {single, "{clusterIP: 'fd00::9'}", "spec.clusterIPs[0]: Invalid value: [\"fd00::9\"]: IPv6 is not configured on this cluster"},
		"second address":         {single, "{clusterIP: 10.96.0.9, clusterIPs: [10.96.0.9, 'fd00::9'], ipFamilyPolicy: PreferDualStack}", "spec.clusterIPs[1]: Invalid value: [\"10.96.0.9\",\"fd00::9\"]: IPv6 is not configured on this cluster"},
		"no address at all":      {single, "{clusterIP: 1.2.3, sessionAffinity: X}", `spec.clusterIPs[0]: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`},
		"headless, of any":       {single, "{clusterIP: None}", ""},
		"headless, with pods":    {single, "{clusterIP: None, selector: {a: b}, ipFamilies: [IPv6]}", `spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster`},
		"named twice, two ports": {single, "{type: NodePort, ports: [{name: a, port: 80, nodePort: 30000}, {name: b, port: 81, nodePort: 30000, protocol: UDP}]}", "spec.ports[1].nodePort: Invalid value: 30000: provided port is already allocated"},
		"named twice, one port":  {single, "{type: NodePort, ports: [{name: a, port: 80, nodePort: 30000}, {name: b, port: 80, nodePort: 30000, protocol: UDP}]}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, want := parse(t, c.spec), ""
			if c.want != "" {
				want = `Service "web" is invalid: ` + c.want
			}
			err := c.allocation.allocate(t.Context(), &pools{taken: map[registry.Reservation]bool{}}, s, nil)
			if got := fmt.Sprint(err); got != want && !(want == "" && err == nil) {
				t.Errorf("got %s\nwant %s", got, want)
			}
			if name == "headless, of any" && (len(s.Spec.IPFamilies) != 2 || *s.Spec.IPFamilyPolicy != corev1.IPFamilyPolicyRequireDualStack) {
				t.Errorf("families %v, %s", s.Spec.IPFamilies, *s.Spec.IPFamilyPolicy)
			}
		})
	}
}

// An update keeps, takes and gives back.
func TestUpdate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, now string
		ips      string
		port     int32
		held     string
		errs     []string
	}{
		"applied again":      {"{type: NodePort, ports: [{port: 80}]}", "{type: NodePort, ports: [{port: 80}]}", "10.96.0.1", 30002, "10.96.0.1 30002", nil},
		"to a node port":     {"{ports: [{port: 80}]}", "{type: NodePort, ports: [{port: 80}]}", "10.96.0.1", 30002, "10.96.0.1 30002", nil},
		"from a node port":   {"{type: NodePort, ports: [{port: 80}]}", "{ports: [{port: 80, nodePort: 30002}]}", "10.96.0.1", 0, "10.96.0.1", nil},
		"another node port":  {"{type: NodePort, ports: [{port: 80}]}", "{type: NodePort, ports: [{port: 80, nodePort: 31000}]}", "10.96.0.1", 31000, "10.96.0.1 31000", nil},
		"another port":       {"{type: NodePort, ports: [{port: 80}]}", "{type: NodePort, ports: [{port: 81}]}", "10.96.0.1", 30002, "10.96.0.1 30002", nil},
		"another name":       {"{type: NodePort, ports: [{port: 80, name: a}]}", "{type: NodePort, ports: [{port: 80, name: b}]}", "10.96.0.1", 30003, "10.96.0.1 30003", nil},
		"to an outside name": {"{ports: [{port: 80}]}", "{type: ExternalName, externalName: a.b, clusterIP: 10.96.0.1, ports: [{port: 80}]}", "", 0, "", nil},
		"from outside":       {"{type: ExternalName, externalName: a.b}", "{ports: [{port: 80}]}", "10.96.0.1", 0, "10.96.0.1", nil},
		"another address": {"{ports: [{port: 80}]}", "{clusterIP: 10.96.0.9, ports: [{port: 80}]}", "10.96.0.9", 0, "", []string{ // nothing of a refused plan is committed
			`spec.clusterIPs[0]: Invalid value: ["10.96.0.9"]: may not change once set`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &pools{taken: map[registry.Reservation]bool{}}
			old, s := parse(t, c.old), parse(t, c.now)
			if err := single.allocate(t.Context(), p, old, nil); err != nil {
				t.Fatal(err)
			}
			prepareUpdate(s, old)
			if err := single.allocate(t.Context(), p, s, old); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(s.Spec.ClusterIPs, " "); got != c.ips {
				t.Errorf("addresses %q, want %q", got, c.ips)
			}
			if s.Spec.Ports[0].NodePort != c.port {
				t.Errorf("node port %d, want %d", s.Spec.Ports[0].NodePort, c.port)
			}
			if got := p.list(); got != c.held {
				t.Errorf("reserved %q, want %q", got, c.held)
			}
			var errs []string
			for _, e := range append(validate(s), validateUpdate(s, old)...) {
				errs = append(errs, e.Error())
			}
			if !slices.Equal(errs, c.errs) {
				t.Errorf("errors %q, want %q", errs, c.errs)
			}
		})
	}
}

func TestSingleStackAgain(t *testing.T) {
	t.Parallel()
	p := &pools{taken: map[registry.Reservation]bool{}}
	old := parse(t, "{ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}")
	if err := dual.allocate(t.Context(), p, old, nil); err != nil {
		t.Fatal(err)
	}
	s := old.DeepCopy()
	policy := corev1.IPFamilyPolicySingleStack
	s.Spec.IPFamilyPolicy = &policy
	prepareUpdate(s, old)
	if err := dual.allocate(t.Context(), p, s, old); err != nil {
		t.Fatal(err)
	}
	if errs := append(validate(s), validateUpdate(s, old)...); len(errs) > 0 {
		t.Error(errs)
	}
	if got := p.list(); got != "10.96.0.1" {
		t.Errorf("reserved %q", got)
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		spec, status string
		want         []string
	}{
		"cluster":   {"{clusterIP: 10.96.0.1, selector: {b: c, a: b}, ports: [{port: 80}, {port: 53, protocol: UDP}]}", "", []string{"web", "ClusterIP", "10.96.0.1", "<none>", "80/TCP,53/UDP", "<unknown>", "a=b,b=c"}},
		"headless":  {"{clusterIP: None}", "", []string{"web", "ClusterIP", "None", "<none>", "<none>", "<unknown>", "<none>"}},
		"node port": {"{type: NodePort, clusterIP: 10.96.0.1, ports: [{port: 80, nodePort: 30000}]}", "", []string{"web", "NodePort", "10.96.0.1", "<none>", "80:30000/TCP", "<unknown>", "<none>"}},
		"pending":   {"{type: LoadBalancer, clusterIP: 10.96.0.1, ports: [{port: 80}]}", "", []string{"web", "LoadBalancer", "10.96.0.1", "<pending>", "80/TCP", "<unknown>", "<none>"}},
		"balanced":  {"{type: LoadBalancer, clusterIP: 10.96.0.1, externalIPs: [192.0.2.9], ports: [{port: 80}]}", "192.0.2.1", []string{"web", "LoadBalancer", "10.96.0.1", "192.0.2.1,192.0.2.9", "80/TCP", "<unknown>", "<none>"}},
		"outside":   {"{type: ExternalName, externalName: a.b}", "", []string{"web", "ExternalName", "<none>", "a.b", "<none>", "<unknown>", "<none>"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := parse(t, c.spec)
			if c.status != "" {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: c.status}}
			}
			got := cells(s, now)
			for i := range c.want {
				if got[i] != c.want[i] {
					t.Errorf("%s: got %v, want %s", columns[i].Name, got[i], c.want[i])
				}
			}
		})
	}
}
