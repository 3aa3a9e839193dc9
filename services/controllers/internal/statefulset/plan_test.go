package statefulset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

var (
	now = time.Unix(1_700_000_000, 0)
	app = map[string]string{"app": "web"}
)

// newSet is a set with changes.
func newSet(replicas int32, changes ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "set", Generation: 1},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "nginx", Selector: &metav1.LabelSelector{MatchLabels: app},
			Template:             *template("new"),
			PodManagementPolicy:  appsv1.OrderedReadyPodManagement,
			RevisionHistoryLimit: ptr.To[int32](10),
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](0)},
			},
		},
	}
	for _, change := range changes {
		change(set)
	}
	return set
}

func template(image string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: app},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}},
	}
}

func parallel(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }

func onDelete(s *appsv1.StatefulSet) {
	s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
}

func noPartition(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.RollingUpdate = nil }

func partition(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.RollingUpdate.Partition = &n }
}

func atMost(n intstr.IntOrString) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = &n }
}

func from(n int32) func(*appsv1.StatefulSet) {
	return func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: n} }
}

func rested(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 10 }

func leaving(s *appsv1.StatefulSet) { s.DeletionTimestamp = &metav1.Time{Time: now} }

func withClaims(s *appsv1.StatefulSet) {
	s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
}

func retain(deleted, scaled bool) func(*appsv1.StatefulSet) {
	policy := func(is bool) appsv1.PersistentVolumeClaimRetentionPolicyType {
		if is {
			return appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		}
		return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	return func(s *appsv1.StatefulSet) {
		s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: policy(deleted), WhenScaled: policy(scaled),
		}
	}
}

// revisions as the tests have them: pods are old or new.
var (
	oldRevision = Revision{"old", template("old")}
	newRevision = Revision{"new", template("new")}
)

// podOf is a pod that has been as it is for a minute. States are ready, fresh (ready since now), running, pending, failed, succeeded and
// ending.
func podOf(set *appsv1.StatefulSet, ordinal int, state, revision string) *corev1.Pod {
	r := newRevision
	if revision == "old" {
		r = oldRevision
	}
	p := newPod(set, r, ordinal)
	p.UID = types.UID(fmt.Sprintf("%s-uid", p.Name))
	since := now.Add(-time.Minute)
	ready := corev1.ConditionFalse
	switch state {
	case "fresh":
		p.Status.Phase, ready, since = corev1.PodRunning, corev1.ConditionTrue, now.Add(-time.Second)
	case "ready":
		p.Status.Phase, ready = corev1.PodRunning, corev1.ConditionTrue
	case "ending":
		p.Status.Phase, ready, p.DeletionTimestamp = corev1.PodRunning, corev1.ConditionTrue, &metav1.Time{Time: now}
	default:
		p.Status.Phase = corev1.PodPhase(strings.ToUpper(state[:1]) + state[1:])
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(since)}}
	return p
}

// podsOf reads "0:ready:new 1:pending:old".
func podsOf(set *appsv1.StatefulSet, text string) (pods []*corev1.Pod) {
	for _, word := range strings.Fields(text) {
		parts := strings.Split(word, ":")
		var ordinal int
		if _, err := fmt.Sscan(parts[0], &ordinal); err != nil {
			panic(err)
		}
		pods = append(pods, podOf(set, ordinal, parts[1], parts[2]))
	}
	return pods
}

func noClaims(string) *corev1.PersistentVolumeClaim { return nil }

func seeing(pods []*corev1.Pod) Observed {
	return Observed{Pods: pods, Claim: noClaims, Current: oldRevision, Update: newRevision, Settled: true}
}

// told is a plan in words.
func told(p Plan) string {
	var words []string
	for _, o := range p.End {
		words = append(words, "end "+o.Name)
	}
	for _, o := range p.Claims {
		words = append(words, "claim "+o.Name)
	}
	for _, o := range p.Blocked {
		words = append(words, "blocked "+o.Pod+" by "+o.Name)
	}
	for _, o := range p.Create {
		words = append(words, "create "+o.Name+" "+revisionOf(o))
	}
	for _, o := range p.Own {
		words = append(words, "own "+o.Claim.Name)
	}
	for _, o := range p.Repair {
		words = append(words, "repair "+o.Name)
	}
	for _, o := range p.Delete {
		words = append(words, "delete "+o.Name)
	}
	return strings.Join(words, ", ")
}

func TestDecide(t *testing.T) {
	t.Parallel()
	type changes = []func(*appsv1.StatefulSet)
	for _, tt := range []struct {
		name     string
		replicas int32
		changes  changes
		pods     string
		want     string
	}{
		{"the first pod", 3, nil, "", "create web-0 new"},
		{"the second after the first is ready", 3, nil, "0:ready:new", "create web-1 new"},
		{"not before", 3, nil, "0:running:new", ""},
		{"not while it ends", 3, nil, "0:ending:new", ""},
		{"not before it is available", 3, changes{rested}, "0:fresh:new", ""},
		{"when it is available", 3, changes{rested}, "0:ready:new", "create web-1 new"},
		{"a gap is filled first", 3, nil, "0:ready:new 2:ready:new", "create web-1 new"},
		{"a gap waits for those below", 3, nil, "0:pending:new 2:ready:new", ""},
		{"all there", 2, nil, "0:ready:new 1:ready:new", ""},
		{"from an ordinal on", 2, changes{from(5)}, "5:ready:new", "create web-6 new"},
		{"a start that has moved up", 2, changes{from(1)}, "0:ready:new 1:ready:new 2:ready:new", "delete web-0"},
		{"a start that has moved down", 2, nil, "1:ready:new 2:ready:new", "create web-0 new"},
		{"all at once", 3, changes{parallel}, "1:running:new", "create web-0 new, create web-2 new"},

		{"a pod that failed", 2, nil, "0:failed:new 1:ready:new", "end web-0"},
		{"a pod that succeeded", 2, nil, "0:ready:new 1:succeeded:new", "end web-1"},
		{"failed pods at once", 3, changes{parallel}, "0:failed:new 1:failed:new", "end web-0, end web-1, create web-2 new"},

		{"too many, one at a time", 1, nil, "0:ready:new 1:ready:new 2:ready:new", "delete web-2"},
		{"too many, one is still ending", 1, nil, "0:ready:new 1:ready:new 2:ending:new", ""},
		{"too many, but one that stays is ill", 1, nil, "0:running:new 1:ready:new 2:ready:new", ""},
		{"too many, but a lower one is ill", 0, nil, "0:running:new 1:ready:new 2:running:new", ""},
		{"too many, a lower one is ill and the highest is not", 0, nil, "0:running:new 1:ready:new 2:ready:new", "delete web-2"},
		{"too many, only the highest is ill", 1, nil, "0:ready:new 1:ready:new 2:running:new", "delete web-2"},
		{"too many, the highest has failed", 0, nil, "0:failed:new 1:ready:new 2:failed:new", "delete web-2"},
		{"too many, not yet available", 1, changes{rested}, "0:ready:new 1:fresh:new 2:fresh:new", ""},
		{"too many, at once", 1, changes{parallel}, "0:running:new 1:running:new 2:ending:new 3:ready:new", "delete web-3, delete web-1"},
		{"nothing wanted", 0, nil, "0:ready:new", "delete web-0"},

		{"roll out from the top", 3, nil, "0:ready:old 1:ready:old 2:ready:old", "delete web-2"},
		{"roll out one at a time", 3, nil, "0:ready:old 1:ready:old 2:running:new", ""},
		{"roll out further", 3, nil, "0:ready:old 1:ready:old 2:ready:new", "delete web-1"},
		{"roll out when available", 3, changes{rested}, "0:ready:old 1:ready:old 2:fresh:new", ""},
		{"roll out the missing", 3, nil, "0:ready:old 1:ready:old", "create web-2 new"},
		{"roll out the missing, no partition", 3, changes{noPartition}, "0:ready:old 1:ready:old", "create web-2 new"},
		{"restore one below the roll-out, no partition", 3, changes{noPartition}, "1:ready:old 2:ready:new", "create web-0 old"},
		{"roll out to the partition", 3, changes{partition(2)}, "0:ready:old 1:ready:old 2:ready:new", ""},
		{"restore one below the partition", 3, changes{partition(2)}, "1:ready:old 2:ready:new", "create web-0 old"},
		{"restore one above the partition", 3, changes{partition(1)}, "0:ready:old 2:ready:new", "create web-1 new"},
		{"the partition counts from the start", 2, changes{from(5), partition(1)}, "5:ready:old 6:ready:old", "delete web-6"},
		{"the partition is beyond the end", 2, changes{partition(9)}, "0:ready:old 1:ready:old", ""},
		{"scale before rolling out", 2, nil, "0:ready:old 1:ready:old 2:ready:old", "delete web-2"},
		{"an ill old pod is replaced", 2, changes{parallel}, "0:running:old 1:ready:new", "delete web-0"},
		{"an ill new pod is waited for", 2, changes{parallel}, "0:ready:old 1:running:new", ""},
		{"a failed old pod is deleted once", 2, changes{parallel}, "0:ready:old 1:failed:old", "end web-1"},
		{"a missing pod is waited for", 2, changes{parallel}, "0:ready:old", "create web-1 new"},
		{"on delete nothing is replaced", 2, changes{onDelete}, "0:ready:old 1:ready:old", ""},
		{"on delete what is gone comes back new", 2, changes{onDelete}, "0:ready:old", "create web-1 new"},

		{"some at a time", 4, changes{atMost(intstr.FromInt32(2))}, "0:ready:old 1:ready:old 2:ready:old 3:ready:old", "delete web-3, delete web-2"},
		{"some at a time beside an ill one", 4, changes{parallel, atMost(intstr.FromInt32(2))}, "0:running:old 1:ready:old 2:ready:old 3:ready:old", "delete web-3"},
		{"some at a time, none left", 4, changes{parallel, atMost(intstr.FromInt32(2))}, "0:ready:old 1:ready:old 2:pending:new 3:running:new", ""},
		{"some at a time to the partition", 4, changes{partition(3), atMost(intstr.FromInt32(2))}, "0:ready:old 1:ready:old 2:ready:old 3:ready:old", "delete web-3"},
		{"a share of all, rounded down", 4, changes{atMost(intstr.FromString("70%"))}, "0:ready:old 1:ready:old 2:ready:old 3:ready:old", "delete web-3, delete web-2"},
		{"a share of nothing is one", 4, changes{atMost(intstr.FromString("1%"))}, "0:ready:old 1:ready:old 2:ready:old 3:ready:old", "delete web-3"},

		{"a set that leaves", 3, changes{leaving}, "0:failed:new", ""},

		{"claims first", 1, changes{withClaims}, "", "claim data-web-0, create web-0 new"},
		{"the missing claim of a pending pod", 2, changes{withClaims}, "0:pending:new", "claim data-web-0"},
		{"not that of one that ends", 2, changes{withClaims, parallel}, "0:ending:new 1:ready:new", ""},
		{"nor of one that runs", 1, changes{withClaims}, "0:ready:new", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			set := newSet(tt.replicas, tt.changes...)
			if got := told(Decide(set, seeing(podsOf(set, tt.pods)), now)); got != tt.want {
				t.Errorf("planned %q, want %q", got, tt.want)
			}
		})
	}
}

func TestUnsettledDoesNothing(t *testing.T) {
	t.Parallel()
	seen := seeing(nil)
	seen.Settled = false
	if got := told(Decide(newSet(3), seen, now)); got != "" {
		t.Errorf("planned %q", got)
	}
}

func TestNewPod(t *testing.T) {
	t.Parallel()
	set := newSet(1, withClaims)
	r := Revision{"web-abc", template("x")}
	r.Template.Annotations = map[string]string{"a": "b"}
	r.Template.Spec.Volumes = []corev1.Volume{{Name: "tmp"}, {Name: "data"}}
	p := newPod(set, r, 7)
	want := map[string]string{
		"app": "web", "statefulset.kubernetes.io/pod-name": "web-7", "apps.kubernetes.io/pod-index": "7", "controller-revision-hash": "web-abc",
	}
	if fmt.Sprint(p.Labels) != fmt.Sprint(want) || p.Annotations["a"] != "b" {
		t.Errorf("labels %v, annotations %v", p.Labels, p.Annotations)
	}
	if p.Name != "web-7" || p.GenerateName != "web-" || p.Spec.Hostname != "web-7" || p.Spec.Subdomain != "nginx" || !metav1.IsControlledBy(p, set) {
		t.Errorf("pod %+v", p)
	}
	if v := p.Spec.Volumes; len(v) != 2 || v[0].Name != "data" || v[0].PersistentVolumeClaim.ClaimName != "data-web-7" || v[1].Name != "tmp" {
		t.Errorf("volumes %+v", v)
	}
	if len(r.Template.Labels) != 1 || len(r.Template.Spec.Volumes) != 2 {
		t.Error("the template was written to")
	}
}

func TestOrdinalOf(t *testing.T) {
	t.Parallel()
	set := newSet(1)
	for name, want := range map[string]int{"web-0": 0, "web-10": 10, "web-01": -1, "web-": -1, "web--1": -1, "web-+1": -1, "webs-1": -1, "web-1-2": -1, "web-99999999999": -1} {
		n, ok := ordinalOf(set, name)
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%s: ordinal %d, want %d", name, n, want)
		}
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	set := newSet(2)
	own, orphan := podOf(set, 0, "ready", "new"), podOf(set, 1, "ready", "new")
	orphan.OwnerReferences = nil
	misnamed, stranger := podOf(set, 2, "ready", "new"), podOf(set, 3, "ready", "new")
	misnamed.Name = "other-2"
	stranger.Name, stranger.OwnerReferences = "stranger", nil
	unselected := podOf(set, 4, "ready", "new")
	unselected.Labels = map[string]string{"app": "debug"}
	pods := []*corev1.Pod{own, orphan, misnamed, stranger, unselected}

	claims := Members(set, labels.SelectorFromSet(app), pods)
	if names(claims.Own) != "web-0" || names(claims.Adopt) != "web-1" || names(claims.Release) != "web-4 other-2" {
		t.Errorf("own %s, adopt %s, release %s", names(claims.Own), names(claims.Adopt), names(claims.Release))
	}
	leaving(set)
	if claims := Members(set, labels.SelectorFromSet(app), pods); len(claims.Adopt)+len(claims.Release) > 0 {
		t.Errorf("a set that leaves adopts %s and releases %s", names(claims.Adopt), names(claims.Release))
	}
}

func names(pods []*corev1.Pod) string {
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

func TestRepair(t *testing.T) {
	t.Parallel()
	set := newSet(2, withClaims)
	nameless, volumeless := podOf(set, 0, "ready", "new"), podOf(set, 1, "ready", "new")
	nameless.Labels = map[string]string{"app": "web", appsv1.StatefulSetRevisionLabel: "new"}
	volumeless.Spec.Volumes = []corev1.Volume{{Name: "tmp"}}
	if got := told(Decide(set, seeing([]*corev1.Pod{nameless, volumeless}), now)); got != "claim data-web-1, repair web-0, repair web-1" {
		t.Errorf("planned %q", got)
	}
	for p, want := range map[*corev1.Pod]string{
		nameless: `{"metadata":{"labels":{"apps.kubernetes.io/pod-index":"0","statefulset.kubernetes.io/pod-name":"web-0"},"resourceVersion":"","uid":"web-0-uid"}}`,
		volumeless: `{"metadata":{"labels":{"apps.kubernetes.io/pod-index":"1","statefulset.kubernetes.io/pod-name":"web-1"},"resourceVersion":"","uid":"web-1-uid"},` +
			`"spec":{"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data-web-1"}},{"name":"tmp"}]}}`,
	} {
		ordinal, _ := ordinalOf(set, p.Name)
		if got, err := repairPatch(set, p, ordinal); err != nil || string(got) != want {
			t.Errorf("patch %s, %v, want %s", got, err, want)
		}
	}
	// An ordered set leaves the next pod alone while this one is ill.
	nameless.Status.Phase = corev1.PodUnknown
	if got := told(Decide(set, seeing([]*corev1.Pod{nameless, volumeless}), now)); got != "" {
		t.Errorf("planned %q", got)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	set := newSet(4, rested)
	set.Generation = 7
	set.Status.Conditions = []appsv1.StatefulSetCondition{{Type: "Theirs"}}
	pods := podsOf(set, "0:ready:old 1:ending:old 2:fresh:new 3:pending:new")
	s, after := Status(set, seeing(pods), 2, now)
	if s.Replicas != 4 || s.ReadyReplicas != 3 || s.AvailableReplicas != 2 || s.CurrentReplicas != 1 || s.UpdatedReplicas != 2 {
		t.Errorf("status %+v", s)
	}
	if s.CurrentRevision != "old" || s.UpdateRevision != "new" || s.ObservedGeneration != 7 || *s.CollisionCount != 2 || len(s.Conditions) != 1 {
		t.Errorf("status %+v", s)
	}
	if after != 9*time.Second {
		t.Errorf("looks again after %v, want 9 s", after)
	}
}

func TestStatusOfARollOut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		change  func(*appsv1.StatefulSet)
		pods    string
		current string
	}{
		{"complete", func(*appsv1.StatefulSet) {}, "0:ready:new 1:ready:new", "new"},
		{"one is not ready", func(*appsv1.StatefulSet) {}, "0:running:new 1:ready:new", "old"},
		{"one is old", func(*appsv1.StatefulSet) {}, "0:ready:old 1:ready:new", "old"},
		{"one too many", func(*appsv1.StatefulSet) {}, "0:ready:new 1:ready:new 2:ready:new", "old"},
		{"on delete", onDelete, "0:ready:new 1:ready:new", "old"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			set := newSet(2, tt.change)
			s, _ := Status(set, seeing(podsOf(set, tt.pods)), 0, now)
			if s.CurrentRevision != tt.current {
				t.Errorf("current revision %q, want %q", s.CurrentRevision, tt.current)
			}
		})
	}
}
