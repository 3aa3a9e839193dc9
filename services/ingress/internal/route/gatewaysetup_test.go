package route

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"howdah.dev/kit/object"
)

// sources reads manifests: what they leave out is of the namespace shop, and each is younger than the one before.
func sources(t testing.TB, text string) GatewaySources {
	t.Helper()
	from := GatewaySources{Version: "v1.5.1", Addresses: []gatewayv1.GatewayStatusAddress{{Type: ptr.To(gatewayv1.IPAddressType), Value: "192.0.2.1"}}}
	class := &gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "howdah", Generation: 1}, Spec: gatewayv1.GatewayClassSpec{ControllerName: GatewayController}}
	from.Classes = append(from.Classes, class)
	for n, doc := range strings.Split(text, "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		read := func(o object.Object) {
			if err := yaml.UnmarshalStrict([]byte(doc), o); err != nil {
				t.Fatalf("%v:\n%s", err, doc)
			}
			if o.GetNamespace() == "" && kind.Kind != "GatewayClass" {
				o.SetNamespace("shop")
			}
			o.SetUID(types.UID(fmt.Sprint("uid", n)))
			o.SetGeneration(1)
			if created := o.GetCreationTimestamp(); created.IsZero() {
				o.SetCreationTimestamp(metav1.NewTime(now.Add(time.Duration(n-1000) * time.Minute)))
			}
		}
		switch kind.Kind {
		case "GatewayClass":
			from.Classes = append(from.Classes, added(read, &gatewayv1.GatewayClass{}))
		case "Gateway":
			from.Gateways = append(from.Gateways, added(read, &gatewayv1.Gateway{}))
		case "ListenerSet":
			from.ListenerSets = append(from.ListenerSets, added(read, &gatewayv1.ListenerSet{}))
		case "HTTPRoute":
			from.HTTPRoutes = append(from.HTTPRoutes, added(read, &gatewayv1.HTTPRoute{}))
		case "GRPCRoute":
			from.GRPCRoutes = append(from.GRPCRoutes, added(read, &gatewayv1.GRPCRoute{}))
		case "TLSRoute":
			from.TLSRoutes = append(from.TLSRoutes, added(read, &gatewayv1.TLSRoute{}))
		case "ReferenceGrant":
			from.Grants = append(from.Grants, added(read, &gatewayv1.ReferenceGrant{}))
		case "BackendTLSPolicy":
			from.Policies = append(from.Policies, added(read, &gatewayv1.BackendTLSPolicy{}))
		default:
			t.Fatalf("the kind %q:\n%s", kind.Kind, doc)
		}
	}
	return from
}

func added[T object.Object](read func(object.Object), o T) T { read(o); return o }

// told is the status of everything, a line a condition.
func told(s Statuses) []string {
	var out []string
	add := func(of string, conditions []metav1.Condition) {
		for _, c := range conditions {
			if c.ObservedGeneration != 1 {
				out = append(out, of+" has a condition of no generation: "+c.Type)
			}
			out = append(out, fmt.Sprintf("%s %s=%s %s", of, c.Type, c.Status, c.Reason))
		}
	}
	for key, c := range s.Classes {
		add("GatewayClass "+key, c.Conditions)
	}
	for key, g := range s.Gateways {
		add("Gateway "+key, g.Conditions)
		for _, a := range g.Addresses {
			out = append(out, "Gateway "+key+" at "+a.Value)
		}
		for _, l := range g.Listeners {
			add("Gateway "+key+"#"+string(l.Name), l.Conditions)
			out = append(out, fmt.Sprintf("Gateway %s#%s has %d routes of %d kinds", key, l.Name, l.AttachedRoutes, len(l.SupportedKinds)))
		}
		out = append(out, fmt.Sprintf("Gateway %s has %d sets", key, *g.AttachedListenerSets))
	}
	for key, l := range s.ListenerSets {
		add("ListenerSet "+key, l.Conditions)
		for _, e := range l.Listeners {
			add("ListenerSet "+key+"#"+string(e.Name), e.Conditions)
		}
	}
	for kind, all := range s.Routes {
		for key, parents := range all {
			for _, p := range parents {
				add(fmt.Sprintf("%s %s at %s#%s", kind, key, p.ParentRef.Name, ptr.Deref(p.ParentRef.SectionName, "")), p.Conditions)
			}
		}
	}
	for key, all := range s.Policies {
		for _, a := range all {
			add(fmt.Sprintf("BackendTLSPolicy %s of %s", key, a.AncestorRef.Name), a.Conditions)
		}
	}
	slices.Sort(out)
	return out
}

// goes tells where a request goes: its target's Service, "" for nowhere.
func goes(table *Table, q Query) string {
	if q.Port == 0 {
		q.Port = PlainPort
	}
	if q.Method == "" {
		q.Method = "GET"
	}
	r := table.Find(&q)
	switch {
	case r == nil:
		return ""
	case r.Rule == nil:
		return r.Backend.Service
	case r.Rule.Target() == nil:
		return r.Kind
	}
	return r.Rule.Target().Backend.Service
}

func gatewayTable(t testing.TB, w *world, text string) *Table {
	t.Helper()
	return new(Builder).Build(Sources{Classes: mine, Gateways: sources(t, text)}, w, now)
}
