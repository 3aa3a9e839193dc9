package csi

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	pending    = corev1.PersistentVolumeClaimNodeResizePending
	inProgress = corev1.PersistentVolumeClaimNodeResizeInProgress
	hopeless   = corev1.PersistentVolumeClaimNodeResizeInfeasible
)

// TestGrowth makes a file system larger when it is mounted, and while it is.
func TestGrowth(t *testing.T) {
	t.Parallel()
	w := setup(t, stageCap, expandCap)
	want := wanted()
	if _, err := w.Mount(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := w.Renew(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	w.must(t, "stage publish")
	want.PV.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("2Gi")
	if err := w.Renew(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	w.must(t, "expand")
	if w.expansion.GetCapacityRange().GetRequiredBytes() != 2<<30 || w.expansion.GetSecrets()["c"] != "3" || w.expansion.GetVolumePath() != w.paths.published(want).target || !slices.Equal(w.api.grown, []string{"c 2Gi"}) {
		t.Errorf("asked for %v, told %v", w.expansion, w.api.grown)
	}
	if want := []string{`c: MountVolume.NodeExpandVolume succeeded for volume "pv" n`}; !slices.Equal(w.told, want) {
		t.Errorf("told %q, want %q", w.told, want)
	}
}

// larger is a volume that its controller has made larger, and that is mounted.
func larger(t *testing.T, w *world, now corev1.ClaimResourceStatus) *Want {
	t.Helper()
	want := wanted()
	if _, err := w.Mount(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	w.must(t, "stage publish")
	want.PV.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("2Gi")
	want.Claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	says(want.Claim, now)
	return want
}

func says(claim *corev1.PersistentVolumeClaim, now corev1.ClaimResourceStatus) {
	claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: now}
}

func statusOf(claim *corev1.PersistentVolumeClaim) string {
	return fmt.Sprint(claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage], conditionsOf(claim), " ", claim.Status.Capacity.Storage())
}

func conditionsOf(claim *corev1.PersistentVolumeClaim) (all []string) {
	for _, c := range claim.Status.Conditions {
		all = append(all, fmt.Sprintf("%s: %s", c.Type, c.Message))
	}
	return all
}

// TestGrowthThatIsInfeasible is told of, does not keep pods from the volume, and is not tried again before the controller says so.
func TestGrowthThatIsInfeasible(t *testing.T) {
	t.Parallel()
	w := setup(t, stageCap, expandCap)
	want := larger(t, w, pending)
	w.refuse["expand"] = status.Error(codes.OutOfRange, "too large")
	if err := w.Renew(t.Context(), want); err == nil {
		t.Error("no error")
	}
	const refused = "NodeResizeError: failed to expand pvc with rpc error: code = OutOfRange desc = too large"
	if got := statusOf(want.Claim); got != "NodeResizeInfeasible["+refused+"] 1Gi" {
		t.Errorf("the claim says %s", got)
	}
	w.must(t, "expand")
	if err := w.Renew(t.Context(), want); err != nil {
		t.Error(err)
	}
	other := *want
	pod := want.Pod.DeepCopy()
	pod.UID = "another"
	other.Pod = pod
	if _, err := w.Mount(t.Context(), &other); err != nil {
		t.Error(err)
	}
	w.must(t, "publish")
	delete(w.refuse, "expand")
	says(want.Claim, pending) // the controller goes on with another size
	if err := w.Renew(t.Context(), want); err != nil {
		t.Error(err)
	}
	w.must(t, "expand")
	if got := statusOf(want.Claim); got != "[] 2Gi" {
		t.Errorf("the claim says %s", got)
	}
}

// TestGrowthOfWhatIsInUse waits, where a driver wants it, until the volume is staged anew.
func TestGrowthOfWhatIsInUse(t *testing.T) {
	t.Parallel()
	w := setup(t, stageCap, expandCap)
	want := larger(t, w, pending)
	w.refuse["expand"] = status.Error(codes.FailedPrecondition, "in use")
	for range 2 {
		if err := w.Renew(t.Context(), want); err != nil {
			t.Error(err)
		}
	}
	w.must(t, "expand")
	if got := statusOf(want.Claim); got != "NodeResizeInProgress[NodeResizeError: failed to expand pvc with rpc error: code = FailedPrecondition desc = in use] 1Gi" {
		t.Errorf("the claim says %s", got)
	}
	if err := w.Unmount(t.Context(), want.Pod.UID); err != nil {
		t.Fatal(err)
	}
	w.sweep(t.Context())
	w.must(t, "unpublish unstage")
	delete(w.refuse, "expand")
	if _, err := w.Mount(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	w.must(t, "stage publish expand")
	if got := statusOf(want.Claim); got != "[] 2Gi" {
		t.Errorf("the claim says %s", got)
	}
}

// grewElsewhere is a volume that another node has made larger while this one has it mounted.
func grewElsewhere(t *testing.T, w *world) *Want {
	t.Helper()
	want := larger(t, w, "")
	want.Claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	markGrown(want.Claim, resource.MustParse("2Gi"))
	return want
}

// TestGrowthOnEveryNode makes the file system larger on a node, too, that was not the first to do so, once, and leaves the claim's status alone.
func TestGrowthOnEveryNode(t *testing.T) {
	t.Parallel()
	w := setup(t, stageCap, expandCap)
	want := grewElsewhere(t, w)
	w.refuse["expand"] = status.Error(codes.Internal, "not now")
	if err := w.Renew(t.Context(), want); err == nil {
		t.Error("no error")
	}
	w.must(t, "expand")
	w.again() // what this node's volume has is known to the agent's next life
	delete(w.refuse, "expand")
	want.Claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimNodeResizeError, Message: "not now"}}
	for range 2 {
		if err := w.Renew(t.Context(), want); err != nil {
			t.Fatal(err)
		}
	}
	w.must(t, "expand")
	if w.expansion.GetCapacityRange().GetRequiredBytes() != 2<<30 || len(w.api.grown) > 0 {
		t.Errorf("asked for %v, told %v", w.expansion, w.api.grown)
	}
	if got := statusOf(want.Claim); got != "[] 2Gi" {
		t.Errorf("the claim says %s", got)
	}
	if want := []string{`c: MountVolume.NodeExpandVolume succeeded for volume "pv" n`}; !slices.Equal(w.told, want) {
		t.Errorf("told %q, want %q", w.told, want)
	}
}

// TestGrowthThatIsNoNodes: the driver is not asked where one node has the volume at a time, and where the claim says that no node has to do anything.
func TestGrowthThatIsNoNodes(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"one node at a time": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		},
		"said so": func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{"volume.kubernetes.io/node-expansion-not-required": "yes"}
		},
	} {
		w := setup(t, stageCap, expandCap)
		want := grewElsewhere(t, w)
		change(want.Claim)
		if err := w.Renew(t.Context(), want); err != nil {
			t.Error(name, err)
		}
		w.must(t, "")
	}
}

// TestGrowthElsewhereThatIsInfeasibleHere keeps no pod from the volume, and is not tried again.
func TestGrowthElsewhereThatIsInfeasibleHere(t *testing.T) {
	t.Parallel()
	w := setup(t, stageCap, expandCap)
	want := grewElsewhere(t, w)
	w.refuse["expand"] = status.Error(codes.OutOfRange, "too large")
	for range 2 {
		if err := w.Renew(t.Context(), want); err != nil {
			t.Error(err)
		}
	}
	w.must(t, "expand")
	if got := statusOf(want.Claim); got != "[NodeResizeError: failed to expand pvc with rpc error: code = OutOfRange desc = too large] 2Gi" {
		t.Errorf("the claim says %s", got)
	}
}

// TestGrowthBeforeANodeHasTheVolume is none of that node's.
func TestGrowthBeforeANodeHasTheVolume(t *testing.T) {
	t.Parallel()
	w := setup(t, stageCap, expandCap)
	want := wanted()
	want.PV.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("2Gi")
	markGrown(want.Claim, resource.MustParse("2Gi"))
	if _, err := w.Mount(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := w.Renew(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	w.must(t, "stage publish")
}

// TestWhoseTurnItIs leaves volumes alone whose controller is not done with them.
func TestWhoseTurnItIs(t *testing.T) {
	t.Parallel()
	for now, want := range map[corev1.ClaimResourceStatus]bool{
		"": true, pending: true, inProgress: true, hopeless: false,
		corev1.PersistentVolumeClaimControllerResizeInProgress: false, corev1.PersistentVolumeClaimControllerResizeInfeasible: false,
	} {
		claim := &corev1.PersistentVolumeClaim{}
		says(claim, now)
		if nodesTurn(claim) != want {
			t.Errorf("%q: %v", now, !want)
		}
	}
}

func TestMarkRefused(t *testing.T) {
	t.Parallel()
	before, now := metav1.Unix(100, 0), time.Unix(200, 0)
	failed := corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimNodeResizeError, Status: corev1.ConditionTrue, LastTransitionTime: before, Message: "m"}
	waits := corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue}
	internal, never := status.Error(codes.Internal, "no"), status.Error(codes.InvalidArgument, "no")
	for name, c := range map[string]struct {
		now        corev1.ClaimResourceStatus
		asked      string
		why        error
		conditions []corev1.PersistentVolumeClaimCondition
		then       corev1.ClaimResourceStatus
		since      int64
	}{
		"once":                                {inProgress, "2Gi", internal, nil, inProgress, 200},
		"beside what else there is":           {inProgress, "2Gi", internal, []corev1.PersistentVolumeClaimCondition{waits}, inProgress, 200},
		"again":                               {inProgress, "2Gi", internal, []corev1.PersistentVolumeClaimCondition{waits, failed}, inProgress, 100},
		"less is asked for, the first time":   {inProgress, "1Gi", internal, nil, inProgress, 200},
		"less is asked for after a failure":   {inProgress, "1Gi", internal, []corev1.PersistentVolumeClaimCondition{failed}, hopeless, 100},
		"never":                               {inProgress, "2Gi", never, nil, hopeless, 200},
		"never, of a controller of before it": {"", "2Gi", never, nil, "", 200},
	} {
		claim := &corev1.PersistentVolumeClaim{}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(c.asked)}
		claim.Status.Conditions = slices.Clone(c.conditions)
		if c.now != "" {
			says(claim, c.now)
		}
		markRefused(claim, resource.MustParse("2Gi"), c.why, now)
		i := slices.IndexFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool { return c.Type == failed.Type })
		if then := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; then != c.then || i < 0 || claim.Status.Conditions[i].LastTransitionTime.Unix() != c.since {
			t.Errorf("%s: %s, %+v", name, then, claim.Status.Conditions)
		}
		if len(c.conditions) > 0 && !slices.ContainsFunc(claim.Status.Conditions, func(x corev1.PersistentVolumeClaimCondition) bool { return x.Type == c.conditions[0].Type }) {
			t.Errorf("%s: a condition is lost", name)
		}
	}
}
