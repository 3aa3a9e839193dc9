package custom

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/warning"

	"howdah.dev/services/apiserver/internal/registry"
)

// notes collects what a validation tells besides its errors.
type notes []string

// AddWarning implements warning.Recorder.
func (n *notes) AddWarning(_, text string) { *n = append(*n, text) }

// tolerated names the rules that an update breaks where the object was so before. The rules tell it only while they are evaluated, so
// that a valid update evaluates them twice.
func (v *version) tolerated(obj, old registry.Object) []string {
	if old == nil {
		return nil
	}
	c, err := v.schema()
	if err != nil || c.rules == nil {
		return nil
	}
	var told notes
	ctx := warning.WithWarningRecorder(context.Background(), &told)
	now, before := content(obj), content(old)
	pair := common.NewCorrelatedObject(now, before, &model.Structural{Structural: c.structural})
	// Its errors have been told.
	_, _ = c.rules.Validate(ctx, nil, c.structural, now, before, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(pair))
	return told
}
