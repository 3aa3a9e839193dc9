package apiserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
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
}

func used(f *fixture, namespace, name, what string) string {
	f.t.Helper()
	body, err := f.get("v1/resourcequotas", namespace, name)
	if err != nil {
		f.t.Fatal(err)
	}
	var q corev1.ResourceQuota
	if err := json.Unmarshal(body, &q); err != nil {
		f.t.Fatal(err)
	}
	n := q.Status.Used[corev1.ResourceName(what)]
	return n.String()
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
