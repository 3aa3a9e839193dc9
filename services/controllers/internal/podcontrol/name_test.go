package podcontrol

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
)

// TestLongNames: a pod tells all of what its name was made of, and its name has at most 63 letters.
func TestLongNames(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	env := &controller.Env{Client: client, Informers: object.NewInformers(client), Clock: clock.RealClock{}}
	c := New(env, kind, record.NewFakeRecorder(10))
	for _, tt := range []struct {
		owner, generateName string
		kept                int // letters of it in a name
	}{
		{"web", "web-", 4},
		{strings.Repeat("n", 57), strings.Repeat("n", 57) + "-", 58},
		{strings.Repeat("n", 70), strings.Repeat("n", 70) + "-", 58},
		{strings.Repeat("n", 253), strings.Repeat("n", 253), 58},
	} {
		if got := GenerateName(tt.owner); got != tt.generateName {
			t.Errorf("pods of %s are made of %s", tt.owner, got)
		}
		owner := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: tt.owner, UID: "set"}}
		first := c.Names(owner, tt.generateName, 1)[0]
		if first[:len(first)-5] != tt.generateName[:tt.kept] {
			t.Errorf("%s has a pod %s", tt.owner, first)
		}
		c.expect.notCreated(owner.UID, []string{first}, true)
		if again := c.Names(owner, tt.generateName, 1)[0]; again != first {
			t.Errorf("the pod that may be there is %s, and is tried again as %s", first, again)
		}
	}
}
