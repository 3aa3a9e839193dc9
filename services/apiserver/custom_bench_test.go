package apiserver

import (
	"fmt"
	"strings"
	"testing"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// BenchmarkCreateOf compares the creation of a custom object with that of built-in ones of about its size.
func BenchmarkCreateOf(b *testing.B) {
	f := startMemory(b)
	f.define(widgets)
	for name, c := range map[string]struct{ resource, body string }{
		"widget":     {widget, `{"metadata":{"name":"%d"},"spec":{"color":"green","replicas":3,"free":{"a":"b"},"parts":[{"name":"a","value":"1"},{"name":"b","value":"2"}],"tags":["x","y"]}}`},
		"deployment": {"apps/v1/deployments", `{"metadata":{"name":"d-%d"},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`},
		"configmap":  {"v1/configmaps", `{"metadata":{"name":"c-%d"},"data":{"color":"green","replicas":"3","free":"b","parts":"a 1 b 2"}}`},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for n := range b.N {
				if _, err := f.create(c.resource, "default", fmt.Sprintf(c.body, b.N*1000000+n)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// writesOf are of the size that operators' objects have.
const (
	machineDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"machines.bench.howdah.dev"},"spec":{
	"group":"bench.howdah.dev","scope":"Namespaced","names":{"plural":"machines","singular":"machine","kind":"Machine","listKind":"MachineList"},
	"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
		"spec":{"type":"object","required":["mode"],"x-kubernetes-validations":[{"rule":"self.replicas <= 1000000000 || self.mode == 'slow'"}],"properties":{
			"replicas":{"type":"integer","minimum":0,"default":1},"mode":{"type":"string","enum":["fast","slow"]},"paused":{"type":"boolean","default":false},
			"parts":{"type":"array","maxItems":100,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{
				"name":{"type":"string","maxLength":63},"size":{"type":"integer"},"notes":{"type":"string"}}}}}},
		"status":{"type":"object","properties":{"phase":{"type":"string"},"observed":{"type":"integer"}}}}}}}]}}`
	machine = "bench.howdah.dev/v1/machines"
)

func machineBody(name string, replicas int) string {
	var parts []string
	for i := range 12 {
		parts = append(parts, fmt.Sprintf(`{"name":"part-%02d","size":%d,"notes":"%0100d"}`, i, i, i))
	}
	return fmt.Sprintf(`{"apiVersion":"bench.howdah.dev/v1","kind":"Machine","metadata":{"name":%q,"labels":{"app":"bench"}},"spec":{"replicas":%d,"mode":"fast","parts":[%s]}}`,
		name, replicas, strings.Join(parts, ","))
}

// BenchmarkWritesOf measures the writes that operators and kubectl make of a custom object of 2 kB, a new object for every 50.
func BenchmarkWritesOf(b *testing.B) {
	f := startMemory(b)
	f.define(machineDefinition)
	const each = 50
	forced := func(manager string) func(*apiv1.PatchRequest) {
		return func(r *apiv1.PatchRequest) { r.Force, r.FieldManager = "true", manager }
	}
	apply := "apply-patch+yaml"
	objects := 0
	for _, c := range []struct {
		name  string
		write func(name string, n int) ([]byte, error)
	}{
		{"update", func(name string, n int) ([]byte, error) {
			u := f.object(f.get(machine, "default", name))
			u.Object["spec"].(map[string]any)["replicas"] = int64(n)
			return f.put(machine, "", u)
		}},
		{"status", func(name string, n int) ([]byte, error) {
			u := f.object(f.get(machine, "default", name))
			u.Object["status"] = map[string]any{"phase": "Ready", "observed": int64(n)}
			return f.put(machine, "status", u)
		}},
		{"merge", func(name string, n int) ([]byte, error) {
			return f.change(machine, "default", name, "merge-patch+json", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n))
		}},
		{"same", func(name string, _ int) ([]byte, error) {
			return f.change(machine, "default", name, apply, machineBody(name, 3), forced("applier"))
		}},
		{"apply", func(name string, n int) ([]byte, error) {
			return f.change(machine, "default", name, apply, machineBody(name, n), forced("applier"))
		}},
		{"two", func(name string, n int) ([]byte, error) {
			if n%2 == 0 {
				return f.change(machine, "default", name, apply, machineBody(name, n), forced("applier"))
			}
			return f.change(machine, "default", name, apply, fmt.Sprintf(
				`{"apiVersion":"bench.howdah.dev/v1","kind":"Machine","metadata":{"name":%q},"spec":{"mode":"fast","paused":%t}}`, name, n%4 == 1), forced("other"))
		}},
		{"first", func(name string, n int) ([]byte, error) {
			name = fmt.Sprintf("%s-%d", name, n)
			if _, err := f.create(machine, "default", machineBody(name, 3)); err != nil {
				return nil, err
			}
			return f.change(machine, "default", name, apply, machineBody(name, 4), forced("applier"))
		}},
		{"applied", func(name string, n int) ([]byte, error) { // there is none before
			name = fmt.Sprintf("%s-%d", name, n)
			return f.change(machine, "default", name, apply, machineBody(name, 3), forced("applier"))
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			name := ""
			for n := range b.N {
				if n%each == 0 {
					objects++
					name = fmt.Sprintf("m-%d", objects)
					if _, err := f.create(machine, "default", machineBody(name, 3)); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := c.write(name, n); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
