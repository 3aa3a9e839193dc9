package sqlview

import (
	"slices"
	"testing"
	"time"

	"howdah.dev/services/apiserver/internal/kind"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	kinds, fields := Describe(kind.All(kind.Config{Now: time.Now}))
	find := func(message, name string) Field {
		t.Helper()
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Message == "k8s.io/api/core/v1."+message && f.Name == name && !f.Inlined })
		if i < 0 {
			t.Fatalf("%s has no field %s", message, name)
		}
		return fields[i]
	}
	for _, tt := range []struct {
		message, name string
		want          Field
	}{
		{"PodSpec", "nodeName", Field{Number: 10, Type: "string", Omitted: true}},
		{"PodSpec", "containers", Field{Number: 2, Type: "message", Of: "k8s.io/api/core/v1.Container", Repeated: true}},
		{"PodSpec", "terminationGracePeriodSeconds", Field{Number: 4, Type: "int"}},
		{"PodSpec", "nodeSelector", Field{Number: 7, Type: "map", Of: "string"}},
		{"ResourceRequirements", "limits", Field{Number: 1, Type: "map", Of: "quantity"}},
		{"ConfigMap", "binaryData", Field{Number: 3, Type: "map", Of: "bytes"}},
		{"HTTPGetAction", "port", Field{Number: 2, Type: "intstr"}},
	} {
		got := find(tt.message, tt.name)
		tt.want.Message, tt.want.Name = got.Message, got.Name
		if got != tt.want {
			t.Errorf("%s.%s: %+v, want %+v", tt.message, tt.name, got, tt.want)
		}
	}
	numbers := map[Field]bool{}
	for _, f := range fields {
		key := Field{Message: f.Message, Number: f.Number}
		if numbers[key] {
			t.Errorf("%s has number %d twice", f.Message, f.Number)
		}
		numbers[key] = true
	}
	for _, k := range kinds {
		if k.Concealed != (k.Prefix == "/core/secrets/") || k.Concealed == (k.Message != "") {
			t.Errorf("%+v", k)
		}
	}
}
