package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applyflowcontrolv1 "k8s.io/client-go/applyconfigurations/flowcontrol/v1"
	"k8s.io/utils/clock"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/itself"
)

// API is what keeping the objects needs of the object service.
type API interface {
	Batch(ctx context.Context, req *apiv1.BatchRequest) (*apiv1.BatchResponse, error)
}

// Keeper makes the mandatory and suggested objects stand, and tells schemas whether their level exists. Several API servers may do so at once.
type Keeper struct {
	API    API
	Source Source
	// Fresh brings the source up to date.
	Fresh func(context.Context) error
	Clock clock.WithTicker
}

// Bootstrap writes what is missing until nothing is, or ctx ends.
func (k Keeper) Bootstrap(ctx context.Context) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		done, err := k.once(ctx)
		if done || ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			slog.WarnContext(ctx, "write the cluster's own flow schemas", "err", err)
		}
		if err == nil && wait < time.Second {
			continue // to see whether it is done
		}
		timer := k.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
	}
}

// Run looks after the objects whenever they have changed, until ctx ends.
func (k Keeper) Run(ctx context.Context) error {
	ticker := k.Clock.NewTicker(time.Second)
	defer ticker.Stop()
	var settled [2]int64
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		now := k.Source.Revisions()
		if now == settled {
			continue
		}
		done, err := k.once(ctx)
		if err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "keep the cluster's own flow schemas", "err", err)
		}
		if done {
			settled = now
		}
	}
}

// once reports whether nothing was to be done.
func (k Keeper) once(ctx context.Context) (bool, error) {
	ctx = itself.Context(ctx)
	if err := k.Fresh(ctx); err != nil {
		return false, err
	}
	items, err := writes(k.Source.Objects(), k.Clock.Now())
	if err != nil || len(items) == 0 {
		return err == nil, err
	}
	resp, err := k.API.Batch(ctx, &apiv1.BatchRequest{Items: items})
	if err != nil {
		return false, err
	}
	for _, r := range resp.GetResults() {
		if r.GetCode() >= 400 && r.GetCode() != 409 && r.GetCode() != 404 { // another apiserver was first
			return false, fmt.Errorf("%s", r.GetObject())
		}
	}
	return false, nil
}

// writes returns what brings the objects to where they have to be: the mandatory ones to their specs, the suggested ones too where
// nobody has changed them, and every schema's condition to the truth.
func writes(have Objects, now time.Time) ([]*apiv1.BatchItem, error) {
	w := &writer{}
	levels := map[string]*flowcontrolv1.PriorityLevelConfiguration{}
	for _, l := range have.Levels {
		levels[l.Name] = l
	}
	schemas := map[string]*flowcontrolv1.FlowSchema{}
	for _, s := range have.Schemas {
		schemas[s.Name] = s
	}
	for mandatory, want := range map[bool]Objects{true: Mandatory(), false: Suggested()} {
		for _, l := range want.Levels {
			old := levels[l.Name]
			if old == nil {
				w.create("prioritylevelconfigurations", annotated(l, true))
				continue
			}
			if mandatory && l.Spec.Type == flowcontrolv1.PriorityLevelEnablementExempt && old.Spec.Exempt != nil {
				l.Spec.Exempt = old.Spec.Exempt // these are the administrators' own
			}
			keep, say := upkeep(old, mandatory)
			if changed := keep && !equality.Semantic.DeepEqual(old.Spec, l.Spec); changed || say {
				next := old.DeepCopy()
				if changed {
					next.Spec = l.Spec
				}
				w.update("prioritylevelconfigurations", annotated(next, keep))
			}
		}
		for _, s := range want.Schemas {
			old := schemas[s.Name]
			if old == nil {
				w.create("flowschemas", annotated(s, true))
				continue
			}
			keep, say := upkeep(old, mandatory)
			if changed := keep && !equality.Semantic.DeepEqual(old.Spec, s.Spec); changed || say {
				next := old.DeepCopy()
				if changed {
					next.Spec = s.Spec
				}
				w.update("flowschemas", annotated(next, keep))
			}
		}
	}
	if len(w.items) > 0 { // conditions are told of what stands
		return w.items, w.err
	}
	for _, s := range have.Schemas {
		if c := dangling(s, levels[s.Spec.PriorityLevelConfiguration.Name] != nil, now); c != nil {
			w.tell(s.Name, *c)
		}
	}
	return w.items, w.err
}

// upkeep tells whether an object's spec is kept by us, and whether its annotation has to say so anew. A suggested object that does not
// say is kept while nobody has changed its spec.
func upkeep(o metav1.Object, mandatory bool) (keep, say bool) {
	said, err := strconv.ParseBool(o.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey])
	switch {
	case mandatory:
		return true, err != nil || !said
	case err != nil:
		return o.GetGeneration() <= 1, true
	}
	return said, false
}

func annotated[T metav1.Object](o T, keep bool) T {
	annotations := map[string]string{}
	for key, value := range o.GetAnnotations() {
		annotations[key] = value
	}
	annotations[flowcontrolv1.AutoUpdateAnnotationKey] = strconv.FormatBool(keep)
	o.SetAnnotations(annotations)
	return o
}

// dangling returns the condition that a schema should have, nil where it has it.
func dangling(s *flowcontrolv1.FlowSchema, found bool, now time.Time) *flowcontrolv1.FlowSchemaCondition {
	name := s.Spec.PriorityLevelConfiguration.Name
	c := flowcontrolv1.FlowSchemaCondition{
		Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse, Reason: "Found",
		LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
		Message:            fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", name),
	}
	if !found {
		c.Status, c.Reason = flowcontrolv1.ConditionTrue, "NotFound"
		c.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q but there is no such object", name)
	}
	for _, old := range s.Status.Conditions {
		if old.Type != c.Type {
			continue
		}
		if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
			return nil
		}
		if old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	return &c
}

// writer collects writes.
type writer struct {
	items []*apiv1.BatchItem
	err   error
}

func (w *writer) encode(o metav1.Object) []byte {
	body, err := json.Marshal(o)
	if err != nil && w.err == nil {
		w.err = err
	}
	return body
}

func (w *writer) create(resource string, o metav1.Object) {
	w.items = append(w.items, &apiv1.BatchItem{Write: &apiv1.BatchItem_Create{Create: &apiv1.CreateRequest{
		Group: flowcontrolv1.GroupName, Version: "v1", Resource: resource, Object: w.encode(o), FieldManager: keeper,
	}}})
}

func (w *writer) update(resource string, o metav1.Object) {
	w.items = append(w.items, &apiv1.BatchItem{Write: &apiv1.BatchItem_Update{Update: &apiv1.UpdateRequest{
		Group: flowcontrolv1.GroupName, Version: "v1", Resource: resource, Name: o.GetName(), Object: w.encode(o), FieldManager: keeper,
	}}})
}

// keeper and teller are the field managers of the objects and of the conditions, by the names that Kubernetes' own API servers use.
const (
	keeper = "api-priority-and-fairness-config-producer-v1"
	teller = "api-priority-and-fairness-config-consumer-v1"
)

// tell applies a schema's condition.
func (w *writer) tell(schema string, c flowcontrolv1.FlowSchemaCondition) {
	condition := applyflowcontrolv1.FlowSchemaCondition().WithType(c.Type).WithStatus(c.Status).WithReason(c.Reason).
		WithMessage(c.Message).WithLastTransitionTime(c.LastTransitionTime)
	body, err := json.Marshal(applyflowcontrolv1.FlowSchema(schema).WithStatus(applyflowcontrolv1.FlowSchemaStatus().WithConditions(condition)))
	if err != nil && w.err == nil {
		w.err = err
	}
	w.items = append(w.items, &apiv1.BatchItem{Write: &apiv1.BatchItem_Patch{Patch: &apiv1.PatchRequest{
		Group: flowcontrolv1.GroupName, Version: "v1", Resource: "flowschemas", Subresource: "status", Name: schema, Object: body,
		ContentType: string(types.ApplyYAMLPatchType), FieldManager: teller, Force: "true",
	}}})
}
