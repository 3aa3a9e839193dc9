package codec

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/registry"
)

// Single encodes an object that belongs to no resource of its own, as a Scale, in any form; a table has the columns and cells given.
func Single(obj registry.Object, gvk schema.GroupVersionKind, columns []metav1.TableColumnDefinition, cells []any, form Form) ([]byte, string, error) {
	switch form.As {
	case Table:
		b, err := singleTable(obj, columns, cells, form)
		return b, form.ContentType(), err
	case PartialMetadata:
		partial, err := Partial(obj, form.Beta)
		if err != nil {
			return nil, "", err
		}
		return Any(partial, partialKind(form.Beta), form)
	}
	return Any(obj, gvk, form)
}

func singleTable(obj registry.Object, columns []metav1.TableColumnDefinition, cells []any, form Form) ([]byte, error) {
	version := "v1"
	if form.Beta {
		version = "v1beta1"
	}
	row := metav1.TableRow{Cells: cells}
	var shown runtime.Object
	var err error
	switch form.Include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		shown = obj
	default:
		if shown, err = Partial(obj, form.Beta); err != nil {
			return nil, err
		}
	}
	if shown != nil {
		if row.Object.Raw, err = encodeJSON(shown); err != nil {
			return nil, err
		}
	}
	t := &metav1.Table{ListMeta: metav1.ListMeta{ResourceVersion: obj.GetResourceVersion()}, ColumnDefinitions: columns, Rows: []metav1.TableRow{row}}
	t.SetGroupVersionKind(schema.GroupVersionKind{Group: metav1.GroupName, Version: version, Kind: "Table"})
	return finish(t, form)
}
