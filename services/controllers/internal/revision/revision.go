// Package revision keeps the history of a workload's template in
// ControllerRevisions, in the form in which kubectl rollout reads it.
package revision

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
)

const (
	// HashLabel holds the hash of a StatefulSet's revision. DaemonSets use the
	// label that their pods have too, appsv1.DefaultDaemonSetUniqueLabelKey.
	HashLabel = "controller.kubernetes.io/hash"
	// maxOwner is how much of the owner's name a revision's name holds.
	maxOwner = 223
)

// Owner is a workload whose template has a history.
type Owner struct {
	metav1.Object
	Kind     schema.GroupVersionKind
	Template *corev1.PodTemplateSpec
	// HashLabel is the label of revisions that holds their hash.
	HashLabel string
	// Hash names a revision; nil is the Hash of its data.
	Hash func(data []byte, collisions int32) string
	// Collisions is how often a name was taken by other data: status.collisionCount.
	Collisions int32
}

// Data returns the strategic merge patch that gives a workload the template:
// {"spec":{"template":{…,"$patch":"replace"}}}, with sorted keys.
func Data(t *corev1.PodTemplateSpec) ([]byte, error) {
	encoded, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("encode pod template: %w", err)
	}
	fields := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber() // large integers are not for floats
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("decode pod template: %w", err)
	}
	fields["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
}

// Template returns the template that a revision holds.
func Template(r *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	var data struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("decode revision %s: %w", r.Name, err)
	}
	return &data.Spec.Template, nil
}

// matcher returns what finds the revisions of a template in a history. They are those with its Data; where there are none, those whose
// text differs but says the same, as an older release wrote it.
func matcher(history []*appsv1.ControllerRevision, t *corev1.PodTemplateSpec, data []byte) func(*appsv1.ControllerRevision) bool {
	same := func(r *appsv1.ControllerRevision) bool { return bytes.Equal(r.Data.Raw, data) }
	if slices.ContainsFunc(history, same) {
		return same
	}
	return func(r *appsv1.ControllerRevision) bool {
		had, err := Template(r)
		return err == nil && apiequality.Semantic.DeepEqual(had, t)
	}
}

// Hash names data. It is Kubernetes' hash: a revision has the same name there.
func Hash(data []byte, collisions int32) string {
	h := fnv.New32()
	h.Write(data)
	h.Write([]byte(strconv.FormatInt(int64(collisions), 10)))
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// New returns the revision of the owner's template, with a number, its data as Data returns it.
func New(o Owner, data []byte, number int64) *appsv1.ControllerRevision {
	hashOf := o.Hash
	if hashOf == nil {
		hashOf = Hash
	}
	hash := hashOf(data, o.Collisions)
	labels := maps.Clone(o.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[o.HashLabel] = hash
	name := o.GetName()
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.GetNamespace(), Name: name[:min(len(name), maxOwner)] + "-" + hash,
			Labels: labels, Annotations: maps.Clone(o.GetAnnotations()),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o, o.Kind)},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
}

// Sort orders revisions from the oldest to the newest.
func Sort(revisions []*appsv1.ControllerRevision) {
	slices.SortFunc(revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// Found is where a history has a template.
type Found struct {
	// Current is the newest revision of the template, nil where there is none.
	Current *appsv1.ControllerRevision
	// Number is what Current has, or must be given: more than that of any revision of another template.
	Number int64
	// Duplicates are older revisions of the same template, Others those of other templates, oldest first.
	Duplicates, Others []*appsv1.ControllerRevision
}

// Find looks for the template, whose Data is given, in a history.
func Find(history []*appsv1.ControllerRevision, t *corev1.PodTemplateSpec, data []byte) Found {
	sorted := slices.Clone(history)
	Sort(sorted)
	var f Found
	holds := matcher(sorted, t, data)
	for _, r := range sorted {
		if !holds(r) {
			f.Others = append(f.Others, r)
			f.Number = r.Revision
			continue
		}
		if f.Current != nil {
			f.Duplicates = append(f.Duplicates, f.Current)
		}
		f.Current = r
	}
	f.Number++
	if f.Current != nil {
		f.Number = max(f.Number, f.Current.Revision)
	}
	return f
}

// Expired returns the revisions that are no longer kept, oldest first: those that are not live, but for the newest ones as many
// as limit says. A negative limit keeps all.
func Expired(history []*appsv1.ControllerRevision, limit int32, live func(*appsv1.ControllerRevision) bool) []*appsv1.ControllerRevision {
	if limit < 0 {
		return nil
	}
	dead := slices.DeleteFunc(slices.Clone(history), live)
	Sort(dead)
	return dead[:max(0, len(dead)-int(limit))]
}
