package attachdetach

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// key is the attachment of the volume that the tests are about to the node n.
var key = object.AttachmentName("h", "d", "n")

const unique = corev1.UniqueVolumeName("kubernetes.io/csi/d^h")

func node(inUse, attached, isReady bool, taints ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{managed: "true"}}}
	if inUse {
		n.Status.VolumesInUse = []corev1.UniqueVolumeName{unique}
	}
	n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "kubernetes.io/other/x"}}
	if attached {
		n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: unique})
	}
	if isReady {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	for _, t := range taints {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: t})
	}
	return n
}

func attachment(change ...func(*storagev1.VolumeAttachment)) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: key}, Spec: storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: "n"}}
	for _, f := range change {
		f(a)
	}
	return a
}

func isAttached(a *storagev1.VolumeAttachment) { a.Status.Attached = true }
func isGoing(a *storagev1.VolumeAttachment)    { a.DeletionTimestamp = &metav1.Time{Time: now} }
func hasFailed(a *storagev1.VolumeAttachment) {
	a.Status.AttachError = &storagev1.VolumeError{Message: "full"}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	type attachments = []*storagev1.VolumeAttachment
	for name, c := range map[string]struct {
		node      *corev1.Node
		wanted    bool
		shared    bool
		there     *storagev1.VolumeAttachment
		elsewhere attachments
		since     time.Duration // for how long nobody has wanted it
		// The plan: attach, detach, force; the node is told that it is attached, or that it is not; the reason of an event; after a while again.
		want string
	}{
		"new":                                  {node: node(true, false, true), wanted: true, want: "attach"},
		"on a node that nobody looks after":    {node: &corev1.Node{}, wanted: true, want: ""},
		"on a node that is gone":               {wanted: true, want: ""},
		"another node has it":                  {node: node(true, false, true), wanted: true, elsewhere: attachments{attachment(isAttached)}, want: "FailedAttachVolume"},
		"another node is losing it":            {node: node(true, false, true), wanted: true, elsewhere: attachments{attachment(isGoing)}, want: ""},
		"another node shares it":               {node: node(true, false, true), wanted: true, shared: true, elsewhere: attachments{attachment(isAttached)}, want: "attach"},
		"is being attached":                    {node: node(true, false, true), wanted: true, there: attachment(), want: ""},
		"is attached":                          {node: node(true, false, true), wanted: true, there: attachment(isAttached), want: "told SuccessfulAttachVolume"},
		"is attached, and told":                {node: node(true, true, true), wanted: true, there: attachment(isAttached), want: ""},
		"cannot be attached":                   {node: node(true, false, true), wanted: true, there: attachment(hasFailed), want: "FailedAttachVolume"},
		"wanted while it goes":                 {node: node(true, true, true), wanted: true, there: attachment(isAttached, isGoing), want: "untold"},
		"unwanted, in use":                     {node: node(true, true, true), there: attachment(isAttached), want: ""},
		"unwanted, in use for long":            {node: node(true, true, true), there: attachment(isAttached), since: time.Hour, want: ""},
		"unwanted, not in use":                 {node: node(false, true, true), there: attachment(isAttached), want: "detach untold"},
		"unwanted, not in use, untold":         {node: node(false, false, true), there: attachment(isAttached), want: "detach"},
		"unwanted, goes already":               {node: node(false, false, true), there: attachment(isAttached, isGoing), want: ""},
		"in use on a node that is not ready":   {node: node(true, true, false), there: attachment(isAttached), since: time.Minute, want: "after 5m0s"},
		"in use on a node that was lost":       {node: node(true, true, false), there: attachment(isAttached), since: 6 * time.Minute, want: "force untold"},
		"in use on a node out of service":      {node: node(true, true, false, corev1.TaintNodeOutOfService), there: attachment(isAttached), want: "force untold"},
		"on a node that is gone since a while": {there: attachment(isAttached), since: 2 * time.Minute, want: "after 4m0s"},
		"on a node that is gone for long":      {there: attachment(isAttached), since: 7 * time.Minute, want: "force"},
		"told though it is not":                {node: node(false, true, true), want: "untold"},
	} {
		s := Situation{Node: c.node, Wanted: map[string]Volume{}, There: map[string]*storagev1.VolumeAttachment{}, Elsewhere: map[string][]*storagev1.VolumeAttachment{key: c.elsewhere}}
		if c.wanted {
			s.Wanted[key] = Volume{PV: "pv", Driver: "d", Handle: "h", Shared: c.shared, Pods: []*corev1.Pod{{}}}
		}
		if c.there != nil {
			s.There[key], s.Since = c.there, map[string]time.Time{key: now.Add(-c.since)}
		}
		if got := describe(Decide(s, now)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// describe is a plan in few words.
func describe(p Plan) string {
	var said []string
	add := func(is bool, what string) {
		if is {
			said = append(said, what)
		}
	}
	add(len(p.Attach) == 1, "attach")
	add(slices.Equal(p.Detach, []string{key}), "detach")
	add(slices.Equal(p.Forced, []string{key}), "force")
	told := slices.ContainsFunc(p.Attached, func(a corev1.AttachedVolume) bool { return a.Name == unique })
	add(told, "told")
	add(p.Attached != nil && !told, "untold")
	add(p.Attached != nil && !slices.ContainsFunc(p.Attached, func(a corev1.AttachedVolume) bool { return a.Name == "kubernetes.io/other/x" }), "others forgotten")
	for _, e := range p.Events {
		said = append(said, e.Reason)
	}
	add(p.After > 0, "after "+p.After.String())
	return strings.Join(said, " ")
}

func TestWants(t *testing.T) {
	t.Parallel()
	pod := func(change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
		for _, f := range change {
			f(p)
		}
		return p
	}
	going := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	state := func(s corev1.ContainerState) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: s}} }
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"without a node":    {&corev1.Pod{}, false},
		"new":               {pod(), true},
		"done":              {pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), false},
		"going, still runs": {pod(going, state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})), true},
		"going, has ended":  {pod(going, state(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})), false},
	} {
		if got := Wants(c.pod); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
