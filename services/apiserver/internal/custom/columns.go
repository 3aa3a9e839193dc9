package custom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/jsonpath"

	kindcolumn "howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/registry"
)

// column is one of the additional printer columns.
type column struct {
	metav1.TableColumnDefinition
	path string
}

// columnsOf returns the columns of a version; one that names none has the age. The first whose path cannot be read ends them.
func columnsOf(in []apiextensionsv1.CustomResourceColumnDefinition) []column {
	if len(in) == 0 {
		in = []apiextensionsv1.CustomResourceColumnDefinition{{
			Name: "Age", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"], JSONPath: ".metadata.creationTimestamp",
		}}
	}
	columns := make([]column, 0, len(in))
	for _, c := range in {
		if _, err := parsed(c.JSONPath); err != nil {
			break
		}
		description := fmt.Sprintf("Custom resource definition column (in JSONPath format): %s", c.JSONPath)
		if c.Description != "" {
			description = c.Description
		}
		columns = append(columns, column{metav1.TableColumnDefinition{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: description, Priority: c.Priority,
		}, c.JSONPath})
	}
	return columns
}

// parsed returns a JSON path that finds nothing where fields are missing. Paths are not safe for use by several goroutines.
func parsed(path string) (*jsonpath.JSONPath, error) {
	p := jsonpath.New("column").AllowMissingKeys(true)
	return p, p.Parse("{" + path + "}")
}

// table returns the columns and what fills them.
func (v *version) table() ([]metav1.TableColumnDefinition, func(registry.Object) []any) {
	definitions := []metav1.TableColumnDefinition{kindcolumn.Name()}
	for _, c := range v.columns {
		definitions = append(definitions, c.TableColumnDefinition)
	}
	return definitions, func(obj registry.Object) []any {
		cells := []any{obj.GetName()}
		for _, c := range v.columns {
			cells = append(cells, c.cell(content(obj), v.Now()))
		}
		return cells
	}
}

func (c column) cell(object map[string]any, now time.Time) any {
	p, err := parsed(c.path)
	if err != nil {
		return nil
	}
	results, err := p.FindResults(object)
	if err != nil || len(results) == 0 || len(results[0]) == 0 {
		return nil
	}
	value := results[0][0].Interface()
	switch c.Type {
	case "string":
		var text bytes.Buffer
		if p.PrintResults(&text, []reflect.Value{reflect.ValueOf(value)}) != nil {
			return nil
		}
		return text.String()
	case "integer":
		switch n := value.(type) {
		case int64:
			return n
		case float64:
			return int64(n)
		case json.Number:
			if i, err := n.Int64(); err == nil {
				return i
			}
		}
	case "number":
		switch n := value.(type) {
		case int64:
			return float64(n)
		case float64:
			return n
		case json.Number:
			if f, err := n.Float64(); err == nil {
				return f
			}
		}
	case "boolean":
		if b, ok := value.(bool); ok {
			return b
		}
	case "date":
		if text, ok := value.(string); ok {
			return date(text, now)
		}
	}
	return nil
}

// date is how long ago the time was.
func date(text string, now time.Time) any {
	var at metav1.Time
	if at.UnmarshalQueryParameter(text) != nil {
		return "<invalid>"
	}
	if at.IsZero() {
		return "<unknown>"
	}
	return kindcolumn.Since(now, at.Time)
}

// selectableFields are the values that field selectors may name.
func selectableFields(paths []string, obj registry.Object) fields.Set {
	set := fields.Set{}
	for _, path := range paths {
		name := path
		if name[0] == '.' {
			name = name[1:]
		}
		set[name] = ""
		p, err := parsed(path)
		if err != nil {
			continue
		}
		results, err := p.FindResults(content(obj))
		if err != nil || len(results) != 1 || len(results[0]) != 1 {
			continue
		}
		if value := results[0][0].Interface(); value != nil {
			set[name] = fmt.Sprint(value)
		}
	}
	return set
}
