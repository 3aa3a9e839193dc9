// Package attachdetach decides which volumes of CSI drivers are attached to which nodes: it makes and deletes VolumeAttachments, which the
// drivers' attachers bring about, and says in the status of a Node what is attached to it.
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

	"howdah.dev/kit/object"
)

const (
	// managed is the annotation of nodes whose volumes this controller attaches. Without it, nobody there looks for what is attached.
	managed = "volumes.kubernetes.io/controller-managed-attach-detach"
	// maxWait is how long a volume stays attached for the sake of a node that is not ready and says that it is in use.
	maxWait = 6 * time.Minute
)

// Volume is one that pods of a node want.
type Volume struct {
	PV             string
	Driver, Handle string
	// Shared says that nodes may have it at the same time.
	Shared bool
	Pods   []*corev1.Pod
}

func (v Volume) unique() corev1.UniqueVolumeName { return object.AttachableName(v.Driver, v.Handle) }

// Situation is what is known of a node. Volumes are known by the names of their attachments.
type Situation struct {
	Node *corev1.Node // nil where it is gone
	// Wanted are those that its pods want.
	Wanted map[string]Volume
	// There are the attachments to this node.
	There map[string]*storagev1.VolumeAttachment
	// Elsewhere are the attachments of wanted volumes to other nodes.
	Elsewhere map[string][]*storagev1.VolumeAttachment
	// Since is when it was first seen that nobody wants an attached volume.
	Since map[string]time.Time
}

// Event is what the pods of a volume are told.
type Event struct {
	Pods                  []*corev1.Pod
	Kind, Reason, Message string
}

// Plan is what is to be done: first the status, then the attachments.
type Plan struct {
	// Attached is what the status of the node says to be attached, where it does not yet; nil leaves it as it is.
	Attached []corev1.AttachedVolume
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
	inUse := names(s.Node, func(n *corev1.Node) []corev1.UniqueVolumeName { return n.Status.VolumesInUse })
	attached := map[corev1.UniqueVolumeName]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.Wanted)) {
		v, a := s.Wanted[name], s.There[name]
		switch {
		case a == nil:
			p.attach(v, s.Elsewhere[name], s.Node)
		case a.DeletionTimestamp != nil: // it comes again when it is gone
		case a.Status.Attached:
			attached[v.unique()] = true
			if !told(s.Node, v.unique()) {
				p.tell(v.Pods, corev1.EventTypeNormal, "SuccessfulAttachVolume", fmt.Sprintf("AttachVolume.Attach succeeded for volume %q ", v.PV))
			}
		case a.Status.AttachError != nil:
			p.tell(v.Pods, corev1.EventTypeWarning, "FailedAttachVolume", fmt.Sprintf("AttachVolume.Attach failed for volume %q : %s", v.PV, a.Status.AttachError.Message))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.There)) {
		if _, wanted := s.Wanted[name]; wanted || s.There[name].DeletionTimestamp != nil {
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
func (p *Plan) attach(v Volume, elsewhere []*storagev1.VolumeAttachment, node *corev1.Node) {
	if node == nil || node.Annotations[managed] != "true" {
		return
	}
	if v.Shared || len(elsewhere) == 0 {
		p.Attach = append(p.Attach, v)
		return
	}
	if slices.ContainsFunc(elsewhere, func(a *storagev1.VolumeAttachment) bool { return a.DeletionTimestamp == nil }) {
		p.tell(v.Pods, corev1.EventTypeWarning, "FailedAttachVolume",
			fmt.Sprintf("Multi-Attach error for volume %q Volume is already exclusively attached to one node and can't be attached to another", v.PV))
	}
}

func (p *Plan) tell(pods []*corev1.Pod, kind, reason, message string) {
	p.Events = append(p.Events, Event{pods, kind, reason, message})
}

// status sets what the node is told, unless it has been told so.
func (p *Plan) status(node *corev1.Node, attached map[corev1.UniqueVolumeName]bool) {
	if node == nil {
		return
	}
	changed := false
	list := []corev1.AttachedVolume{}
	for _, a := range node.Status.VolumesAttached {
		if attached[a.Name] || !strings.HasPrefix(string(a.Name), prefix) {
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

// names are volumes of CSI drivers in the status of a node, by the names of their attachments to it.
func names(node *corev1.Node, list func(*corev1.Node) []corev1.UniqueVolumeName) map[string]corev1.UniqueVolumeName {
	out := map[string]corev1.UniqueVolumeName{}
	if node == nil {
		return out
	}
	for _, unique := range list(node) {
		rest, ours := strings.CutPrefix(string(unique), prefix)
		if driver, handle, ok := strings.Cut(rest, "^"); ours && ok {
			out[object.AttachmentName(handle, driver, node.Name)] = unique
		}
	}
	return out
}

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
