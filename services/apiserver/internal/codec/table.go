package codec

import (
	"bytes"
	"encoding/json"
	"maps"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/plain"
	"howdah.dev/services/apiserver/internal/registry"
)

// defaultColumns are those of kinds that name none.
var defaultColumns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
	{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
}

// TableEvent encodes an item of a watch as a table of one row; the columns are told only when asked for.
func TableEvent(res *registry.Resource, item *Item, form Form, columns bool) ([]byte, error) {
	t, err := newTable(res, []*Item{item}, metav1.ListMeta{}, form, columns)
	if err != nil {
		return nil, err
	}
	t.ResourceVersion = itemRevision(item)
	return finish(t, form)
}

func itemRevision(item *Item) string {
	obj, err := item.Object()
	if err != nil {
		return ""
	}
	return obj.GetResourceVersion()
}

func newTable(res *registry.Resource, items []*Item, meta metav1.ListMeta, form Form, columns bool) (*metav1.Table, error) {
	version := "v1"
	if form.Beta {
		version = "v1beta1"
	}
	t := &metav1.Table{ListMeta: meta}
	if len(items) > 0 || len(res.Kind.Columns) > 0 { // null for kinds without columns of their own, as Kubernetes answers it
		t.Rows = make([]metav1.TableRow, 0, len(items))
	}
	t.SetGroupVersionKind(schema.GroupVersionKind{Group: metav1.GroupName, Version: version, Kind: "Table"})
	if columns { // null otherwise
		t.ColumnDefinitions = defaultColumns
		if len(res.Kind.Columns) > 0 {
			t.ColumnDefinitions = res.Kind.Columns
		}
	}
	for _, item := range items {
		row, err := tableRow(res, item, form)
		if err != nil {
			return nil, err
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

// tableList writes a table, in JSON row by row: what the rows say of their objects is encoded already.
func tableList(w *writer, res *registry.Resource, items []*Item, meta metav1.ListMeta, form Form) error {
	t, err := newTable(res, nil, meta, form, true)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		w.b, err = encodeJSON(t)
		return err
	}
	t.Rows = nil
	head, err := encodeJSON(t)
	if err != nil {
		return err
	}
	const noRows = "null}\n" // they come last
	w.b = append(append(w.b, head[:len(head)-len(noRows)]...), '[')
	w.room(len(items) * 1024)
	for n, item := range items {
		row, err := tableRow(res, item, form)
		if err != nil {
			return err
		}
		if n > 0 {
			w.b = append(w.b, ',')
		}
		if w.b, err = appendRow(w.b, row); err != nil {
			return err
		}
		if err := w.full(); err != nil {
			return err
		}
	}
	w.b = append(w.b, "]}\n"...)
	return nil
}

// appendRow appends a row in JSON.
func appendRow(b []byte, row metav1.TableRow) ([]byte, error) {
	b = append(b, `{"cells":`...)
	cells, ok := plain.Append(b, row.Cells, true)
	if !ok {
		other, err := json.Marshal(row.Cells)
		if err != nil {
			return nil, err
		}
		cells = append(b, other...)
	}
	b = cells
	if len(row.Conditions) > 0 {
		conditions, err := json.Marshal(row.Conditions)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"conditions":`...), conditions...)
	}
	b = append(b, `,"object":`...)
	if raw := bytes.TrimSuffix(row.Object.Raw, []byte("\n")); len(raw) > 0 {
		return append(append(b, raw...), '}'), nil
	}
	return append(b, "null}"...), nil
}

// cells are an object's, one a column.
func cells(kind *registry.Kind, obj registry.Object) []any {
	if kind.Cells != nil {
		return kind.Cells(obj)
	}
	return []any{obj.GetName(), obj.GetCreationTimestamp().UTC().Format(time.RFC3339)}
}

func tableRow(res *registry.Resource, item *Item, form Form) (metav1.TableRow, error) {
	item = item.In(res.Kind)
	obj, err := item.Object()
	if err != nil {
		return metav1.TableRow{}, err
	}
	row := metav1.TableRow{Cells: cells(res.Kind, obj)}
	if res.Kind.RowConditions != nil {
		row.Conditions = res.Kind.RowConditions(obj)
	}
	var raw []byte
	switch form.Include {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		raw, err = item.json(res)
	default:
		raw, err = item.partialJSON(form.Beta)
	}
	row.Object = runtime.RawExtension{Raw: raw}
	return row, err
}

// Bookmark encodes an object that has nothing but a resourceVersion and annotations.
func Bookmark(res *registry.Resource, revision int64, annotations map[string]string, form Form, columns bool) ([]byte, error) {
	blank := res.Kind.New()
	if res.Kind.Blank != nil {
		blank = res.Kind.Blank()
	}
	blank.SetResourceVersion(strconv.FormatInt(revision, 10))
	all := maps.Clone(annotations)
	for name, value := range blank.GetAnnotations() {
		if all == nil {
			all = map[string]string{}
		}
		all[name] = value
	}
	blank.SetAnnotations(all)
	blank.GetObjectKind().SetGroupVersionKind(res.Kind.GVK)
	obj, err := res.FromStored(blank)
	if err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(res.GVK)
	switch form.As {
	case Table:
		t, err := newTable(res, nil, metav1.ListMeta{ResourceVersion: obj.GetResourceVersion()}, form, columns)
		if err != nil {
			return nil, err
		}
		row := metav1.TableRow{Cells: cells(res.Kind, blank)}
		switch {
		case form.Include == metav1.IncludeNone && len(annotations) == 0: // the end of the initial events is told all the same
		case form.Include == metav1.IncludeObject:
			row.Object.Raw, err = encodeJSON(obj)
		default:
			row.Object.Raw, err = blankMetadata(res.Kind, blank, form.Beta)
		}
		if err != nil {
			return nil, err
		}
		t.Rows = []metav1.TableRow{row}
		return finish(t, form)
	case PartialMetadata:
		partial, err := Partial(blank, form.Beta)
		if err != nil {
			return nil, err
		}
		hide(res.Kind, &partial.ObjectMeta)
		b, _, err := Any(partial, partialKind(form.Beta), form)
		return b, err
	}
	b, _, err := Any(obj, res.GVK, form)
	return b, err
}

// blankMetadata is the metadata of a bookmark as JSON.
func blankMetadata(kind *registry.Kind, blank registry.Object, beta bool) ([]byte, error) {
	partial, err := Partial(blank, beta)
	if err != nil {
		return nil, err
	}
	hide(kind, &partial.ObjectMeta)
	return encodeJSON(partial)
}

// hide takes the annotation out of metadata that is shown alone which stands for a field.
func hide(kind *registry.Kind, meta *metav1.ObjectMeta) {
	if _, there := meta.Annotations[kind.Hidden]; !there || kind.Hidden == "" {
		return
	}
	meta.Annotations = maps.Clone(meta.Annotations)
	if delete(meta.Annotations, kind.Hidden); len(meta.Annotations) == 0 {
		meta.Annotations = nil
	}
}
