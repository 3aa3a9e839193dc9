package apiserver

import (
	"fmt"
	"testing"
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
