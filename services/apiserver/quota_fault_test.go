package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/memstore"
	"howdah.dev/services/apiserver/internal/store"
)

// lossy is a backend of which single writes fail: those that touch a key that contains part.
type lossy struct {
	memory

	mu     sync.Mutex
	part   string
	err    error
	landed bool // it is written all the same
}

func lossyMemory() *lossy { return &lossy{memory: memory{memstore.New()}} }

// lose makes the next write to such a key fail; where it is to land, the next that does.
func (l *lossy) lose(part string, err error, landed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part, l.err, l.landed = part, err, landed
}

func (l *lossy) take(ws []store.Write) (landed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range ws {
		if l.err != nil && strings.Contains(w.Key, l.part) {
			return l.landed, l.err
		}
	}
	return true, nil
}

func (l *lossy) Write(ctx context.Context, w store.Write) store.Result {
	results, _ := l.WriteAtomic(ctx, []store.Write{w})
	return results[0]
}

func (l *lossy) WriteAtomic(ctx context.Context, ws []store.Write) (results []store.Result, err error) {
	landed, failed := l.take(ws)
	if landed {
		results, err = l.memory.WriteAtomic(ctx, ws)
	}
	if failed == nil || landed && err != nil { // there was nothing to lose
		return results, err
	}
	l.lose("", nil, false)
	results = make([]store.Result, len(ws))
	for n := range results {
		results[n].Err = failed
	}
	return results, failed
}

// TestARefusedTransactionLeavesEverythingAsItWas has one item of a transaction fail after, before and between items that consume quota:
// no object, no event, no usage and no node port is left of it.
func TestARefusedTransactionLeavesEverythingAsItWas(t *testing.T) {
	t.Parallel()
	st := lossyMemory()
	f := start(t, st)
	f.must(f.create("v1/namespaces", "", `{"metadata":{"name":"team"}}`))
	f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"there"}}`))
	setQuota(f, "default", "q", map[string]string{"configmaps": "3", "services.nodeports": "1"})
	setQuota(f, "team", "r", map[string]string{"count/configmaps": "1"})
	item := func(operation, namespace, name, more string) string {
		return fmt.Sprintf(`{"operation":%q,"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":%q%s}}}`, operation, namespace, name, more)
	}
	made := []string{
		item("create", "default", "one", ""), item("create", "team", "two", ""),
		`{"operation":"create","object":{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":"s"},
			"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":30123}]}}}`,
	}
	send := func(items ...string) error {
		_, err := f.transact(root, &apiv1.TransactRequest{Object: []byte(`{"items":[` + strings.Join(items, ",") + `]}`)})
		return err
	}
	usage := func() string {
		return used(f, "default", "q", "configmaps") + " " + used(f, "default", "q", "services.nodeports") + " " + used(f, "team", "r", "count/configmaps")
	}
	lost := func(err error) func() { return func() { st.lose("configmaps/default/one", err, false) } }
	for _, test := range []struct {
		name, bad string
		before    func()
		code      int32
		text      string
		everyone  bool // it is no single item's failure
	}{
		{name: "too much of the quota by itself", bad: `{"operation":"create","object":{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":"more"},
			"spec":{"type":"NodePort","ports":[{"name":"a","port":80},{"name":"b","port":81}]}}}`, code: 403, text: "exceeded quota: q, requested: services.nodeports=2"},
		{name: "too much of the quota with the others", bad: item("create", "team", "three", ""), code: 403,
			text: "exceeded quota: r, requested: count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1"},
		{name: "exists", bad: item("create", "default", "there", ""), code: 409, text: "already exists"},
		{name: "is not there", bad: item("update", "default", "missing", ""), code: 404, text: "not found"},
		{name: "has moved on", bad: item("update", "default", "there", `,"resourceVersion":"1"`), code: 409, text: "the object has been modified"},
		{name: "is invalid", bad: item("create", "default", "Bad Name", ""), code: 422, text: "Invalid value"},
		{name: "has no namespace", bad: item("create", "nowhere", "x", ""), code: 404, text: `namespaces "nowhere" not found`},
		{name: "the store is unavailable", before: lost(store.ErrUnavailable), code: 503, text: "the database is not available", everyone: true},
		{name: "the commit is lost", before: lost(store.ErrUnknownOutcome), code: 504, text: "its outcome is not known", everyone: true},
	} {
		for at := range len(made) + 1 {
			items := append([]string(nil), made[:at]...)
			if test.bad != "" {
				items = append(items, test.bad)
			}
			if items = append(items, made[at:]...); test.before != nil {
				test.before()
			}
			before := f.revision(t)
			status := apistatus.Of(send(items...))
			if status.Code != test.code || !strings.Contains(status.Message, test.text) {
				t.Errorf("%s at %d: %d %s", test.name, at, status.Code, status.Message)
			}
			if status.Details == nil || !test.everyone && len(status.Details.Causes) != 1 {
				t.Errorf("%s at %d: blames %+v", test.name, at, status.Details)
			}
			if after := f.revision(t); after != before {
				t.Errorf("%s at %d: the revision went from %d to %d", test.name, at, before, after)
			}
			if got := usage(); got != "0 0 0" {
				t.Errorf("%s at %d: used %s", test.name, at, got)
			}
		}
	}
	if err := send(made...); err != nil {
		t.Error(err)
	}
	if got := usage(); got != "1 1 1" {
		t.Errorf("used %s", got)
	}
}

// TestALostWriteIsCountedOnce loses the connection during a write, and lets the client try again until it has an answer.
func TestALostWriteIsCountedOnce(t *testing.T) {
	t.Parallel()
	patch := func(body string) func(f *fixture) error {
		return func(f *fixture) error {
			_, err := f.change("v1/services", "default", "s", "merge-patch+json", body)
			return err
		}
	}
	const ports = `{"spec":{"type":"NodePort","ports":[{"name":"a","port":80},{"name":"b","port":81}]}}`
	for _, test := range []struct {
		name  string
		write func(f *fixture) error
		again metav1.StatusReason // of the next try, where the lost one has landed; none: it succeeds
		used  string
	}{
		{"create", func(f *fixture) error {
			_, err := f.create("v1/services", "default", `{"metadata":{"name":"new"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`)
			return err
		}, metav1.StatusReasonAlreadyExists, "2 2"},
		{"take more", patch(ports), "", "1 2"},
		{"give back", patch(`{"spec":{"type":"ClusterIP"}}`), "", "1 0"},
		// What a deletion gives back is its controller's to count.
		{"delete", func(f *fixture) error { _, err := f.drop("v1/services", "default", "s"); return err }, metav1.StatusReasonNotFound, "1 1"},
	} {
		for _, landed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, landed %v", test.name, landed), func(t *testing.T) {
				t.Parallel()
				st := lossyMemory()
				f := start(t, st)
				setQuota(f, "default", "q", map[string]string{"services": "9", "services.nodeports": "9"})
				f.must(f.create("v1/services", "default", `{"metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[{"name":"a","port":80}]}}`))
				st.lose("services/", store.ErrUnknownOutcome, landed)
				if err := test.write(f); apistatus.Of(err).Reason != metav1.StatusReasonTimeout || !apierrors.IsTimeout(err) {
					t.Fatalf("the loss is told as %v", err)
				}
				for try, done := 0, landed; try < 3; try, done = try+1, true {
					f.fresh()
					want := test.again
					if !done {
						want = ""
					}
					if err := test.write(f); apierrors.ReasonForError(err) != want && (err != nil || want != "") {
						t.Errorf("try %d: %v, want %q", try, err, want)
					}
				}
				if got := used(f, "default", "q", "services") + " " + used(f, "default", "q", "services.nodeports"); got != test.used {
					t.Errorf("used %s, want %s", got, test.used)
				}
			})
		}
	}
}

// TestADeletionIsGivenBackOnce lets deletions be lost and tried again while others create and a controller counts what there is as it does:
// it reads the quota and then the objects, and writes the sum to the quota that it has read.
func TestADeletionIsGivenBackOnce(t *testing.T) {
	t.Parallel()
	st := lossyMemory()
	f, other := start(t, st), start(t, st)
	setQuota(f, "default", "q", map[string]string{"configmaps": "8"})
	used(other, "default", "q", "configmaps") // now it knows the quota, too
	var work sync.WaitGroup
	for n, f := range []*fixture{f, other, f, other} {
		work.Go(func() {
			for round := range 6 {
				name := fmt.Sprintf("c-%d-%d", n, round)
				if _, err := f.create("v1/configmaps", "default", fmt.Sprintf(`{"metadata":{"name":%q}}`, name)); err != nil {
					if !apierrors.IsForbidden(err) {
						t.Error(err)
					}
					continue
				}
				st.lose("configmaps/default/"+name, store.ErrUnknownOutcome, round%2 == 0)
				for tries := 0; tries < 3; tries++ {
					if _, err := f.drop("v1/configmaps", "default", name); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsTimeout(err) {
						t.Error(err)
					}
				}
				recount(f)
			}
		})
	}
	work.Wait()
	recount(f)
	if got := used(other, "default", "q", "configmaps"); got != "0" {
		t.Errorf("used %s when all is gone", got)
	}
	for n := range 9 {
		_, err := other.create("v1/configmaps", "default", fmt.Sprintf(`{"metadata":{"name":"last-%d"}}`, n))
		if n < 8 && err != nil || n == 8 && !apierrors.IsForbidden(err) {
			t.Errorf("creation %d: %v", n, err)
		}
	}
}

// recount sets what the quota q of configmaps says is used to what there is.
func recount(f *fixture) {
	f.t.Helper()
	for {
		body, err := f.get("v1/resourcequotas", "default", "q")
		if err != nil {
			f.t.Error(err)
			return
		}
		var q corev1.ResourceQuota
		var there metav1.PartialObjectMetadataList
		list, err := f.list(&apiv1.ListRequest{Version: "v1", Resource: "configmaps", Namespace: "default"})
		if err == nil {
			err = json.Unmarshal(list, &there)
		}
		if err == nil {
			err = json.Unmarshal(body, &q)
		}
		if err != nil {
			f.t.Error(err)
			return
		}
		count := q.Status.Used["configmaps"]
		count.Set(int64(len(there.Items)))
		q.Status.Used["configmaps"] = count
		if body, err = json.Marshal(&q); err != nil {
			f.t.Error(err)
			return
		}
		_, err = f.api.Update(f.ctx, &apiv1.UpdateRequest{Version: "v1", Resource: "resourcequotas", Namespace: "default", Name: "q", Subresource: "status", Object: body})
		if err = apistatus.FromGRPC(err); err == nil || !apierrors.IsConflict(err) {
			if err != nil {
				f.t.Error(err)
			}
			return
		}
	}
}
