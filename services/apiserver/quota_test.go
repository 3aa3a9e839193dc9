package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/itself"
)

// setQuota makes a quota whose status is what its controller would write.
func setQuota(f *fixture, namespace, name string, hard map[string]string) {
	f.t.Helper()
	list := corev1.ResourceList{}
	used := corev1.ResourceList{}
	for k, v := range hard {
		list[corev1.ResourceName(k)], used[corev1.ResourceName(k)] = resource.MustParse(v), resource.MustParse("0")
	}
	q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: list}}
	q.Name, q.Namespace, q.APIVersion, q.Kind = name, namespace, "v1", "ResourceQuota"
	body, err := json.Marshal(q)
	if err != nil {
		f.t.Fatal(err)
	}
	f.must(f.create("v1/resourcequotas", namespace, string(body)))
	q.Status = corev1.ResourceQuotaStatus{Hard: list, Used: used}
	if body, err = json.Marshal(q); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.api.Update(f.ctx, &apiv1.UpdateRequest{Version: "v1", Resource: "resourcequotas", Namespace: namespace, Name: name, Subresource: "status", Object: body}); err != nil {
		f.t.Fatal(err)
	}
	// A read of the newest state: from here on the API server knows the quota. Until then it lets writes pass uncounted.
	if _, err := f.get("v1/resourcequotas", namespace, name); err != nil {
		f.t.Fatal(err)
	}
}

func used(f *fixture, namespace, name, what string) string {
	f.t.Helper()
	n := quotaOf(f, namespace, name).Status.Used[corev1.ResourceName(what)]
	return n.String()
}

func quotaOf(f *fixture, namespace, name string) *corev1.ResourceQuota {
	f.t.Helper()
	body, err := f.get("v1/resourcequotas", namespace, name)
	if err != nil {
		f.t.Fatal(err)
	}
	var q corev1.ResourceQuota
	if err := json.Unmarshal(body, &q); err != nil {
		f.t.Fatal(err)
	}
	return &q
}

func TestQuotaCountsWithTheWrite(t *testing.T) {
	f := startMemory(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	setQuota(f, "default", "q", map[string]string{
		"pods": "2", "requests.cpu": "1", "count/configmaps": "1", "services.nodeports": "1", "requests.storage": "10Gi",
	})
	pod := func(name, cpu string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":%q}}}]}}`, name, cpu)
	}
	f.must(f.create("v1/pods", "default", pod("one", "600m")))
	if got := used(f, "default", "q", "requests.cpu"); got != "600m" {
		t.Errorf("used %s", got)
	}
	charged := slices.IndexFunc(quotaOf(f, "default", "q").ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == itself.Name && e.Subresource == "status" && e.FieldsV1.String() == `{"f:status":{"f:used":{"f:pods":{},"f:requests.cpu":{}}}}`
	})
	if charged < 0 {
		t.Errorf("nobody is known to have charged: %v", quotaOf(f, "default", "q").ManagedFields)
	}
	refused := func(err error, want string) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	_, err := f.create("v1/pods", "default", pod("two", "500m"))
	refused(err, `pods "two" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1`)
	_, err = f.create("v1/pods", "default", `{"metadata":{"name":"mute"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	refused(err, "failed quota: q: must specify requests.cpu for: c")
	// What fails for another reason consumes nothing.
	if _, err = f.create("v1/pods", "default", pod("one", "100m")); !apierrors.IsAlreadyExists(err) {
		t.Errorf("got %v", err)
	}
	_, err = f.api.Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: "pods", Namespace: "default", Object: []byte(pod("dry", "100m")), DryRun: []string{"All"}})
	if err != nil {
		t.Error(err)
	}
	if cpu, pods := used(f, "default", "q", "requests.cpu"), used(f, "default", "q", "pods"); cpu != "600m" || pods != "1" {
		t.Errorf("used %s, %s pods", cpu, pods)
	}
	f.must(f.create("v1/configmaps", "default", `{"metadata":{"name":"a"}}`))
	_, err = f.create("v1/configmaps", "default", `{"metadata":{"name":"b"}}`)
	refused(err, "exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1")

	// A change counts by its difference.
	f.must(f.create("v1/services", "default", `{"metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`))
	patch := func(body string) error {
		_, err := f.api.Patch(f.ctx, &apiv1.PatchRequest{Version: "v1", Resource: "services", Namespace: "default", Name: "s",
			ContentType: "application/merge-patch+json", Object: []byte(body)})
		return apistatus.FromGRPC(err)
	}
	refused(patch(`{"spec":{"ports":[{"name":"a","port":80},{"name":"b","port":81}]}}`), "exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=1, limited: services.nodeports=1")
	if err := patch(`{"spec":{"type":"ClusterIP"}}`); err != nil {
		t.Error(err)
	}
	if got := used(f, "default", "q", "services.nodeports"); got != "0" {
		t.Errorf("used %s node ports", got)
	}
}

func TestQuotaIsExactUnderConcurrency(t *testing.T) {
	f := startPostgres(t)
	setQuota(f, "default", "q", map[string]string{"count/configmaps": "40"})
	setQuota(f, "default", "r", map[string]string{"configmaps": "60"})
	var made, refused atomic.Int32
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for n := range 10 {
				// Half of the names are somebody else's too.
				name := fmt.Sprintf("c-%d-%d", w/2*(n%2)+w*(1-n%2), n)
				_, err := f.create("v1/configmaps", "default", fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
				switch {
				case err == nil:
					made.Add(1)
				case apierrors.IsForbidden(err):
					refused.Add(1)
				case !apierrors.IsAlreadyExists(err):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if made.Load() != 40 || refused.Load() == 0 {
		t.Errorf("%d made, %d refused", made.Load(), refused.Load())
	}
	if q, r := used(f, "default", "q", "count/configmaps"), used(f, "default", "r", "configmaps"); q != "40" || r != "40" {
		t.Errorf("used %s and %s", q, r)
	}
}

func TestQuotaIsExactWithTwoServers(t *testing.T) {
	var url string
	one := startPostgres(t, func(c *Config) { c.Registerer = prometheus.NewRegistry() })
	url = one.server.cfg.DatabaseURL
	two := start(t, nil, func(c *Config) { c.DatabaseURL = url })
	setQuota(one, "default", "q", map[string]string{"count/configmaps": "50"})
	used(two, "default", "q", "count/configmaps") // a read of the newest state: now it knows the quota
	var made atomic.Int32
	var wg sync.WaitGroup
	for w := range 12 {
		f := []*fixture{one, two}[w%2]
		wg.Go(func() {
			for n := range 6 {
				_, err := f.create("v1/configmaps", "default", fmt.Sprintf(`{"metadata":{"name":"c-%d-%d"}}`, w, n))
				switch {
				case err == nil:
					made.Add(1)
				case !apierrors.IsForbidden(err):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := used(two, "default", "q", "count/configmaps"); made.Load() != 50 || got != "50" {
		t.Errorf("%d made, %s used", made.Load(), got)
	}
}

func TestQuotaOfAnAtomicBatch(t *testing.T) {
	f := startMemory(t)
	f.must(f.create("v1/namespaces", "", `{"metadata":{"name":"team"}}`))
	setQuota(f, "default", "q", map[string]string{"configmaps": "2"})
	setQuota(f, "team", "r", map[string]string{"configmaps": "1"})
	batch := func(names ...string) (codes []int32) {
		t.Helper()
		req := &apiv1.BatchRequest{Atomic: true}
		for _, name := range names {
			ns, name, _ := strings.Cut(name, "/")
			req.Items = append(req.Items, &apiv1.BatchItem{Write: &apiv1.BatchItem_Create{Create: &apiv1.CreateRequest{
				Version: "v1", Resource: "configmaps", Namespace: ns, Object: []byte(`{"metadata":{"name":"` + name + `"}}`)}}})
		}
		resp, err := f.api.Batch(f.ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range resp.GetResults() {
			codes = append(codes, r.GetCode())
		}
		return codes
	}
	if got := fmt.Sprint(batch("default/a", "team/a", "team/b")); !strings.Contains(got, "403") && !strings.Contains(got, "409") {
		t.Errorf("too much: %s", got)
	}
	if q, r := used(f, "default", "q", "configmaps"), used(f, "team", "r", "configmaps"); q != "0" || r != "0" {
		t.Errorf("a refused batch used %s and %s", q, r)
	}
	if got := fmt.Sprint(batch("default/a", "team/a", "default/b")); got != "[201 201 201]" {
		t.Errorf("got %s", got)
	}
	if q, r := used(f, "default", "q", "configmaps"), used(f, "team", "r", "configmaps"); q != "2" || r != "1" {
		t.Errorf("used %s and %s", q, r)
	}
}

func BenchmarkCreateWithQuota(b *testing.B) {
	for _, quota := range []bool{false, true} {
		b.Run(fmt.Sprintf("quota=%v", quota), func(b *testing.B) {
			f := startPostgres(b)
			f.ctx = context.Background()
			if quota {
				setQuota(f, "default", "q", map[string]string{"count/configmaps": "10000000", "configmaps": "10000000"})
			}
			var n atomic.Int64
			b.SetParallelism(32)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := f.create("v1/configmaps", "default", fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, n.Add(1))); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
