// Package history turns what the change log remembers of an object into what people read: who did what, and how the object changed.
package history

import (
	"encoding/json"
	"fmt"

	"github.com/pmezard/go-difflib/difflib"
	"sigs.k8s.io/yaml"
)

// context is how many unchanged lines surround a change in a diff.
const context = 3

// Side is one of the two states that are compared; an absent one has no JSON.
type Side struct {
	Name string
	JSON []byte
}

// Diff returns the unified diff of the YAML forms, without managed fields and resourceVersion, which change with every write.
func Diff(from, to Side) (string, error) {
	a, err := readable(from.JSON)
	if err != nil {
		return "", err
	}
	b, err := readable(to.JSON)
	if err != nil {
		return "", err
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(a), B: difflib.SplitLines(b), FromFile: from.label(), ToFile: to.label(), Context: context,
	})
	if err != nil {
		return "", fmt.Errorf("compare: %w", err)
	}
	return text, nil
}

func (s Side) label() string {
	if s.JSON == nil {
		return "/dev/null"
	}
	return s.Name
}

// readable returns the YAML of an object without what is noise in a comparison; of no object, nothing.
func readable(object []byte) (string, error) {
	if object == nil {
		return "", nil
	}
	var content map[string]any
	if err := json.Unmarshal(object, &content); err != nil {
		return "", fmt.Errorf("read a version: %w", err)
	}
	if metadata, ok := content["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		delete(metadata, "resourceVersion")
	}
	text, err := yaml.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("write a version: %w", err)
	}
	return string(text), nil
}
