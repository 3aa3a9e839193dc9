package rootca

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func TestCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		code string
	}{
		{nil, "200"},
		{errors.New("away"), "500"},
		{fmt.Errorf("write root CA: %w", apierrors.NewConflict(object.ConfigMap.GroupResource(), mapName, nil)), "409"},
	} {
		m := NewMetrics(prometheus.NewRegistry())
		m.synced(time.Second, c.err)
		if n := testutil.ToFloat64(m.syncs.WithLabelValues(c.code)); n != 1 {
			t.Errorf("%v is counted %v times as %s", c.err, n, c.code)
		}
		if n := testutil.CollectAndCount(m.seconds); n != 1 {
			t.Errorf("%d durations", n)
		}
	}
	(*Metrics)(nil).synced(0, nil)
}

// TestPublish: a namespace gets its map, and that is counted before the map that takes its place after a deletion; it follows the authorities.
func TestPublish(t *testing.T) {
	t.Parallel()
	m, ca := NewMetrics(prometheus.NewRegistry()), controllertest.NewAuthorities("CA")
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env, ca, m), nil })
	controllertest.Create(c, object.Namespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	one := func(maps []*corev1.ConfigMap) bool { return len(maps) == 1 }
	controllertest.Await(c, object.ConfigMap, "the map", one)
	controllertest.Delete(c, object.ConfigMap, "a", mapName, metav1.DeleteOptions{})
	controllertest.Await(c, object.ConfigMap, "another map", one)
	if n := testutil.ToFloat64(m.syncs.WithLabelValues("200")); n < 1 {
		t.Errorf("%v looks are counted", n)
	}
	ca.Replace("new CA")
	controllertest.Await(c, object.ConfigMap, "the new authority", func(maps []*corev1.ConfigMap) bool { return len(maps) == 1 && maps[0].Data[mapKey] == "new CA" })
}
