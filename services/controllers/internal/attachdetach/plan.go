// Package attachdetach decides which volumes are attached to which nodes. For those of CSI drivers it makes and deletes VolumeAttachments, which the
// drivers' attachers bring about; for some other kinds nothing has to be brought about. What is attached to a node it says in the status of the Node.
//
// A node says in its status which volumes are in use there. What is in use is not detached, unless the node is lost; and nothing is detached before
// the status has ceased to call it attached, in a write that would fail had the node just begun to use it.
package attachdetach

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
)

const (
	// managed is the annotation of nodes whose volumes this controller attaches. Without it, nobody there looks for what is attached.
	managed = object.ManagedAttachAnnotation
	// maxWait is how long a volume stays attached for the sake of a node that is not ready and says that it is in use.
	maxWait = 6 * time.Minute
)

// Volume is one that pods of a node want.
type Volume struct {
	PV string // or the name of the volume in the pod
	// Driver and Handle are those of a CSI driver's volume.
	Driver, Handle string
	// Name is what the status of nodes calls it.
	Name corev1.UniqueVolumeName
	// Noted says that it is attached where the status of a node calls it so, and that there is no VolumeAttachment.
	Noted bool
	// Shared says that nodes may have it at the same time.
	Shared bool
	Pods   []*corev1.Pod
}

// key is the name of the volume's attachment to a node. Those that are noted have the volume's name.
func (v Volume) key(node string) string {
	if v.Noted {
		return string(v.Name)
	}
	return object.AttachmentName(v.Handle, v.Driver, node)
}

// Attachment is how far a volume is on its way to a node, or from it.
type Attachment struct {
	Node            string
	Attached, Going bool
	// Problem is why it could not be attached, or detached, when that was last tried, at Tried.
	Problem string
	Tried   metav1.Time
	// Object says all that, unless the volume is noted.
	Object *storagev1.VolumeAttachment
}

// Of returns what a VolumeAttachment says.
func Of(a *storagev1.VolumeAttachment) Attachment {
	out := Attachment{Node: a.Spec.NodeName, Attached: a.Status.Attached, Going: a.DeletionTimestamp != nil, Object: a}
	problem := a.Status.AttachError
	if out.Going {
		problem = a.Status.DetachError
	}
	if problem != nil {
		out.Problem, out.Tried = problem.Message, problem.Time
	}
	return out
}

// Situation is what is known of a node. Volumes are known by the names of their attachments.
type Situation struct {
	Node *corev1.Node // nil where it is gone
	// Wanted are those that its pods want.
	Wanted map[string]Volume
	// There are the attachments to this node.
	There map[string]Attachment
	// Elsewhere are the attachments of wanted volumes to other nodes, and Users the pods there that want the volumes.
	Elsewhere map[string][]Attachment
	Users     map[string][]*corev1.Pod
	// Since is when it was first seen that nobody wants an attached volume.
	Since map[string]time.Time
}

// Event is what the pods of a volume are told.
type Event struct {
	Pods                  []*corev1.Pod
	Kind, Reason, Message string
	// At is the time of what is told, which may happen again; zero for what goes on.
	At metav1.Time
}

// Plan is what is to be done: first the status, then the attachments.
type Plan struct {
	// Attached is what the status of the node says to be attached, where it does not yet; nil leaves it as it is.
	Attached []corev1.AttachedVolume
	// Announce says that the node is to be told what is attached to it beside volumes of CSI drivers.
	Announce bool
	Attach   []Volume
	// Detach are names. Those that are forced are deleted whether they are in use or not.
	Detach, Forced []string
	Events         []Event
	// After is when to look again though nothing happens; 0 is never.
	After time.Duration
}

// Decide makes the plan.
func Decide(s Situation, now time.Time) Plan {
	var p Plan
	p.Announce = manages(s.Node) && s.Node.Annotations[object.AttachesAnnotation] != announcement()
	inUse := used(s.Node)
	attached := map[corev1.UniqueVolumeName]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.Wanted)) {
		v := s.Wanted[name]
		switch a, there := s.There[name]; {
		case !there:
			p.attach(v, s.Elsewhere[name], s.Users[name], s.Node)
		case a.Going: // it comes again when it is gone
			if a.Problem != "" {
				p.failed(v, "volume attachment is being deleted", a.Tried)
			}
		case a.Attached:
			attached[v.Name] = true
			if s.Node != nil && !told(s.Node, v.Name) {
				p.attached(v)
			}
		case a.Problem != "":
			p.failed(v, a.Problem, a.Tried)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.There)) {
		if _, wanted := s.Wanted[name]; wanted || s.There[name].Going {
			continue
		}
		unique, used := inUse[name]
		switch wait := s.Since[name].Add(maxWait).Sub(now); {
		case !used && s.Node != nil:
			p.Detach = append(p.Detach, name)
		case lost(s.Node), wait <= 0 && !ready(s.Node):
			p.Forced = append(p.Forced, name)
		default:
			attached[unique] = told(s.Node, unique)
			if !ready(s.Node) && (p.After == 0 || wait < p.After) {
				p.After = wait
			}
		}
	}
	p.status(s.Node, attached)
	return p
}

// attach has a volume attached, unless another node has it for itself.
func (p *Plan) attach(v Volume, elsewhere []Attachment, users []*corev1.Pod, node *corev1.Node) {
	if !manages(node) {
		return
	}
	if v.Shared || len(elsewhere) == 0 {
		p.Attach = append(p.Attach, v)
		return
	}
	if slices.ContainsFunc(elsewhere, func(a Attachment) bool { return !a.Going }) {
		for _, pod := range v.Pods {
			p.tell([]*corev1.Pod{pod}, corev1.EventTypeWarning, failed, fmt.Sprintf("Multi-Attach error for volume %q %s", v.PV, held(pod, users)))
		}
	}
}

// held says by whom a pod is held back. Who may see a pod need not know of pods in other namespaces.
func held(pod *corev1.Pod, users []*corev1.Pod) string {
	var near []string
	for _, u := range users {
		if u.Namespace == pod.Namespace {
			near = append(near, u.Name)
		}
	}
	far := len(users) - len(near)
	slices.Sort(near)
	switch {
	case len(users) == 0:
		return "Volume is already exclusively attached to one node and can't be attached to another"
	case len(near) == 0:
		return fmt.Sprintf("Volume is already used by %d pod(s) in different namespaces", far)
	case far > 0:
		return fmt.Sprintf("Volume is already used by pod(s) %s and %d pod(s) in different namespaces", strings.Join(near, ", "), far)
	}
	return "Volume is already used by pod(s) " + strings.Join(near, ", ")
}

// note has the status of the node call a volume attached, which is all that its attachment is.
func (p *Plan) note(node *corev1.Node, v Volume) {
	if p.Attached == nil {
		p.Attached = slices.Clone(node.Status.VolumesAttached)
	}
	p.Attached = append(p.Attached, corev1.AttachedVolume{Name: v.Name})
	p.attached(v)
}

// failed is the reason of events that tell of volumes that are not attached.
const failed = "FailedAttachVolume"

func (p *Plan) attached(v Volume) {
	p.tell(v.Pods, corev1.EventTypeNormal, "SuccessfulAttachVolume", fmt.Sprintf("AttachVolume.Attach succeeded for volume %q ", v.PV))
}

func (p *Plan) failed(v Volume, why string, at metav1.Time) {
	p.Events = append(p.Events, Event{v.Pods, corev1.EventTypeWarning, failed, fmt.Sprintf("AttachVolume.Attach failed for volume %q : %s", v.PV, why), at})
}

func (p *Plan) tell(pods []*corev1.Pod, kind, reason, message string) {
	p.Events = append(p.Events, Event{Pods: pods, Kind: kind, Reason: reason, Message: message})
}

// status sets what the node is told, unless it has been told so.
func (p *Plan) status(node *corev1.Node, attached map[corev1.UniqueVolumeName]bool) {
	if node == nil {
		return
	}
	changed := false
	list := []corev1.AttachedVolume{}
	for _, a := range node.Status.VolumesAttached {
		if attached[a.Name] || !strings.HasPrefix(string(a.Name), prefix) && !isNote(a.Name) {
			list = append(list, a)
			delete(attached, a.Name)
		} else {
			changed = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(attached)) {
		if attached[name] {
			list, changed = append(list, corev1.AttachedVolume{Name: name}), true
		}
	}
	if changed {
		p.Attached = list
	}
}

// told reports whether the status of a node calls a volume attached.
func told(node *corev1.Node, name corev1.UniqueVolumeName) bool {
	return node != nil && slices.ContainsFunc(node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == name })
}

const prefix = "kubernetes.io/csi/"

// used are the volumes that a node says to be in use, by the names of their attachments to it.
func used(node *corev1.Node) map[string]corev1.UniqueVolumeName {
	out := map[string]corev1.UniqueVolumeName{}
	if node == nil {
		return out
	}
	for _, unique := range node.Status.VolumesInUse {
		rest, driven := strings.CutPrefix(string(unique), prefix)
		if driver, handle, ok := strings.Cut(rest, "^"); driven && ok {
			out[object.AttachmentName(handle, driver, node.Name)] = unique
		} else if isNote(unique) {
			out[string(unique)] = unique
		}
	}
	return out
}

// manages reports whether a node waits until its volumes are attached.
func manages(node *corev1.Node) bool { return node != nil && node.Annotations[managed] == "true" }

// lost reports whether an operator has said that nothing runs on a node.
func lost(node *corev1.Node) bool {
	return node != nil && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

func ready(node *corev1.Node) bool {
	return node != nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// Wants reports whether a pod's volumes are to be attached: until nothing of it runs any more.
func Wants(p *corev1.Pod) bool {
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	if p.DeletionTimestamp == nil {
		return true
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Terminated == nil && c.State.Waiting == nil {
			return true
		}
	}
	return false
}

// Shared reports whether several nodes may have a volume.
func Shared(pv *corev1.PersistentVolume) bool {
	return len(pv.Spec.AccessModes) == 0 || slices.Contains(pv.Spec.AccessModes, corev1.ReadWriteMany) || slices.Contains(pv.Spec.AccessModes, corev1.ReadOnlyMany)
}

// Attachable reports whether a driver's volumes are attached to nodes.
func Attachable(driver *storagev1.CSIDriver) bool {
	return driver == nil || driver.Spec.AttachRequired == nil || *driver.Spec.AttachRequired
}
