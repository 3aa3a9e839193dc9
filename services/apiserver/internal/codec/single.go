package codec

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/registry"
)

// Single encodes an object that belongs to no stored resource, as a Scale, in any form; a table has the columns and cells given, if there is one.
func Single(obj registry.Object, gvk schema.GroupVersionKind, columns []metav1.TableColumnDefinition, cells []any, form Form) ([]byte, string, error) {
	switch form.As {
	case Table:
		t := newTableOf(metav1.ListMeta{ResourceVersion: obj.GetResourceVersion()}, columns, form)
		if err := addRow(t, obj, cells, form); err != nil {
			return nil, "", err
		}
		b, err := finish(t, form)
		return b, form.ContentType(), err
	case PartialMetadata:
		partial, err := Partial(obj, form.Beta)
		if err != nil {
			return nil, "", err
		}
		return Any(partial, partialKind(form.Beta), form)
	case PartialMetadataList:
		return nil, "", notOfObject(goTypeOf(gvk))
	}
	return Any(obj, gvk, form)
}

// Several are objects that belong to no stored resource, to be encoded as a list in any form.
type Several struct {
	List    runtime.Object
	GVK     schema.GroupVersionKind
	Columns []metav1.TableColumnDefinition
	// Objects are those in List, each with its Cells.
	Objects []registry.Object
	Cells   [][]any
}

// Encode returns the bytes and their media type.
func (s Several) Encode(form Form) ([]byte, string, error) {
	switch form.As {
	case Table:
		t := newTableOf(metav1.ListMeta{}, s.Columns, form)
		for i, obj := range s.Objects {
			if err := addRow(t, obj, s.Cells[i], form); err != nil {
				return nil, "", err
			}
		}
		b, err := finish(t, form)
		return b, form.ContentType(), err
	case PartialMetadata:
		return nil, "", notOfList(goTypeOf(s.GVK))
	case PartialMetadataList:
		list := &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{}}
		for _, obj := range s.Objects {
			partial, err := Partial(obj, form.Beta)
			if err != nil {
				return nil, "", err
			}
			list.Items = append(list.Items, *partial)
		}
		gvk := partialKind(form.Beta)
		gvk.Kind += "List"
		return Any(list, gvk, form)
	}
	return Any(s.List, s.GVK, form)
}

func newTableOf(meta metav1.ListMeta, columns []metav1.TableColumnDefinition, form Form) *metav1.Table {
	version := "v1"
	if form.Beta {
		version = "v1beta1"
	}
	t := &metav1.Table{ListMeta: meta, ColumnDefinitions: columns, Rows: []metav1.TableRow{}}
	t.SetGroupVersionKind(schema.GroupVersionKind{Group: metav1.GroupName, Version: version, Kind: "Table"})
	return t
}

func addRow(t *metav1.Table, obj registry.Object, cells []any, form Form) error {
	row := metav1.TableRow{Cells: cells}
	var shown runtime.Object
	var err error
	switch form.Include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		shown = obj
	default:
		if shown, err = Partial(obj, form.Beta); err != nil {
			return err
		}
	}
	if shown != nil {
		if row.Object.Raw, err = encodeJSON(shown); err != nil {
			return err
		}
	}
	t.Rows = append(t.Rows, row)
	return nil
}
