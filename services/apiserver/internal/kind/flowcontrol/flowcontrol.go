// Package flowcontrol has the kinds that tell how requests share the API's
// capacity: FlowSchema (which requests) and PriorityLevelConfiguration (how
// many, and who waits).
package flowcontrol

import (
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

type (
	flow  = flowcontrolv1.FlowSchema
	level = flowcontrolv1.PriorityLevelConfiguration
)

// Kinds returns the kinds; now is the clock for ages.
func Kinds(now func() time.Time) []*registry.Kind {
	return []*registry.Kind{flowSchema(now), priorityLevel(now)}
}

// defaultPrecedence is the matchingPrecedence of a schema that names none.
const defaultPrecedence = 1000

func flowSchema(now func() time.Time) *registry.Kind {
	k := row.Of[flow, flowcontrolv1.FlowSchemaList](flowcontrolv1.SchemeGroupVersion, "flowschemas")
	row.SpecStatus(k, func(f *flow) *flowcontrolv1.FlowSchemaSpec { return &f.Spec },
		func(f *flow) *flowcontrolv1.FlowSchemaStatus { return &f.Status }, validateSchemaStatus)
	keepMeta(k)
	k.Default = typed.Do(func(f *flow) {
		if f.Spec.MatchingPrecedence == 0 {
			f.Spec.MatchingPrecedence = defaultPrecedence
		}
	})
	k.Validate = typed.Check(validateSchema)
	spec := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(),
		column.String("PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"]),
		column.String("MatchingPrecedence", spec["matchingPrecedence"]),
		column.String("DistinguisherMethod", spec["distinguisherMethod"]),
		column.Age(),
		column.String("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
	}
	k.Cells = typed.Get(func(f *flow) []any {
		method, missing := column.None, "?"
		if f.Spec.DistinguisherMethod != nil {
			method = string(f.Spec.DistinguisherMethod.Type)
		}
		for _, c := range f.Status.Conditions {
			if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
				missing = string(c.Status)
			}
		}
		return []any{
			f.Name, f.Spec.PriorityLevelConfiguration.Name, int64(f.Spec.MatchingPrecedence), method,
			column.Since(now(), f.CreationTimestamp.Time), missing,
		}
	})
	return k
}

func priorityLevel(now func() time.Time) *registry.Kind {
	k := row.Of[level, flowcontrolv1.PriorityLevelConfigurationList](flowcontrolv1.SchemeGroupVersion, "prioritylevelconfigurations")
	row.SpecStatus(k, func(l *level) *flowcontrolv1.PriorityLevelConfigurationSpec { return &l.Spec },
		func(l *level) *flowcontrolv1.PriorityLevelConfigurationStatus { return &l.Status }, validateLevelStatus)
	keepMeta(k)
	k.Default = typed.Do(fillLevel)
	k.Validate = typed.Check(validateLevel)
	queuing := flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(),
		column.String("Type", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"]),
		column.String("NominalConcurrencyShares", flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"]),
		column.String("Queues", queuing["queues"]),
		column.String("HandSize", queuing["handSize"]),
		column.String("QueueLengthLimit", queuing["queueLengthLimit"]),
		column.Age(),
	}
	k.Cells = typed.Get(func(l *level) []any {
		shares, queues, hand, length := any(column.None), any(column.None), any(column.None), any(column.None)
		if limited := l.Spec.Limited; limited != nil {
			shares = int64(row.Deref(limited.NominalConcurrencyShares))
			if q := limited.LimitResponse.Queuing; q != nil {
				queues, hand, length = int64(q.Queues), int64(q.HandSize), int64(q.QueueLengthLimit)
			}
		}
		return []any{l.Name, string(l.Spec.Type), shares, queues, hand, length, column.Since(now(), l.CreationTimestamp.Time)}
	})
	return k
}

// fillLevel sets what Kubernetes documents for levels and their queues.
func fillLevel(l *level) {
	if e := l.Spec.Exempt; e != nil {
		row.Set(&e.NominalConcurrencyShares, 0)
		row.Set(&e.LendablePercent, 0)
	}
	limited := l.Spec.Limited
	if limited == nil {
		return
	}
	row.Set(&limited.NominalConcurrencyShares, 30)
	row.Set(&limited.LendablePercent, 0)
	if q := limited.LimitResponse.Queuing; q != nil {
		fill(&q.HandSize, 8)
		fill(&q.Queues, 64)
		fill(&q.QueueLengthLimit, 50)
	}
}

func fill(n *int32, value int32) {
	if *n == 0 {
		*n = value
	}
}

// keepMeta has writes of the status leave all of the metadata alone.
func keepMeta(k *registry.Kind) {
	row.KeepMeta(k)
	prepare := k.Status.PrepareUpdate
	k.Status.PrepareUpdate = func(obj, old registry.Object) {
		prepare(obj, old)
		obj.SetGenerateName(old.GetGenerateName())
		obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
}
