package volumerecycler

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// released is a volume whose claim is gone, and which is to be wiped.
func released(changes ...func(v *corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "uid-v"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv/v"}},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRecycle,
			ClaimRef:                      &corev1.ObjectReference{Namespace: "n", Name: "c", UID: "uid-c"},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased},
	}
	for _, change := range changes {
		change(v)
	}
	return v
}

func wiper(phase corev1.PodPhase, of types.UID) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "recycler-for-v", Annotations: map[string]string{volumeAnnotation: string(of)}},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	type change = func(v *corev1.PersistentVolume)
	with := func(c change) *corev1.PersistentVolume { return released(c) }
	ending := wiper(corev1.PodRunning, "uid-v")
	ending.DeletionTimestamp = &metav1.Time{}
	late := wiper(corev1.PodFailed, "uid-v")
	late.Status.Message = "Pod was active on the node longer than the specified deadline"
	for name, test := range map[string]struct {
		volume *corev1.PersistentVolume
		pod    *corev1.Pod
		users  []string
		want   string
	}{
		"released":           {released(), nil, nil, "create"},
		"of a share":         {with(func(v *corev1.PersistentVolume) { v.Spec.HostPath, v.Spec.NFS = nil, &corev1.NFSVolumeSource{} }), nil, nil, "create"},
		"still in use":       {released(), nil, []string{"n/p", "n/q"}, "busy n/p,n/q"},
		"being wiped":        {released(), wiper(corev1.PodRunning, "uid-v"), nil, ""},
		"wiped":              {released(), wiper(corev1.PodSucceeded, "uid-v"), nil, "free"},
		"not wiped":          {released(), wiper(corev1.PodFailed, "uid-v"), nil, "Recycle failed: pod failed, pod.Status.Message unknown."},
		"not wiped in time":  {released(), late, nil, "Recycle failed: Pod was active on the node longer than the specified deadline"},
		"another's pod":      {released(), wiper(corev1.PodSucceeded, "uid-older"), nil, "delete"},
		"its pod ends":       {released(), ending, nil, ""},
		"free, with its pod": {with(func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }), wiper(corev1.PodSucceeded, "uid-v"), nil, "delete"},
		"failed, with a pod": {with(func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeFailed }), wiper(corev1.PodFailed, "uid-v"), nil, "delete"},
		"gone, with its pod": {nil, wiper(corev1.PodRunning, "uid-v"), nil, "delete"},
		"gone":               {nil, nil, nil, ""},
		"bound":              {with(func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }), nil, nil, ""},
		"retained": {with(func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}), nil, nil, ""},
		"of a driver":         {with(func(v *corev1.PersistentVolume) { v.Spec.HostPath = nil }), nil, nil, ""},
		"deleted":             {with(func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{} }), nil, nil, ""},
		"reserved for a name": {with(func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "" }), nil, nil, ""},
	} {
		plan, got := Decide(test.volume, test.pod, test.users, "busybox"), ""
		switch {
		case plan.Create != nil:
			got = "create"
		case plan.Delete:
			got = "delete"
		case plan.Free:
			got = "free"
		case len(plan.Busy) > 0:
			got = "busy " + strings.Join(plan.Busy, ",")
		default:
			got = plan.Failed
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestRecycler(t *testing.T) {
	t.Parallel()
	here := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"here"}}}}}}
	for name, test := range map[string]struct {
		change  func(v *corev1.PersistentVolume)
		seconds int64
	}{
		"small": {func(*corev1.PersistentVolume) {}, 60},
		"large": {func(v *corev1.PersistentVolume) {
			v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("100Gi")
		}, 3000},
		"a share": {func(v *corev1.PersistentVolume) {
			v.Spec.HostPath, v.Spec.NFS = nil, &corev1.NFSVolumeSource{Server: "s", Path: "/p"}
		}, 300},
		"of a node": {func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: here} }, 60},
	} {
		v := released(test.change)
		pod := recycler(v, "busybox")
		if got := *pod.Spec.ActiveDeadlineSeconds; got != test.seconds {
			t.Errorf("%s: it may take %d s, want %d", name, got, test.seconds)
		}
		if s := pod.Spec.Volumes[0].VolumeSource; s.HostPath != v.Spec.HostPath || s.NFS != v.Spec.NFS || pod.Spec.Containers[0].VolumeMounts[0].MountPath != "/scrub" {
			t.Errorf("%s: it wipes %s", name, s.String())
		}
		if bound := pod.Spec.Affinity != nil && pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == here; bound != (v.Spec.NodeAffinity != nil) {
			t.Errorf("%s: its affinity is %v", name, pod.Spec.Affinity)
		}
		if volumeUID(pod) != v.UID {
			t.Errorf("%s: it is of %q", name, volumeUID(pod))
		}
	}
	if got := podName(strings.Repeat("x", 253)); len(got) != longestPod || got == podName(strings.Repeat("x", 252)+"y") {
		t.Errorf("a long volume's pod is %q", got)
	}
}
