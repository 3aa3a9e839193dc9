package lookup

import (
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

func TestObjectsAreReadOnceInAWhile(t *testing.T) {
	t.Parallel()
	api, client := objecttest.Start(t)
	clk := clocktesting.NewFakeClock(time.Now())
	o := New(client, nil, clk)
	if _, err := o.ConfigMap(t.Context(), "ns", "x"); err == nil || err.Error() != `configmap "x" not found` {
		t.Errorf("error %v", err)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"}, Data: map[string]string{"k": "1"}}
	cm, err := object.For(client, object.ConfigMap).Create(t.Context(), cm)
	if err != nil {
		t.Fatal(err)
	}
	before := api.Calls("get configmaps")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got, err := o.ConfigMap(t.Context(), "ns", "x"); err != nil || got.Data["k"] != "1" {
				t.Errorf("read %v, %v", got, err)
			}
		})
	}
	wg.Wait()
	if reads := api.Calls("get configmaps") - before; reads != 1 {
		t.Errorf("%d reads for 20 at once", reads)
	}
	cm.Data["k"] = "2"
	if _, err := object.For(client, object.ConfigMap).Update(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	clk.Step(Fresh)
	if got, err := o.ConfigMap(t.Context(), "ns", "x"); err != nil || got.Data["k"] != "2" {
		t.Errorf("later: %v, %v", got, err)
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	o := New(client, nil, clocktesting.NewFakeClock(time.Now()))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{ServiceAccountName: "sa"}}
	token, expires, err := o.Token(t.Context(), pod, "", 600)
	if err != nil || token != "token-sa-1" || time.Until(expires) < 9*time.Minute {
		t.Errorf("token %q until %v, %v", token, expires, err)
	}
}
