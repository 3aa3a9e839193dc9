package custom

import (
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOddCells(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		kind  string
		value any
		want  any
	}{
		{"string", nil, "<no value>"}, {"string", []any{"a", int64(1)}, `["a",1]`}, {"string", true, "true"},
		{"integer", 1.5, int64(1)}, {"integer", "1", nil}, {"number", int64(3), float64(3)}, {"boolean", "true", nil}, {"boolean", false, false},
		{"date", "2030-01-01T00:00:00Z", "24h"}, {"date", "2031-01-01T00:00:00Z", "<invalid>"}, {"date", "", "<unknown>"}, {"date", "null", "<unknown>"},
		{"date", "yesterday", "<invalid>"}, {"date", int64(5), nil},
	} {
		column := column{metav1.TableColumnDefinition{Type: c.kind}, ".v"}
		if got := column.cell(map[string]any{"v": c.value}, now); got != c.want {
			t.Errorf("%v as %s: %#v, want %#v", c.value, c.kind, got, c.want)
		}
	}
}

func TestAPathThatCannotBeReadEndsTheColumns(t *testing.T) {
	t.Parallel()
	got := columnsOf([]apiextensionsv1.CustomResourceColumnDefinition{{Name: "A", JSONPath: ".a"}, {Name: "B", JSONPath: `.b["c/d"]`}, {Name: "C", JSONPath: ".c"}})
	if len(got) != 1 || got[0].Name != "A" {
		t.Error(got)
	}
}
