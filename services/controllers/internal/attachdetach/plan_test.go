package attachdetach

import (
	"reflect"
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

const (
	unique = corev1.UniqueVolumeName("kubernetes.io/csi/d^h")
	disk   = corev1.UniqueVolumeName("kubernetes.io/iscsi/192.0.2.7:3260:iqn.2001-04.com.example:disk:0")
)

// disksNode is the node with a disk in place of the volume of the CSI driver.
func disksNode(inUse, attached, isReady bool, taints ...string) *corev1.Node {
	n := node(inUse, attached, isReady, taints...)
	if inUse {
		n.Status.VolumesInUse = []corev1.UniqueVolumeName{disk}
	}
	if attached {
		n.Status.VolumesAttached[1].Name = disk
	}
	return n
}

func node(inUse, attached, isReady bool, taints ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{managed: "true", object.AttachesAnnotation: announcement()}}}
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

func hasStayed(a *storagev1.VolumeAttachment) {
	isGoing(a)
	a.Status.DetachError = &storagev1.VolumeError{Message: "busy"}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	type attachments = []*storagev1.VolumeAttachment
	unannounced := node(false, false, true)
	delete(unannounced.Annotations, object.AttachesAnnotation)
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
		"is attached to a node that is gone":   {wanted: true, there: attachment(isAttached), want: ""},
		"cannot be attached":                   {node: node(true, false, true), wanted: true, there: attachment(hasFailed), want: "FailedAttachVolume"},
		"wanted while it goes":                 {node: node(true, true, true), wanted: true, there: attachment(isAttached, isGoing), want: "untold"},
		"wanted while it cannot be detached":   {node: node(true, false, true), wanted: true, there: attachment(isAttached, hasStayed), want: "FailedAttachVolume"},
		"cannot be detached":                   {node: node(false, false, true), there: attachment(isAttached, hasStayed), want: ""},
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
		"not told what is attached to it":      {node: unannounced, want: "announce"},
	} {
		s := Situation{Node: c.node, Wanted: map[string]Volume{}, There: map[string]Attachment{}, Elsewhere: map[string][]Attachment{}}
		for _, a := range c.elsewhere {
			s.Elsewhere[key] = append(s.Elsewhere[key], Of(a))
		}
		if c.wanted {
			s.Wanted[key] = Volume{PV: "pv", Driver: "d", Handle: "h", Name: unique, Shared: c.shared, Pods: []*corev1.Pod{{}}}
		}
		if c.there != nil {
			s.There[key], s.Since = Of(c.there), map[string]time.Time{key: now.Add(-c.since)}
		}
		if got := describe(Decide(s, now), key, unique); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestDecideNoted is about a volume whose attachment is what the status of the node says and nothing else.
func TestDecideNoted(t *testing.T) {
	t.Parallel()
	here := func(d time.Duration) *time.Duration { return &d }
	other := []Attachment{{Node: "other", Attached: true}}
	for name, c := range map[string]struct {
		node           *corev1.Node
		wanted, shared bool
		there          *time.Duration // it is there, and for how long nobody has wanted it
		elsewhere      []Attachment
		want           string
	}{
		"new":                                  {node: disksNode(true, false, true), wanted: true, want: "attach told SuccessfulAttachVolume"},
		"before the node says so":              {node: disksNode(false, false, true), wanted: true, want: "attach told SuccessfulAttachVolume"},
		"on a node that nobody looks after":    {node: &corev1.Node{}, wanted: true, want: ""},
		"on a node that is gone":               {wanted: true, want: ""},
		"another node has it":                  {node: disksNode(true, false, true), wanted: true, elsewhere: other, want: "FailedAttachVolume"},
		"another node shares it":               {node: disksNode(true, false, true), wanted: true, shared: true, elsewhere: other, want: "attach told SuccessfulAttachVolume"},
		"both nodes have it":                   {node: disksNode(true, true, true), wanted: true, there: here(0), elsewhere: other, want: ""},
		"is attached":                          {node: disksNode(true, true, true), wanted: true, there: here(0), want: ""},
		"its node came back":                   {node: disksNode(true, false, true), wanted: true, there: here(0), want: "told SuccessfulAttachVolume"},
		"its node came back, unwanted":         {node: disksNode(true, false, true), there: here(0), want: ""},
		"its node came back, not in use":       {node: disksNode(false, false, true), there: here(0), want: "detach"},
		"unwanted, in use for long":            {node: disksNode(true, true, true), there: here(time.Hour), want: ""},
		"unwanted, not in use":                 {node: disksNode(false, true, true), there: here(0), want: "detach untold"},
		"in use on a node that is not ready":   {node: disksNode(true, true, false), there: here(time.Minute), want: "after 5m0s"},
		"in use on a node that was lost":       {node: disksNode(true, true, false), there: here(6 * time.Minute), want: "force untold"},
		"in use on a node out of service":      {node: disksNode(true, true, false, corev1.TaintNodeOutOfService), there: here(0), want: "force untold"},
		"on a node that is gone since a while": {there: here(2 * time.Minute), want: "after 4m0s"},
		"on a node that is gone for long":      {there: here(7 * time.Minute), want: "force"},
	} {
		s := Situation{Node: c.node, Wanted: map[string]Volume{}, There: map[string]Attachment{}, Elsewhere: map[string][]Attachment{string(disk): c.elsewhere}}
		if c.wanted {
			s.Wanted[string(disk)] = Volume{PV: "pv", Name: disk, Noted: true, Shared: c.shared, Pods: []*corev1.Pod{{}}}
		}
		if c.there != nil {
			s.There[string(disk)], s.Since = Attachment{Node: "n", Attached: true}, map[string]time.Time{string(disk): now.Add(-*c.there)}
		}
		p := Decide(s, now)
		for _, v := range p.Attach {
			p.note(c.node, v)
		}
		if got := describe(p, string(disk), disk); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestHeld names the pods of the same namespace, and counts others.
func TestHeld(t *testing.T) {
	t.Parallel()
	user := func(namespace, name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	for want, users := range map[string][]*corev1.Pod{
		"Volume is already exclusively attached to one node and can't be attached to another": nil,
		"Volume is already used by pod(s) a, b":                                               {user("ns", "b"), user("ns", "a")},
		"Volume is already used by pod(s) a and 2 pod(s) in different namespaces":             {user("x", "x"), user("ns", "a"), user("y", "y")},
		"Volume is already used by 1 pod(s) in different namespaces":                          {user("x", "x")},
	} {
		if got := held(user("ns", "p"), users); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestKinds calls volumes what Kubernetes calls them, portals spelled as they are.
func TestKinds(t *testing.T) {
	t.Parallel()
	inline := func(s corev1.VolumeSource) *corev1.Volume { return &corev1.Volume{Name: "v", VolumeSource: s} }
	of := func(s corev1.PersistentVolumeSource, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: s, AccessModes: modes}}
	}
	iscsi := corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: "192.0.2.7:3260", IQN: "iqn.2001-04.com.example:disk"}}
	for name, c := range map[string]struct {
		pod  *corev1.Volume
		pv   *corev1.PersistentVolume
		want Volume
	}{
		"a pod's disk":       {pod: inline(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.7", IQN: "iqn.2001-04.com.example:disk", Lun: 3}}), want: Volume{PV: "v", Name: "kubernetes.io/iscsi/192.0.2.7:iqn.2001-04.com.example:disk:3", Noted: true, Shared: true}},
		"a pod's folder":     {pod: inline(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})},
		"a disk of one node": {pv: of(iscsi, corev1.ReadWriteOnce), want: Volume{PV: "pv", Name: disk, Noted: true}},
		"a disk of one pod":  {pv: of(iscsi, corev1.ReadWriteOncePod), want: Volume{PV: "pv", Name: disk, Noted: true}},
		"a disk to read":     {pv: of(iscsi, corev1.ReadWriteOnce, corev1.ReadOnlyMany), want: Volume{PV: "pv", Name: disk, Noted: true, Shared: true}},
		"a disk of anybody":  {pv: of(iscsi), want: Volume{PV: "pv", Name: disk, Noted: true, Shared: true}},
		"a driver's":         {pv: of(corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}}, corev1.ReadWriteOnce), want: Volume{PV: "pv", Driver: "d", Handle: "h", Name: unique}},
		"a folder":           {pv: of(corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{}})},
	} {
		var got Volume
		var ok bool
		if c.pod != nil {
			got, ok = ofPod(c.pod)
		} else {
			got, ok = ofCluster(c.pv)
		}
		if !reflect.DeepEqual(got, c.want) || ok != (c.want.Name != "") {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// describe is a plan for one volume in few words.
func describe(p Plan, key string, unique corev1.UniqueVolumeName) string {
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
	add(p.Announce, "announce")
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
