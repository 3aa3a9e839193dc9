package flowcontrol

import (
	"fmt"
	"math"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

const (
	mostQueues = 10 * 1000 * 1000
	// mostEntropy is the number of bits of the hash that deals a flow its hand of queues.
	mostEntropy = 60
	negative    = "must be a non-negative integer"
)

func validateLevel(l *level) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateLevelSpec(l, path)
	if fixed := MandatoryLevel(l.Name); fixed != nil {
		text := "spec of '%s' must equal the fixed value"
		if l.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
			text = "spec of '%s' except the 'spec.exempt' field must equal the fixed value"
			fixed.Exempt = l.Spec.Exempt
		}
		if !equality.Semantic.DeepEqual(l.Spec, *fixed) {
			errs = append(errs, field.Invalid(path, l.Spec, fmt.Sprintf(text, l.Name)))
		}
	}
	return append(errs, validateLevelStatus(l, nil)...)
}

func validateLevelStatus(l, _ *level) field.ErrorList {
	types := make([]string, len(l.Status.Conditions))
	for i := range types {
		types[i] = string(l.Status.Conditions[i].Type)
	}
	return conditionTypes(types)
}

func validateLevelSpec(l *level, path *field.Path) field.ErrorList {
	spec := &l.Spec
	var errs field.ErrorList
	if (l.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt) != (spec.Type == flowcontrolv1.PriorityLevelEnablementExempt) {
		errs = append(errs, field.Invalid(path.Child("type"), spec.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	switch spec.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if spec.Limited != nil {
			errs = append(errs, field.Forbidden(path.Child("limited"), "must be nil if the type is not Limited"))
		}
		if e := spec.Exempt; e != nil {
			errs = append(errs, nominal(e.NominalConcurrencyShares, path.Child("exempt"))...)
			errs = append(errs, lendable(e.LendablePercent, path.Child("exempt"))...)
		}
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if spec.Exempt != nil {
			errs = append(errs, field.Forbidden(path.Child("exempt"), "must be nil if the type is Limited"))
		}
		if spec.Limited == nil {
			return append(errs, field.Required(path.Child("limited"), "must not be empty when type is Limited"))
		}
		errs = append(errs, validateLimited(spec.Limited, path.Child("limited"))...)
	default:
		errs = append(errs, check.Choice(spec.Type, path.Child("type"), flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited)...)
	}
	return errs
}

func nominal(shares *int32, path *field.Path) field.ErrorList {
	if shares != nil && *shares < 0 {
		return field.ErrorList{field.Invalid(path.Child("nominalConcurrencyShares"), *shares, negative)}
	}
	return nil
}

func lendable(percent *int32, path *field.Path) field.ErrorList {
	if percent != nil && (*percent < 0 || *percent > 100) {
		return field.ErrorList{field.Invalid(path.Child("lendablePercent"), *percent, "must be between 0 and 100, inclusive")}
	}
	return nil
}

func validateLimited(l *flowcontrolv1.LimitedPriorityLevelConfiguration, path *field.Path) field.ErrorList {
	errs := nominal(l.NominalConcurrencyShares, path)
	errs = append(errs, validateResponse(&l.LimitResponse, path.Child("limitResponse"))...)
	errs = append(errs, lendable(l.LendablePercent, path)...)
	if b := l.BorrowingLimitPercent; b != nil && *b < 0 {
		errs = append(errs, field.Invalid(path.Child("borrowingLimitPercent"), *b, "if specified, must be a non-negative integer"))
	}
	return errs
}

func validateResponse(response *flowcontrolv1.LimitResponse, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch response.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		if response.Queuing != nil {
			errs = append(errs, field.Forbidden(at.Child("queuing"), "must be nil if limited.limitResponse.type is not Limited"))
		}
	case flowcontrolv1.LimitResponseTypeQueue:
		if response.Queuing == nil {
			return append(errs, field.Required(at.Child("queuing"), "must not be empty if limited.limitResponse.type is Limited"))
		}
		errs = append(errs, validateQueuing(response.Queuing, at.Child("queuing"))...)
	default:
		errs = append(errs, check.Choice(response.Type, at.Child("type"), flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject)...)
	}
	return errs
}

func validateQueuing(q *flowcontrolv1.QueuingConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, n := range []struct {
		name  string
		value int32
	}{{"queueLengthLimit", q.QueueLengthLimit}, {"queues", q.Queues}, {"handSize", q.HandSize}} {
		if n.value <= 0 {
			errs = append(errs, field.Invalid(path.Child(n.name), n.value, "must be positive"))
		}
	}
	if q.Queues > mostQueues {
		errs = append(errs, field.Invalid(path.Child("queues"), q.Queues, fmt.Sprintf("must not be greater than %d", mostQueues)))
	}
	hand := path.Child("handSize")
	switch {
	case q.HandSize > q.Queues:
		errs = append(errs, field.Invalid(hand, q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues)))
	case q.HandSize > 0 && entropy(q.Queues, q.HandSize) > mostEntropy:
		errs = append(errs, field.Invalid(hand, q.HandSize, fmt.Sprintf(
			"required entropy bits of deckSize %d and handSize %d should not be greater than %d", q.Queues, q.HandSize, mostEntropy)))
	}
	return errs
}

// entropy is the number of random bits that dealing a hand out of a deck takes.
func entropy(deck, hand int32) int {
	return int(math.Ceil(math.Log2(float64(deck)) * float64(hand)))
}
