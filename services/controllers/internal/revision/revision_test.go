package revision

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"
)

var app = map[string]string{"app": "web"}

func template(image string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: app},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "c", Image: image, Env: []corev1.EnvVar{{Name: "A", Value: "<b>"}}}},
			TerminationGracePeriodSeconds: ptr.To[int64](1<<60 + 1),
		},
	}
}

func data(t *testing.T, of *corev1.PodTemplateSpec) []byte {
	t.Helper()
	d, err := Data(of)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func newOwner(t *corev1.PodTemplateSpec) Owner {
	return Owner{
		Object:   &metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "set", Annotations: map[string]string{"kubernetes.io/change-cause": "test"}},
		Kind:     appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		Template: t, HashLabel: HashLabel,
	}
}

func revisionOf(t *testing.T, image string, number int64) *appsv1.ControllerRevision {
	o := newOwner(template(image))
	return New(o, data(t, o.Template), number)
}

// TestDataIsKubernetes: the patch is what Kubernetes 1.36 records, byte by byte.
func TestDataIsKubernetes(t *testing.T) {
	t.Parallel()
	const want = `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"env":[{"name":"A","value":"\u003cb\u003e"}],` +
		`"image":"one","name":"c","resources":{}}],"terminationGracePeriodSeconds":1152921504606846977}}}}`
	if got := string(data(t, template("one"))); got != want {
		t.Errorf("data\n%s\nwant\n%s", got, want)
	}
}

// TestDataRollsBack: kubectl rollout undo applies the data as a strategic merge patch.
func TestDataRollsBack(t *testing.T) {
	t.Parallel()
	now := template("two")
	now.Spec.Containers = append(now.Spec.Containers, corev1.Container{Name: "other", Image: "x"})
	set := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3), Template: *now}}
	original, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := strategicpatch.StrategicMergePatch(original, data(t, template("one")), set)
	if err != nil {
		t.Fatal(err)
	}
	var got appsv1.StatefulSet
	if err := json.Unmarshal(patched, &got); err != nil {
		t.Fatal(err)
	}
	if !apiequality.Semantic.DeepEqual(&got.Spec.Template, template("one")) || *got.Spec.Replicas != 3 {
		t.Errorf("rolled back to %+v", got.Spec)
	}
}

func TestTemplateReadsData(t *testing.T) {
	t.Parallel()
	r := revisionOf(t, "one", 1)
	got, err := Template(r)
	if err != nil || !apiequality.Semantic.DeepEqual(got, template("one")) {
		t.Errorf("template %+v, %v", got, err)
	}
	r.Data.Raw = []byte("{")
	if _, err := Template(r); err == nil {
		t.Error("broken data were read")
	}
}

// TestFindOtherSpelling: what an older release wrote is the template's as long as nothing fits better.
func TestFindOtherSpelling(t *testing.T) {
	t.Parallel()
	older, exact, broken := revisionOf(t, "one", 3), revisionOf(t, "one", 1), revisionOf(t, "one", 2)
	older.Data.Raw = []byte(strings.Replace(string(older.Data.Raw), `"metadata":{`, `"metadata":{"creationTimestamp":null,`, 1))
	broken.Data.Raw = []byte("{")
	wanted := template("one")
	if f := Find([]*appsv1.ControllerRevision{older, broken}, wanted, data(t, wanted)); f.Current != older || f.Number != 3 {
		t.Errorf("found %+v, want the older spelling", f)
	}
	if f := Find([]*appsv1.ControllerRevision{older, broken, exact}, wanted, data(t, wanted)); f.Current != exact || f.Number != 4 {
		t.Errorf("found %+v, want the exact one", f)
	}
	if f := Find([]*appsv1.ControllerRevision{older}, template("two"), data(t, template("two"))); f.Current != nil {
		t.Errorf("found %+v for another template", f)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	o := newOwner(template("one"))
	r := revisionOf(t, "one", 7)
	if hash := r.Labels[HashLabel]; hash == "" || r.Name != "web-"+hash || r.Labels["app"] != "web" {
		t.Errorf("revision %s with labels %v", r.Name, r.Labels)
	}
	if !metav1.IsControlledBy(r, o) || r.Revision != 7 || r.Annotations["kubernetes.io/change-cause"] != "test" {
		t.Errorf("revision %+v", r)
	}
	if len(app) != 1 {
		t.Error("the template's labels were written to")
	}
	o.Collisions = 1
	if New(o, r.Data.Raw, 7).Name == r.Name {
		t.Error("a collision gives the same name")
	}
	o.Object.(*metav1.ObjectMeta).Name = strings.Repeat("x", 253)
	if n := len(New(o, r.Data.Raw, 7).Name); n > 253 {
		t.Errorf("a name of %d characters", n)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		history []string // IMAGE:NUMBER
		want    string
		number  int64
		others  int
		twins   int
	}{
		{"no history", nil, "", 1, 0, 0},
		{"another template", []string{"two:4"}, "", 5, 1, 0},
		{"the newest", []string{"two:1", "one:2"}, "one:2", 2, 1, 0},
		{"a roll-back", []string{"three:3", "one:1", "two:2"}, "one:1", 4, 2, 0},
		{"duplicates", []string{"one:3", "two:2", "one:1"}, "one:3", 3, 1, 1},
		{"a tie", []string{"one:2", "two:2"}, "one:2", 3, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var history []*appsv1.ControllerRevision
			var want *appsv1.ControllerRevision
			for _, h := range tt.history {
				image, number, _ := strings.Cut(h, ":")
				r := revisionOf(t, image, int64(number[0]-'0'))
				history = append(history, r)
				if h == tt.want {
					want = r
				}
			}
			f := Find(history, template("one"), data(t, template("one")))
			if f.Current != want || f.Number != tt.number || len(f.Others) != tt.others || len(f.Duplicates) != tt.twins {
				t.Errorf("found %+v", f)
			}
		})
	}
}

func TestSortBreaksTiesByAge(t *testing.T) {
	t.Parallel()
	at := func(s int64) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: fmt.Sprint(s), CreationTimestamp: metav1.NewTime(time.Unix(s, 0))}
	}
	revisions := []*appsv1.ControllerRevision{{ObjectMeta: at(3), Revision: 2}, {ObjectMeta: at(2), Revision: 2}, {ObjectMeta: at(9), Revision: 1}}
	Sort(revisions)
	if got := names(revisions); !slices.Equal(got, []string{"9", "2", "3"}) {
		t.Errorf("order %v", got)
	}
}

func TestExpired(t *testing.T) {
	t.Parallel()
	var history []*appsv1.ControllerRevision
	for _, n := range []int64{4, 2, 1, 3} {
		history = append(history, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(n)}, Revision: n})
	}
	live := func(r *appsv1.ControllerRevision) bool { return r.Name == "1" || r.Name == "4" }
	for limit, want := range map[int32][]string{-1: nil, 0: {"2", "3"}, 1: {"2"}, 2: nil, 10: nil} {
		if got := names(Expired(history, limit, live)); !slices.Equal(got, want) {
			t.Errorf("limit %d: %v expired, want %v", limit, got, want)
		}
	}
}

func names(revisions []*appsv1.ControllerRevision) []string {
	var names []string
	for _, r := range revisions {
		names = append(names, r.Name)
	}
	return names
}
