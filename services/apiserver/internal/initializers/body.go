package initializers

import (
	"bytes"
	"encoding/json"
	"mime"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const mediaJSON = "application/json"

// fieldName is the field's, as bodies that have it must contain it.
var fieldName = []byte("initializers")

// tree is an object as JSON has it.
type tree = map[string]any

// taken returns a body whose metadata.initializers have become the annotation. Bodies that have no such field, or are neither JSON nor YAML, stay
// as they are.
func taken(body []byte, contentType string) ([]byte, string, error) {
	media, _, _ := mime.ParseMediaType(contentType)
	if !bytes.Contains(body, fieldName) {
		return body, contentType, nil
	}
	text := body
	switch media {
	case mediaJSON, "":
	case "application/yaml", "application/apply-patch+yaml":
		var err error
		if text, err = yaml.YAMLToJSON(body); err != nil {
			return body, contentType, nil // whose decoding says what is wrong
		}
		if media == "application/yaml" {
			contentType = mediaJSON
		}
	default:
		return body, contentType, nil
	}
	obj, ok := parse(text).(tree)
	if !ok {
		return body, contentType, nil
	}
	metadata, _ := obj["metadata"].(tree)
	value, there := metadata["initializers"]
	if !there {
		return body, contentType, nil
	}
	delete(metadata, "initializers")
	if value != nil {
		state, err := read(value)
		if err != nil {
			return nil, "", apierrors.NewBadRequest("metadata.initializers: " + err.Error())
		}
		note(metadata, state)
	}
	out, err := json.Marshal(obj)
	return out, contentType, err
}

// read makes what a field holds into initializers; fields that they do not have are an error.
func read(value any) (*Initializers, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	state := &Initializers{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return state, decoder.Decode(state)
}

// note writes the annotation.
func note(metadata tree, state *Initializers) {
	text, err := json.Marshal(state)
	if err != nil { // strings always encode
		return
	}
	annotations, ok := metadata["annotations"].(tree)
	if !ok {
		annotations = tree{}
		metadata["annotations"] = annotations
	}
	annotations[Annotation] = string(text)
}

// shown returns a JSON or YAML answer, of an object, a list or a table, whose annotations have become the field.
func shown(body []byte, contentType string) []byte {
	if !bytes.Contains(body, []byte(Annotation)) {
		return body
	}
	media, _, _ := mime.ParseMediaType(contentType)
	switch media {
	case mediaJSON:
		obj := parse(body)
		if obj == nil {
			return body
		}
		show(obj)
		return render(obj, body)
	case "application/yaml":
		text, err := yaml.YAMLToJSON(body)
		if err != nil {
			return body
		}
		obj := parse(text)
		show(obj)
		if text, err = yaml.Marshal(obj); err == nil {
			return text
		}
	}
	return body
}

func parse(text []byte) any {
	var obj any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &obj); err != nil {
		return nil
	}
	return obj
}

// render writes an object as it was: indented or not, with or without a last newline.
func render(obj any, like []byte) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	if bytes.HasPrefix(like, []byte("{\n")) {
		encoder.SetIndent("", "  ")
	}
	if err := encoder.Encode(obj); err != nil {
		return like
	}
	if !bytes.HasSuffix(like, []byte("\n")) {
		out.Truncate(out.Len() - 1)
	}
	return out.Bytes()
}

// show moves the annotations of an object, or of those in a list or a table.
func show(obj any) {
	top, ok := obj.(tree)
	if !ok {
		return
	}
	if metadata, ok := top["metadata"].(tree); ok {
		reveal(metadata)
	}
	for _, parts := range []struct{ list, object string }{{"items", ""}, {"rows", "object"}} {
		list, _ := top[parts.list].([]any)
		for _, one := range list {
			if row, ok := one.(tree); ok && parts.object != "" {
				one = row[parts.object]
			}
			if inner, ok := one.(tree); ok {
				if metadata, ok := inner["metadata"].(tree); ok {
					reveal(metadata)
				}
			}
		}
	}
}

func reveal(metadata tree) {
	annotations, _ := metadata["annotations"].(tree)
	text, ok := annotations[Annotation].(string)
	if !ok {
		return
	}
	value := parse([]byte(text))
	if value == nil {
		return
	}
	metadata["initializers"] = value
	delete(annotations, Annotation)
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
}
