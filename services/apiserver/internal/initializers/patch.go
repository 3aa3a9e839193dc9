package initializers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"howdah.dev/services/apiserver/internal/codec"
)

// pointer is the field in JSON patches, annotationPointer the annotation.
const (
	pointer           = "/metadata/initializers"
	annotationPointer = "/metadata/annotations/howdah.dev~1initializers"
)

// translated is a patch that says of the annotation what the client's says of the field.
type translated struct {
	body []byte
	// bound says that it holds for the object's present revision only, which the client's does not name.
	bound bool
}

// patched translates a JSON, merge or strategic merge patch to an object. It reports false where the patch says nothing of the field.
func patched(patch []byte, contentType string, current metav1.Object) (translated, bool, error) {
	if !bytes.Contains(patch, fieldName) {
		return translated{}, false, nil
	}
	media, _, _ := mime.ParseMediaType(contentType)
	state, err := Of(current)
	if err != nil {
		return translated{}, false, err
	}
	switch kind := types.PatchType(media); kind {
	case types.JSONPatchType:
		return operations(patch, state, current)
	case types.MergePatchType, types.StrategicMergePatchType:
		return merged(patch, kind, state, current)
	}
	return translated{}, false, nil
}

// merged translates a patch that has the form of the object.
func merged(patch []byte, kind types.PatchType, state *Initializers, current metav1.Object) (translated, bool, error) {
	top, _ := parse(patch).(tree)
	metadata, _ := top["metadata"].(tree)
	change, there := metadata["initializers"]
	if !there {
		return translated{}, false, nil
	}
	delete(metadata, "initializers")
	after, err := changed(state, change, kind)
	if err != nil {
		return translated{}, false, apierrors.NewBadRequest("metadata.initializers: " + err.Error())
	}
	if after == nil {
		annotations, ok := metadata["annotations"].(tree)
		if !ok {
			annotations = tree{}
			metadata["annotations"] = annotations
		}
		annotations[Annotation] = nil
	} else {
		note(metadata, after)
	}
	_, named := metadata["resourceVersion"]
	if !named {
		metadata["resourceVersion"] = current.GetResourceVersion()
	}
	body, err := json.Marshal(top)
	return translated{body, !named}, true, err
}

// changed applies to the initializers what a patch says of them.
func changed(state *Initializers, change any, kind types.PatchType) (*Initializers, error) {
	if change == nil {
		return nil, nil
	}
	before := []byte("{}")
	if state != nil {
		var err error
		if before, err = json.Marshal(state); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	if kind == types.StrategicMergePatchType {
		before, err = strategicpatch.StrategicMergePatch(before, text, Initializers{})
	} else {
		before, err = jsonpatch.MergePatch(before, text)
	}
	if err != nil {
		return nil, err
	}
	return read(parse(before))
}

// operations translates a JSON patch: what it does to the field is done here, and its outcome written as one operation more.
func operations(patch []byte, state *Initializers, current metav1.Object) (translated, bool, error) {
	var all []json.RawMessage
	if err := json.Unmarshal(patch, &all); err != nil {
		return translated{}, false, nil // whose decoding says what is wrong
	}
	var own, others []json.RawMessage
	bound := true
	for _, one := range all {
		var op struct{ Op, Path, From string }
		if err := json.Unmarshal(one, &op); err != nil {
			return translated{}, false, nil
		}
		bound = bound && op.Path != "/metadata/resourceVersion"
		switch inside, from := within(op.Path), within(op.From); {
		case inside != from && op.From != "":
			return translated{}, false, apierrors.NewBadRequest(fmt.Sprintf("the operation %s between %s and %s is not supported", op.Op, op.From, op.Path))
		case inside:
			own = append(own, one)
		default:
			others = append(others, one)
		}
	}
	if len(own) == 0 {
		return translated{}, false, nil
	}
	after, err := operated(state, own)
	if err != nil {
		return translated{}, false, err
	}
	first, last, err := writing(after, current, bound)
	if err != nil {
		return translated{}, false, err
	}
	body, err := json.Marshal(slices.Concat(first, others, last))
	return translated{body, bound}, true, err
}

// within reports whether a pointer leads to the field or into it.
func within(path string) bool { return path == pointer || strings.HasPrefix(path, pointer+"/") }

// operated applies operations to an object that has the field alone.
func operated(state *Initializers, operations []json.RawMessage) (*Initializers, error) {
	metadata := tree{}
	if state != nil {
		metadata["initializers"] = state
	}
	before, err := json.Marshal(tree{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(operations)
	if err != nil {
		return nil, err
	}
	after, err := codec.JSONPatch(before, text)
	if err != nil {
		return nil, err
	}
	top, _ := parse(after).(tree)
	metadata, _ = top["metadata"].(tree)
	value := metadata["initializers"]
	if value == nil {
		return nil, nil
	}
	out, err := read(value)
	if err != nil {
		return nil, apierrors.NewBadRequest("metadata.initializers: " + err.Error())
	}
	return out, nil
}

// writing are the operations, before and behind all others, that leave the annotation as it is to be. Where they are bound, they fail on any other
// revision than the present one.
func writing(after *Initializers, current metav1.Object, bound bool) (first, last []json.RawMessage, err error) {
	var before, behind []tree
	if bound {
		before = append(before, tree{"op": "replace", "path": "/metadata/resourceVersion", "value": current.GetResourceVersion()})
	}
	annotations := current.GetAnnotations()
	_, there := annotations[Annotation]
	switch {
	case after == nil && there:
		behind = append(behind, tree{"op": "remove", "path": annotationPointer})
	case after != nil:
		text, err := json.Marshal(after)
		if err != nil {
			return nil, nil, err
		}
		if len(annotations) == 0 {
			before = append(before, tree{"op": "add", "path": "/metadata/annotations", "value": tree{}})
		}
		behind = append(behind, tree{"op": "add", "path": annotationPointer, "value": string(text)})
	}
	if first, err = encoded(before); err == nil {
		last, err = encoded(behind)
	}
	return first, last, err
}

func encoded(ops []tree) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, len(ops))
	for i, op := range ops {
		var err error
		if out[i], err = json.Marshal(op); err != nil {
			return nil, err
		}
	}
	return out, nil
}
