// Package transaction serves howdah.api.v1.TransactionService: many manifests, applied all or nothing.
package transaction

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/obs"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/registry"
)

const (
	// MaxItems is the most items of a transaction: those of a batch.
	MaxItems = 1000
	// MaxBody is the largest body, in bytes.
	MaxBody = 3 << 20
)

var (
	tracer     = otel.Tracer("howdah.dev/services/apiserver/transaction")
	noResource schema.GroupResource
)

// Batcher commits batches.
type Batcher interface {
	Batch(ctx context.Context, req *apiv1.BatchRequest) (*apiv1.BatchResponse, error)
}

// Server implements apiv1.TransactionServiceServer.
type Server struct {
	apiv1.UnimplementedTransactionServiceServer
	table   *registry.Table
	objects Batcher
	total   *prometheus.CounterVec
	items   prometheus.Histogram
}

// New returns a server that commits through objects. A nil registerer leaves its metrics unregistered.
func New(table *registry.Table, objects Batcher, registerer prometheus.Registerer) *Server {
	s := &Server{
		table: table, objects: objects,
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "howdah_transactions_total", Help: "Transactions by outcome: committed, dry_run, refused.",
		}, []string{"outcome"}),
		items: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "howdah_transaction_items", Help: "Items of a transaction.", Buckets: prometheus.ExponentialBuckets(1, 4, 6),
		}),
	}
	if registerer != nil {
		registerer.MustRegister(s.total, s.items)
	}
	return s
}

// Transact implements apiv1.TransactionServiceServer.
func (s *Server) Transact(ctx context.Context, req *apiv1.TransactRequest) (resp *apiv1.TransactResponse, err error) {
	ctx, span := tracer.Start(ctx, "transaction")
	outcome := "refused"
	defer func() {
		s.total.WithLabelValues(outcome).Inc()
		obs.End(span, err)
	}()
	d, err := options(ctx, req)
	if err != nil {
		return nil, err
	}
	if len(req.GetObject()) > MaxBody {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", MaxBody))
	}
	items, err := parse(req.GetObject(), req.GetContentType())
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, apierrors.NewBadRequest("the transaction has no items")
	}
	if len(items) > MaxItems {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("a transaction has at most %d items, this one has %d", MaxItems, len(items)))
	}
	span.SetAttributes(attribute.Int("transaction.items", len(items)), attribute.Bool("transaction.dry_run", len(d.dryRun) > 0))
	s.items.Observe(float64(len(items)))
	result, err := s.commit(ctx, items, d)
	if err != nil {
		return nil, err
	}
	if outcome = "committed"; result.DryRun {
		outcome = "dry_run"
	}
	span.SetAttributes(attribute.String("transaction.first_revision", result.FirstRevision), attribute.String("transaction.last_revision", result.LastRevision))
	return result.encode(req.GetPretty() == "true" || req.GetPretty() == "1")
}

// commit reads the items, and commits them if all can be read.
func (s *Server) commit(ctx context.Context, items []item, d defaults) (*Result, error) {
	writes := make([]write, len(items))
	batch := &apiv1.BatchRequest{Atomic: true}
	var problems failures
	for n, i := range items {
		var err error
		if writes[n], err = prepare(s.table, i, d); err != nil {
			problems.add(n, writes[n], err)
			continue
		}
		batch.Items = append(batch.Items, writes[n].batch)
	}
	if len(problems) > 0 {
		return nil, problems.status()
	}
	response, err := s.objects.Batch(ctx, batch)
	if err != nil {
		return nil, err
	}
	if err := failed(writes, response.GetResults()); err != nil {
		return nil, err
	}
	result, err := newResult(writes, response.GetResults(), len(d.dryRun) > 0)
	if err != nil {
		return nil, err
	}
	if id := trace.SpanContextFromContext(ctx).TraceID(); id.IsValid() {
		result.TraceID = id.String()
	}
	return result, nil
}

// options checks what holds for the items that say nothing themselves.
func options(ctx context.Context, req *apiv1.TransactRequest) (defaults, error) {
	d := defaults{
		operation: req.GetOperation(), namespace: req.GetNamespace(), manager: req.GetFieldManager(),
		validation: req.GetFieldValidation(), force: req.GetForce(), dryRun: req.GetDryRun(),
	}
	errs := metav1validation.ValidateDryRun(field.NewPath("dryRun"), d.dryRun)
	errs = append(errs, metav1validation.ValidateFieldManager(d.manager, field.NewPath("fieldManager"))...)
	errs = append(errs, metav1validation.ValidateFieldValidation(field.NewPath("fieldValidation"), d.validation)...)
	if len(errs) > 0 {
		return d, apierrors.NewInvalid(schema.GroupKind{Group: "howdah.dev", Kind: "Transaction"}, "", errs)
	}
	if d.operation == "" {
		d.operation = "apply"
	}
	if d.namespace == "" {
		d.namespace = "default"
	}
	if d.manager == "" {
		d.manager = program(ctx) // an apply needs one
	}
	return d, nil
}

// program is the first part of the client's user agent.
func program(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, key := range []string{"grpcgateway-user-agent", "howdah-user-agent", "user-agent"} {
		if v := md.Get(key); len(v) > 0 { // the first that is there is the client's, even if it is empty
			name, _, _ := strings.Cut(v[0], "/")
			if name = strings.Map(printable, name); name != "" {
				return name[:min(len(name), 128)]
			}
			break
		}
	}
	return "unknown"
}

func printable(c rune) rune {
	if c < ' ' || c > '~' {
		return -1
	}
	return c
}
