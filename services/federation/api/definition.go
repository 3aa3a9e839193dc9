package api

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"howdah.dev/kit/object"
)

//go:embed crd/*.yaml
var files embed.FS

// definitionKind is that of definitions.
var definitionKind = KindOf(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "customresourcedefinitions", false)

// Definitions are those of the federation's kinds.
func Definitions() ([]*Any, error) {
	entries, err := files.ReadDir("crd")
	if err != nil {
		return nil, err
	}
	var all []*Any
	for _, e := range entries {
		text, err := files.ReadFile("crd/" + e.Name())
		if err != nil {
			return nil, err
		}
		d := &Any{}
		if err := yaml.UnmarshalStrict(text, d); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		all = append(all, d)
	}
	return all, nil
}

// pollDefinition is how often a definition is looked at until it is served.
const pollDefinition = 100 * time.Millisecond

// Install applies the definitions, and returns when their kinds are served. It may be called as often as one likes: where
// nothing differs, nothing is written.
func Install(ctx context.Context, client *object.Client) error {
	all, err := Definitions()
	if err != nil {
		return err
	}
	definitions := object.For(client, definitionKind)
	for _, d := range all {
		if _, err := definitions.Apply(ctx, d, Manager); err != nil {
			return fmt.Errorf("apply the definition %s: %w", d.GetName(), err)
		}
	}
	for _, d := range all {
		if err := await(ctx, definitions, d.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// await returns when the kind of a definition is served.
func await(ctx context.Context, definitions object.Resource[*Any], name string) error {
	tick := time.NewTicker(pollDefinition)
	defer tick.Stop()
	for {
		d, err := definitions.Get(ctx, "", name)
		if err != nil {
			return fmt.Errorf("read the definition %s: %w", name, err)
		}
		if established(d) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the definition %s is not served: %w", name, ctx.Err())
		case <-tick.C:
		}
	}
}

func established(d *Any) bool {
	var read struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	data, err := json.Marshal(d)
	if err != nil || json.Unmarshal(data, &read) != nil {
		return false
	}
	for _, c := range read.Status.Conditions {
		if c.Type == "Established" && c.Status == metav1.ConditionTrue {
			return true
		}
	}
	return false
}
