package webhooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/admission/view"
	"howdah.dev/services/apiserver/internal/audit"
)

// Validating is the plugin ValidatingAdmissionWebhook: it asks all webhooks that a write concerns at once.
type Validating struct {
	*caller
	hooks *view.Followed[*index]
}

// Name implements admission.Plugin.
func (*Validating) Name() string { return "ValidatingAdmissionWebhook" }

// Handles implements admission.Plugin.
func (p *Validating) Handles(a *admission.Attributes) bool { return handles(a, p.hooks) }

// Validate implements admission.Validator.
func (p *Validating) Validate(ctx context.Context, a *admission.Attributes) error {
	if err := p.hooks.Await(ctx); err != nil || view.Exempt(a) {
		return err
	}
	defer audit.From(ctx).Timing(audit.ValidatingWebhook)()
	return admission.Final(p.validate(ctx, a))
}

func (p *Validating) validate(ctx context.Context, a *admission.Attributes) error {
	r := view.New(a, p.table)
	var questions []*question
	for _, h := range p.hooks.Get().hooks {
		v, err := p.concerns(ctx, h, "validating", r)
		if err != nil {
			return err
		}
		if v == nil {
			continue
		}
		asked, err := r.As(ctx, r.Resource)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		q, err := ask(r, h, v, asked, false)
		if err != nil {
			return err
		}
		questions = append(questions, q)
	}
	return p.all(ctx, a, questions)
}

// all sends the questions at once and waits for all answers. The first refusal, in their order, is the outcome.
func (p *Validating) all(ctx context.Context, a *admission.Attributes, questions []*question) error {
	answers, failures := make([]*answer, len(questions)), make([]error, len(questions))
	if len(questions) == 1 {
		answers[0], failures[0] = p.send(ctx, questions[0])
	} else {
		var wg sync.WaitGroup
		for i, q := range questions {
			wg.Go(func() { answers[i], failures[i] = p.send(ctx, q) })
		}
		wg.Wait()
	}
	var refusal error
	for i, q := range questions {
		err := p.outcome(ctx, a, i, q, answers[i], failures[i])
		if refusal == nil {
			refusal = err
		}
	}
	return refusal
}

func (p *Validating) outcome(ctx context.Context, a *admission.Attributes, i int, q *question, got *answer, err error) error {
	var failed *failure
	if errors.As(err, &failed) {
		if q.hook.ignoresFailure {
			slog.WarnContext(ctx, "failed calling webhook, failing open", "webhook", q.hook.name, "err", failed.cause)
			a.Annotate(fmt.Sprintf("failed-open.validating.webhook.admission.k8s.io/round_0_index_%d", i), q.hook.name)
			p.metrics.openFailure(q.hook, "validating", a, got)
			return nil
		}
		p.metrics.failed(q.hook, "validating", a, got, failed)
		return apierrors.NewInternalError(failed)
	}
	heed(a, q.hook, got.response)
	if !got.response.Allowed {
		refusal := denied(q.hook.name, got.response.Result)
		p.metrics.denied(q.hook, "validating", a, got, refusal)
		return refusal
	}
	p.metrics.allowed(q.hook, "validating", a, got)
	return nil
}
