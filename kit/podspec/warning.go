package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// renamedLabels are labels of nodes that have newer names, and what is said about them, in the order of their names.
var renamedLabels = []struct{ key, advice string }{
	{"beta.kubernetes.io/arch", `deprecated since v1.14; use "kubernetes.io/arch" instead`},
	{"beta.kubernetes.io/instance-type", `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`},
	{"beta.kubernetes.io/os", `deprecated since v1.14; use "kubernetes.io/os" instead`},
	{"failure-domain.beta.kubernetes.io/region", `deprecated since v1.17; use "topology.kubernetes.io/region" instead`},
	{"failure-domain.beta.kubernetes.io/zone", `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`},
	{"node-role.kubernetes.io/master", `use "node-role.kubernetes.io/control-plane" instead`},
}

func advice(key string) (string, bool) {
	for _, l := range renamedLabels {
		if l.key == key {
			return l.advice, true
		}
	}
	return "", false
}

// warner collects what to tell a client.
type warner struct{ out []string }

func (w *warner) say(at *field.Path, format string, args ...any) {
	w.out = append(w.out, fmt.Sprintf("%s: "+format, append([]any{at}, args...)...))
}

const nullSelector = "a null labelSelector results in matching no pod"

// Warnings is what to tell the client about a spec that is valid, yet hardly
// what was meant, in Kubernetes' order. annotations is the path of those in meta.
func Warnings(spec *corev1.PodSpec, meta *metav1.ObjectMeta, path, annotations *field.Path) []string {
	w := &warner{}
	for _, l := range renamedLabels {
		if _, ok := spec.NodeSelector[l.key]; ok {
			w.say(path.Child("nodeSelector").Key(l.key), "%s", l.advice)
		}
	}
	w.nodeAffinity(spec.Affinity, path.Child("affinity", "nodeAffinity"))
	for i, c := range spec.TopologySpreadConstraints {
		at := path.Child("topologySpreadConstraints").Index(i)
		if text, renamed := advice(c.TopologyKey); renamed {
			w.say(at.Child("topologyKey"), "%s is %s", c.TopologyKey, text)
		}
		if c.LabelSelector == nil {
			w.say(at.Child("labelSelector"), nullSelector)
		}
	}
	for _, gone := range goneAnnotations {
		if _, ok := meta.Annotations[gone.key]; ok {
			w.say(annotations.Key(gone.key), "%s", gone.text)
		}
	}
	w.volumes(spec.Volumes, path.Child("volumes"))
	w.names(spec, path)
	w.annotations(spec, meta, annotations)
	for i := range spec.InitContainers {
		w.container(&spec.InitContainers[i], path.Child("initContainers").Index(i))
	}
	for i := range spec.Containers {
		w.container(&spec.Containers[i], path.Child("containers").Index(i))
	}
	w.ports(spec, path)
	if n := spec.TerminationGracePeriodSeconds; n != nil && *n < 0 {
		w.say(path.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	w.podAffinity(spec.Affinity, path.Child("affinity"))
	w.addresses(spec, path)
	return w.out
}

func (w *warner) nodeAffinity(a *corev1.Affinity, path *field.Path) {
	if a == nil || a.NodeAffinity == nil {
		return
	}
	term := func(t *corev1.NodeSelectorTerm, values bool, at *field.Path) {
		w.expressions(t.MatchExpressions, at)
		for i, e := range t.MatchExpressions {
			at := at.Child("matchExpressions").Index(i)
			for j, v := range e.Values {
				for _, m := range validation.IsValidLabelValue(v) {
					if values {
						w.say(at.Child("values").Index(j), "%s is invalid, %s", v, m)
					}
				}
			}
		}
	}
	if r := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		for i := range r.NodeSelectorTerms {
			term(&r.NodeSelectorTerms[i], false, path.Child(required, "nodeSelectorTerms").Index(i))
		}
	}
	for i := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		term(&a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference, true, path.Child(preferred).Index(i).Child("preference"))
	}
}

// expressions tells of labels that have newer names.
func (w *warner) expressions(list []corev1.NodeSelectorRequirement, path *field.Path) {
	for i, e := range list {
		if text, renamed := advice(e.Key); renamed {
			w.say(path.Child("matchExpressions").Index(i).Child("key"), "%s is %s", e.Key, text)
		}
	}
}

func (w *warner) names(spec *corev1.PodSpec, path *field.Path) {
	ips := map[string]bool{}
	for i, a := range spec.HostAliases {
		if ips[a.IP] {
			w.say(path.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", a.IP)
		}
		ips[a.IP] = true
	}
	secrets := map[string]bool{}
	for i, s := range spec.ImagePullSecrets {
		if secrets[s.Name] {
			w.say(path.Child("imagePullSecrets").Index(i).Child("name"), "duplicate name %q", s.Name)
		}
		secrets[s.Name] = true
	}
	for i, s := range spec.ImagePullSecrets {
		if strings.TrimSpace(s.Name) == "" {
			w.say(path.Child("imagePullSecrets").Index(i).Child("name"), "invalid empty name %q", s.Name)
		}
	}
}

// goneAnnotations have done nothing for long.
var goneAnnotations = [...]struct{ key, text string }{
	{"scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`},
	{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
}

// annotations tells of those that do nothing any more.
func (w *warner) annotations(spec *corev1.PodSpec, meta *metav1.ObjectMeta, path *field.Path) {
	const text = `non-functional in v1.27+; use the "seccompProfile" field instead`
	warn := func(key string) {
		if _, ok := meta.Annotations[key]; ok {
			w.say(path.Key(key), text)
		}
	}
	// A pod's own are told before all others.
	if path.String() != "metadata.annotations" {
		w.out = append(w.out, appArmorWarnings(spec, meta, path)...)
	}
	warn(seccompPod)
	for i := range spec.InitContainers {
		warn(seccompContainer + spec.InitContainers[i].Name)
	}
	for i := range spec.Containers {
		warn(seccompContainer + spec.Containers[i].Name)
	}
}

// NameWarnings tells of a new object's name that its pods cannot have as a host's; use says what it is used for.
func NameWarnings(name, use string) []string {
	problems := validation.IsDNS1123Label(name)
	if len(problems) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: this is used in %s, which can result in surprising behavior; a DNS label is recommended: %v", use, problems)}
}

// InPods is what the names of workloads are used for.
const InPods = "Pod names and hostnames"

// oldAppArmor is what is told of an annotation that is a field now.
const oldAppArmor = `deprecated since v1.30; use the "appArmorProfile" field instead`

// appArmorWarnings tells of annotations at path, of a template, that are fields now.
func appArmorWarnings(spec *corev1.PodSpec, meta *metav1.ObjectMeta, path *field.Path) []string {
	w := &warner{}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			key := appArmorContainer + list[i].Name
			text, ok := meta.Annotations[key]
			if c := list[i].SecurityContext; c != nil && c.AppArmorProfile != nil {
				continue
			}
			if profile := appArmorProfile(text); ok && (profile == nil || !equality.Semantic.DeepEqual(profile, podAppArmor(spec))) {
				w.say(path.Key(key), oldAppArmor)
			}
		}
	}
	return w.out
}

func (w *warner) podAffinity(a *corev1.Affinity, path *field.Path) {
	if a == nil {
		return
	}
	terms := func(must []corev1.PodAffinityTerm, rather []corev1.WeightedPodAffinityTerm, at *field.Path) {
		for i := range must {
			if must[i].LabelSelector == nil {
				w.say(at.Child(required).Index(i).Child("labelSelector"), nullSelector)
			}
		}
		for i := range rather {
			if rather[i].PodAffinityTerm.LabelSelector == nil {
				w.say(at.Child(preferred).Index(i).Child("podAffinityTerm", "labelSelector"), nullSelector)
			}
		}
	}
	if p := a.PodAffinity; p != nil {
		terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))
	}
	if p := a.PodAntiAffinity; p != nil {
		terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))
	}
}

func (w *warner) addresses(spec *corev1.PodSpec, path *field.Path) {
	if spec.DNSConfig != nil {
		for i, ip := range spec.DNSConfig.Nameservers {
			w.out = append(w.out, validation.GetWarningsForIP(path.Child("dnsConfig", "nameservers").Index(i), ip)...)
		}
	}
	for i, a := range spec.HostAliases {
		w.out = append(w.out, validation.GetWarningsForIP(path.Child("hostAliases").Index(i).Child("ip"), a.IP)...)
	}
}
