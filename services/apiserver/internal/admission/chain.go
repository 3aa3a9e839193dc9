package admission

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"howdah.dev/kit/obs"
)

// slow is how long a plugin's turn must take to be noted in the span of the chain's run.
const slow = time.Millisecond

var tracer = otel.Tracer("howdah.dev/services/apiserver/admission")

// Chain runs plugins in order: first all mutators, and the permitters; then, when the object has been validated, all validators.
type Chain struct {
	mutators, permitters, validators []turn
	metrics                          *Metrics
}

// turn is one plugin's part in a phase.
type turn struct {
	plugin Plugin
	run    func(context.Context, *Attributes) error
	record *recorder
}

// NewChain returns a chain of the plugins, in the order given. nil metrics measure nothing.
func NewChain(metrics *Metrics, plugins ...Plugin) *Chain {
	c := &Chain{metrics: metrics}
	for _, p := range plugins {
		if m, ok := p.(Mutator); ok {
			c.mutators = append(c.mutators, turn{p, m.Admit, metrics.plugin(p.Name(), "admit")})
		}
		if q, ok := p.(Permitter); ok {
			c.permitters = append(c.permitters, turn{p, q.Permit, metrics.plugin(p.Name(), "validate")})
		}
		if v, ok := p.(Validator); ok {
			c.validators = append(c.validators, turn{p, v.Validate, metrics.plugin(p.Name(), "validate")})
		}
	}
	return c
}

// Admit runs the mutators, and a second time where one asks for it, and then the permitters. The first refusal ends it.
func (c *Chain) Admit(ctx context.Context, a *Attributes) error {
	if c == nil {
		return nil
	}
	err := c.phase(ctx, a, "mutate", c.mutators, c.metrics.step("admit"))
	if err == nil && a.Again {
		a.Round++
		err = c.phase(ctx, a, "mutate", c.mutators, c.metrics.step("admit"))
	}
	if err != nil || !slices.ContainsFunc(c.permitters, func(t turn) bool { return t.plugin.Handles(a) }) {
		return err
	}
	return c.phase(ctx, a, "permit", c.permitters, nil) // which Kubernetes does not count as a step of admission
}

// Validate runs the validators. The first refusal ends it.
func (c *Chain) Validate(ctx context.Context, a *Attributes) error {
	if c == nil {
		return nil
	}
	return c.phase(ctx, a, "validate", c.validators, c.metrics.step("validate"))
}

func (c *Chain) phase(ctx context.Context, a *Attributes, step string, turns []turn, record *recorder) error {
	if !trace.SpanFromContext(ctx).IsRecording() {
		_, err := run(ctx, a, turns, record, nil)
		return err
	}
	ctx, span := tracer.Start(ctx, "admission."+step, trace.WithAttributes(attribute.String("admission.operation", string(a.Operation))))
	refusedBy, err := run(ctx, a, turns, record, span)
	if refusedBy != "" {
		span.SetAttributes(attribute.String("admission.refused_by", refusedBy))
	}
	obs.End(span, err)
	return err
}

// run gives each plugin its turn, and returns the name of the one that refused.
func run(ctx context.Context, a *Attributes, turns []turn, record *recorder, span trace.Span) (string, error) {
	start := time.Now()
	before := start
	for i := range turns {
		t := &turns[i]
		if !t.plugin.Handles(a) {
			continue
		}
		err := t.run(ctx, a)
		now := time.Now()
		took := now.Sub(before)
		before = now
		t.record.observe(a.Operation, err != nil, took)
		if span != nil && took >= slow {
			span.AddEvent("slow admission plugin", trace.WithAttributes(
				attribute.String("admission.plugin", t.plugin.Name()), attribute.Int64("admission.microseconds", took.Microseconds())))
		}
		if err != nil {
			record.observe(a.Operation, true, now.Sub(start))
			return t.plugin.Name(), err
		}
	}
	record.observe(a.Operation, false, before.Sub(start))
	return "", nil
}
