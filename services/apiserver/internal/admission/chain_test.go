package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/registry"
)

// part is a plugin that notes its turns.
type part struct {
	name    string
	skips   bool
	refuses error
	log     *[]string
}

func (p *part) Name() string             { return p.name }
func (p *part) Handles(*Attributes) bool { return !p.skips }
func (p *part) turn(what string) error   { *p.log = append(*p.log, what+" "+p.name); return p.refuses }

type mutator struct{ part }

func (m *mutator) Admit(context.Context, *Attributes) error { return m.turn("admit") }

type validator struct{ part }

func (v *validator) Validate(context.Context, *Attributes) error { return v.turn("validate") }

type both struct{ part }

func (b *both) Admit(context.Context, *Attributes) error    { return b.turn("admit") }
func (b *both) Validate(context.Context, *Attributes) error { return b.turn("validate") }

func TestChain(t *testing.T) {
	t.Parallel()
	var log []string
	registry := prometheus.NewRegistry()
	no := errors.New("no")
	c := NewChain(NewMetrics(registry),
		&both{part{name: "A", log: &log}}, &validator{part{name: "B", log: &log}}, &mutator{part{name: "C", skips: true, log: &log}},
		&both{part{name: "D", log: &log, refuses: no}}, &both{part{name: "E", log: &log}})
	a := &Attributes{Operation: Create}
	if err := c.Admit(t.Context(), a); !errors.Is(err, no) {
		t.Errorf("admit: %v", err)
	}
	if err := c.Validate(t.Context(), a); !errors.Is(err, no) {
		t.Errorf("validate: %v", err)
	}
	if got := strings.Join(log, ", "); got != "admit A, admit D, validate A, validate B, validate D" {
		t.Errorf("turns: %s", got)
	}
	for name, want := range map[string]int{
		"apiserver_admission_controller_admission_duration_seconds": 5, "apiserver_admission_step_admission_duration_seconds": 2,
	} {
		if n, err := testutil.GatherAndCount(registry, name); err != nil || n != want {
			t.Errorf("%s: %d series, %v", name, n, err)
		}
	}
}

type permitter struct{ part }

func (p *permitter) Permit(context.Context, *Attributes) error { return p.turn("permit") }

func TestPermittersComeAfterAllMutators(t *testing.T) {
	t.Parallel()
	var log []string
	c := NewChain(nil, &permitter{part{name: "A", log: &log}}, &mutator{part{name: "B", log: &log}}, &permitter{part{name: "C", skips: true, log: &log}})
	if err := c.Admit(t.Context(), &Attributes{Operation: Create, Again: true}); err != nil {
		t.Error(err)
	}
	if got := strings.Join(log, ", "); got != "admit B, admit B, permit A" {
		t.Errorf("turns: %s", got)
	}
	no := errors.New("no")
	if err := NewChain(nil, &permitter{part{name: "A", log: &log, refuses: no}}).Admit(t.Context(), &Attributes{Operation: Create}); !errors.Is(err, no) {
		t.Error(err)
	}
	if err := NewChain(nil, &mutator{part{name: "A", log: &log, refuses: no}}, &permitter{part{name: "B", log: &log}}).Admit(t.Context(), &Attributes{Operation: Create}); !errors.Is(err, no) || log[len(log)-1] != "admit A" {
		t.Error(err, log)
	}
}

func TestNoChain(t *testing.T) {
	t.Parallel()
	var c *Chain
	if c.Admit(t.Context(), &Attributes{}) != nil || c.Validate(t.Context(), &Attributes{}) != nil {
		t.Error("no chain refuses")
	}
	if err := NewChain(nil, &both{part{name: "A", log: new([]string)}}).Admit(t.Context(), &Attributes{Operation: Update}); err != nil {
		t.Error(err)
	}
}

func TestSpanOfAPhase(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	ctx, parent := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test").Start(t.Context(), "request")
	c := NewChain(nil, &mutator{part{name: "A", log: new([]string), refuses: errors.New("no")}})
	if err := c.Admit(ctx, &Attributes{Operation: Create}); err == nil {
		t.Error("admitted")
	}
	parent.End()
	// The package's tracer is the process's: where none is set up it makes no spans, and must not fail for it.
	if len(spans.Ended()) == 0 {
		t.Error("the request's span is lost")
	}
}

func TestForbidden(t *testing.T) {
	t.Parallel()
	a := &Attributes{Name: "n", Resource: &registry.Resource{GVR: schema.GroupVersionResource{Resource: "pods"}}}
	if got := a.Forbidden(errors.New("because")).Error(); got != `pods "n" is forbidden: because` {
		t.Error(got)
	}
}
